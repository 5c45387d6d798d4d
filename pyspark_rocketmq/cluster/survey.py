"""Ask all brokers the same, and keep what each answers, or why one does not.

Commands and monitors use this: a broker that fails must not hide what the others say, and what it would have said must
be shown as unknown. So results hold an error in the place of an answer. All brokers are asked at once; requests that
fail with a retriable error are sent once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ..broker_errors import ConsumerNotOnline, GroupWithoutMembers
from ..errors import AnswerMismatch, RocketMQError, located
from ..model import Address, MessageQueue
from ..net.deadline import Deadline
from ..wire.bodies import (
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    KVTable,
    OffsetWrapper,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from ..wire.commands import (
    GetAllSubscriptionGroupRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetBrokerConfigRequestHeader,
    GetBrokerRuntimeInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    RequestHeader,
)
from .nameserver import NameServers
from .routes import MASTER_ID, BrokerEndpoints
from .servers import Reply, ServerRequest, Servers

__all__ = ["BrokerProcess", "Survey", "Surveyed", "answers_of", "number_in", "read_settings"]

T = TypeVar("T")
Surveyed = dict[str, T | RocketMQError]
"""The answer of each broker, or the error in its place, by broker name."""
_OFFLINE = (ConsumerNotOnline, GroupWithoutMembers)
_MOST_DIGITS = 18


class BrokerProcess(NamedTuple):
    """One process of a broker."""

    cluster: str
    broker_name: str
    broker_id: int
    address: Address


class Survey:
    """Requests to all registered brokers; what one broker does not answer is an error among the results."""

    def __init__(self, servers: Servers, name_servers: NameServers) -> None:
        self._servers = servers
        self._name_servers = name_servers
        self._namespace = servers.settings.namespace

    def fetch_brokers(self, deadline: Deadline | None = None) -> tuple[BrokerEndpoints, ...]:
        """Return the brokers that the name servers know; raise if no name server answers."""
        return self._name_servers.fetch_brokers(deadline)

    # --- topics and groups -------------------------------------------------------------------------------------------

    def fetch_topic_configs(
        self, brokers: Iterable[BrokerEndpoints], deadline: Deadline | None = None
    ) -> Surveyed[dict[str, TopicConfig]]:
        """Return the topics that each master has, by the user's names; topics of other namespaces are left out."""

        def read(reply: Reply) -> dict[str, TopicConfig]:
            table = reply.body(TopicConfigSerializeWrapper).topic_config_table
            return {self._namespace.unwrap(name): each for name, each in table.items() if self._namespace.holds(name)}

        return self._ask_masters(brokers, GetAllTopicConfigRequestHeader(), read, deadline)

    def fetch_group_configs(
        self, brokers: Iterable[BrokerEndpoints], deadline: Deadline | None = None
    ) -> Surveyed[dict[str, SubscriptionGroupConfig]]:
        """Return the groups that each master has, by the user's names; groups of other namespaces are left out."""

        def read(reply: Reply) -> dict[str, SubscriptionGroupConfig]:
            table = reply.body(SubscriptionGroupWrapper).subscription_group_table
            return {self._namespace.unwrap(name): each for name, each in table.items() if self._namespace.holds(name)}

        return self._ask_masters(brokers, GetAllSubscriptionGroupRequestHeader(), read, deadline)

    def fetch_connections(
        self, brokers: Iterable[BrokerEndpoints], group: str, deadline: Deadline | None = None
    ) -> Surveyed[ConsumerConnection]:
        """Return the group's members and subscriptions at each master; no members at a master that knows none."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        found = self._ask_masters(brokers, header, lambda reply: reply.body(ConsumerConnection), deadline)
        return {name: ConsumerConnection() if isinstance(each, _OFFLINE) else each for name, each in found.items()}

    def fetch_running_infos(
        self, group: str, places: Mapping[str, BrokerEndpoints], deadline: Deadline | None = None
    ) -> Surveyed[ConsumerRunningInfo]:
        """Return what each member reports about itself, by client id.

        `places` names for each client id a broker that knows the member; the request goes through its master.
        """
        placed = {name: _place(broker, _running_info_header(group, name)) for name, broker in places.items()}
        return self._ask_each(placed, lambda reply: reply.body(ConsumerRunningInfo), deadline)

    def fetch_topics_of_group(
        self, brokers: Iterable[BrokerEndpoints], group: str, deadline: Deadline | None = None
    ) -> Surveyed[set[str]]:
        """Return the topics in which a group has positions, from each master; masters before 5.0 refuse."""

        def read(reply: Reply) -> set[str]:
            return set(map(self._namespace.unwrap, reply.body(TopicList).topic_list))

        return self._ask_masters(brokers, QueryTopicsByConsumerRequestHeader(group=group), read, deadline)

    # --- offsets -----------------------------------------------------------------------------------------------------

    def fetch_topic_stats(
        self, brokers: Iterable[BrokerEndpoints], topic: str, deadline: Deadline | None = None
    ) -> Surveyed[dict[MessageQueue, TopicOffset]]:
        """Return the bounds and the last store time of each queue of a topic, from the masters of these brokers."""

        def read(reply: Reply) -> dict[MessageQueue, TopicOffset]:
            return self._unwrapped(reply, reply.body(TopicStatsTable).offset_table)

        return self._ask_masters(brokers, GetTopicStatsInfoRequestHeader(topic=topic), read, deadline)

    def fetch_consume_stats(
        self,
        brokers: Iterable[BrokerEndpoints],
        group: str,
        topic: str | None = None,
        deadline: Deadline | None = None,
    ) -> Surveyed[dict[MessageQueue, OffsetWrapper]]:
        """Return, from each master, a group's position in each queue and the queue's end.

        These are the queues of one topic or, without `topic`, of all topics in which the group has a position. A broker
        reports 0 for a missing position. While it knows members of the group, it leaves out topics to which none of
        them subscribes.
        """

        def read(reply: Reply) -> dict[MessageQueue, OffsetWrapper]:
            return self._unwrapped(reply, reply.body(ConsumeStats).offset_table)

        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        return self._ask_masters(brokers, header, read, deadline)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def fetch_broker_configs(
        self, brokers: Iterable[BrokerEndpoints], deadline: Deadline | None = None
    ) -> Surveyed[dict[str, str]]:
        """Return the settings of each master."""
        return self._ask_masters(brokers, GetBrokerConfigRequestHeader(), read_settings, deadline)

    def fetch_master_infos(
        self, brokers: Iterable[BrokerEndpoints], deadline: Deadline | None = None
    ) -> Surveyed[dict[str, str]]:
        """Return the runtime figures of each master."""
        return self._ask_masters(brokers, GetBrokerRuntimeInfoRequestHeader(), _read_figures, deadline)

    def fetch_runtime_infos(
        self, brokers: Iterable[BrokerEndpoints], deadline: Deadline | None = None
    ) -> dict[BrokerProcess, dict[str, str] | RocketMQError]:
        """Return the runtime figures of each broker process, replicas included.

        Brokers 4.9 respond with a system error in the first second after their start, before they have any figures.
        """
        processes = [
            BrokerProcess(broker.cluster, broker.broker_name, place.broker_id, place.address)
            for broker in brokers
            for place in broker.endpoints
        ]
        header = GetBrokerRuntimeInfoRequestHeader()
        requests = [ServerRequest(each.address, header, b"", each.broker_name, each.broker_id) for each in processes]
        results = self._ask_all(requests, deadline)
        return {process: _read(result, _read_figures) for process, result in zip(processes, results, strict=True)}

    # --- requests ----------------------------------------------------------------------------------------------------

    def _ask_masters(
        self,
        brokers: Iterable[BrokerEndpoints],
        header: RequestHeader,
        read: Callable[[Reply], T],
        deadline: Deadline | None,
    ) -> Surveyed[T]:
        return self._ask_each({broker.broker_name: _place(broker, header) for broker in brokers}, read, deadline)

    def _ask_each(
        self,
        placed: Mapping[str, ServerRequest | RocketMQError],
        read: Callable[[Reply], T],
        deadline: Deadline | None,
    ) -> Surveyed[T]:
        """Send all requests at once; an error in the place of a request or a reply is its result."""
        sent = {name: each for name, each in placed.items() if isinstance(each, ServerRequest)}
        replies = dict(zip(sent, self._ask_all(tuple(sent.values()), deadline), strict=True))
        failed = {name: each for name, each in placed.items() if isinstance(each, RocketMQError)}
        return {name: failed[name] if name in failed else _read(replies[name], read) for name in placed}

    def _ask_all(self, requests: Sequence[ServerRequest], deadline: Deadline | None) -> list[Reply | RocketMQError]:
        """Send all requests, and those that failed with a retriable error once more."""
        results = self._servers.ask_all(requests, deadline=deadline)
        again = [number for number, each in enumerate(results) if isinstance(each, RocketMQError) and each.retriable]
        repeated = self._servers.ask_all([requests[number] for number in again], deadline=deadline)
        for number, result in zip(again, repeated, strict=True):
            results[number] = result
        return results

    def _unwrapped(self, reply: Reply, table: Mapping[MessageQueue, T]) -> dict[MessageQueue, T]:
        """Return a broker's table by the user's names; raise `AnswerMismatch` if it has queues of another broker."""
        for queue in table:
            if queue.broker_name != reply.request.broker_name:
                with located(reply.request.where()):
                    raise AnswerMismatch(f"the response reports {queue}, a queue of another broker")
        return {self._namespace.unwrap_queue(queue): each for queue, each in table.items()}


def answers_of(found: Mapping[str, T | RocketMQError]) -> dict[str, T]:
    """Return the answers of a survey, without the errors; raise the first error if no broker answered."""
    answers = {name: each for name, each in found.items() if not isinstance(each, RocketMQError)}
    failures = [each for each in found.values() if isinstance(each, RocketMQError)]
    if failures and not answers:
        raise failures[0]
    return answers


def read_settings(reply: Reply) -> dict[str, str]:
    """Return a broker's settings from its response, whose body is a properties file."""
    lines = str(reply.command.body, "utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name: value for name, equals, value in pairs if equals}


def number_in(figures: Mapping[str, str], name: str) -> int | None:
    """Return a number, not below 0, that a broker reports under a name; None if it reports none."""
    text = figures.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _read_figures(reply: Reply) -> dict[str, str]:
    return reply.body(KVTable).table


def _running_info_header(group: str, client_id: str) -> GetConsumerRunningInfoRequestHeader:
    return GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id, jstack_enable=False)


def _place(broker: BrokerEndpoints, header: RequestHeader) -> ServerRequest | RocketMQError:
    try:
        return ServerRequest(broker.master(), header, b"", broker.broker_name, MASTER_ID)
    except RocketMQError as error:
        return error


def _read(result: Reply | RocketMQError, read: Callable[[Reply], T]) -> T | RocketMQError:
    if isinstance(result, RocketMQError):
        return result
    try:
        return read(result)
    except RocketMQError as error:
        return error
