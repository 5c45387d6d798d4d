"""How does a client belong to a group, and hold queues for itself alone?

Brokers know members by the heartbeats that each of them gets, and locks by the master that owns the queue. Heartbeats
and farewells go to single addresses, because membership is per process; everything else goes by route.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..broker_errors import ConsumerNotOnline, GroupWithoutMembers
from ..errors import LimitExceeded, RocketMQError
from ..model import Address, MessageQueue, retry_topic
from ..net.deadline import Deadline, in_turn
from ..wire.bodies import (
    CheckClientRequestBody,
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    ProducerConnection,
    SubscriptionData,
    encode_body,
)
from ..wire.commands import (
    CheckClientConfigRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetProducerConnectionListRequestHeader,
    HeartbeatRequestHeader,
    HeartbeatResponseHeader,
    LockBatchMqRequestHeader,
    RequestHeader,
    UnlockBatchMqRequestHeader,
    UnregisterClientRequestHeader,
)
from .broker import Brokers, RoutedRequest
from .names import Namespace
from .servers import ServerRequest

MOST_MEMBERS = 10_000
"""Members of one group: every member divides the queues among all of them."""
_OFFLINE = (ConsumerNotOnline, GroupWithoutMembers)


@dataclass(frozen=True, slots=True)
class Locked:
    """What became of an attempt to lock queues."""

    granted: frozenset[MessageQueue]
    refused: frozenset[MessageQueue]
    """Queues that another client holds."""
    unknown: Mapping[str, RocketMQError]
    """Brokers that gave no answer: what was held there before is still held."""


class HeartbeatReply(NamedTuple):
    """What a broker makes of a heartbeat."""

    broker_version: int
    knows_version_2: bool
    subscription_changed: bool


class Groups:
    """Members, locks and subscriptions of groups."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._namespace = brokers.settings.namespace

    # --- membership --------------------------------------------------------------------------------------------------

    def heartbeat(self, address: Address, data: HeartbeatData, deadline: Deadline | None = None) -> HeartbeatReply:
        """Tell one broker process that a client is alive and what it wants."""
        body = encode_body(_wrap_heartbeat(data, self._namespace))
        reply = self._brokers.servers.ask(ServerRequest(address, HeartbeatRequestHeader(), body), deadline=deadline)
        said = reply.header(HeartbeatResponseHeader)
        return HeartbeatReply(reply.command.version, bool(said.is_support_heart_beat_v2), bool(said.is_sub_change))

    def unregister(
        self,
        address: Address,
        client_id: str,
        *,
        producer_group: str | None = None,
        consumer_group: str | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Tell one broker process that a client leaves a group."""
        header = UnregisterClientRequestHeader(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        self._brokers.servers.ask(ServerRequest(address, header), deadline=deadline)

    def fetch_members(self, group: str, topic: str, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Client ids of the group's live members, as a broker of the topic knows them."""
        header = GetConsumerListByGroupRequestHeader(consumer_group=group)
        try:
            reply = self._brokers.ask_any(topic, header, deadline=deadline)
        except GroupWithoutMembers:
            return ()
        members = reply.body(GetConsumerListByGroupResponseBody).consumer_id_list
        if len(members) > MOST_MEMBERS:
            what = f"the broker lists {len(members)} members of the group, the limit is {MOST_MEMBERS}"
            raise LimitExceeded(what, advice="look who joins the group", **reply.request.where())
        return members

    def check_subscription(
        self, group: str, client_id: str, subscription: SubscriptionData, deadline: Deadline | None = None
    ) -> None:
        """Have a broker of the topic check a filter expression; it raises if the expression will not do."""
        body = CheckClientRequestBody(
            client_id=client_id,
            group=self._namespace.wrap(group),
            subscription_data=_wrap_subscription(subscription, self._namespace),
        )
        self._brokers.ask_any(
            subscription.topic, CheckClientConfigRequestHeader(), encode_body(body), deadline=deadline
        )

    # --- connections -------------------------------------------------------------------------------------------------

    def fetch_consumer_connections(
        self, group: str, topic: str | None = None, deadline: Deadline | None = None
    ) -> dict[str, ConsumerConnection]:
        """Broker by broker, the members of a group; brokers that know none are left out."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        replies = self._brokers.ask_each(topic or retry_topic(group), header, absent=_OFFLINE, deadline=deadline)
        return {name: reply.body(ConsumerConnection) for name, reply in replies.items()}

    def fetch_producer_connections(
        self, group: str, topic: str, deadline: Deadline | None = None
    ) -> dict[str, ProducerConnection]:
        """Broker by broker of a topic, the clients that produce for a group; brokers that know none are left out."""
        header = GetProducerConnectionListRequestHeader(producer_group=group)
        replies = self._brokers.ask_each(topic, header, absent=_OFFLINE, deadline=deadline)
        return {name: reply.body(ProducerConnection) for name, reply in replies.items()}

    # --- locks -------------------------------------------------------------------------------------------------------

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], deadline: Deadline | None = None
    ) -> Locked:
        """Take or renew the locks of queues, once; each broker answers for itself."""
        parts = self._by_broker(queues)
        requests = {
            name: self._lock_request(LockBatchMqRequestHeader(), group, client_id, part) for name, part in parts.items()
        }
        granted: set[MessageQueue] = set()
        unknown: dict[str, RocketMQError] = {}
        for name, result in self._brokers.try_all(requests, deadline=deadline).items():
            if isinstance(result, RocketMQError):
                unknown[name] = result
            else:
                held = result.body(LockBatchResponseBody).lock_ok_mq_set
                granted.update(self._ours(queue) for queue in held)
        refused = {queue for name, part in parts.items() if name not in unknown for queue in part} - granted
        return Locked(frozenset(granted), frozenset(refused), unknown)

    def unlock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], deadline: Deadline | None = None
    ) -> None:
        """Give up the locks of queues; those of other clients stay as they are."""
        requests = {
            name: self._lock_request(UnlockBatchMqRequestHeader(), group, client_id, part)
            for name, part in self._by_broker(queues).items()
        }
        self._brokers.ask_all(requests, deadline=deadline)

    def unlock_oneway(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], deadline: Deadline | None = None
    ) -> None:
        """The same without asking whether it was done: each broker is told once, whatever happens at the others."""
        parts, failures = self._by_broker(queues), []
        for part, own_deadline in in_turn(deadline, parts.values()):
            request = self._lock_request(UnlockBatchMqRequestHeader(), group, client_id, part)
            try:
                self._brokers.tell_once(request, deadline=own_deadline)
            except RocketMQError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _lock_request(
        self, header: RequestHeader, group: str, client_id: str, queues: list[MessageQueue]
    ) -> RoutedRequest:
        """A lock request may name queues of several topics; the first one's route leads to the broker."""
        body = LockBatchRequestBody(
            consumer_group=self._namespace.wrap(group),
            client_id=client_id,
            mq_set=tuple(queue._replace(topic=self._namespace.wrap(queue.topic)) for queue in queues),
        )
        return RoutedRequest(queues[0].topic, queues[0].broker_name, header, encode_body(body))

    def _by_broker(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        parts: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            parts[queue.broker_name].append(queue)
        return parts

    def _ours(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=self._namespace.unwrap(queue.topic))


def _wrap_heartbeat(data: HeartbeatData, namespace: Namespace) -> HeartbeatData:
    """The names in a body are ours to wrap, too."""
    return replace(
        data,
        producer_data_set=tuple(
            replace(group, group_name=namespace.wrap(group.group_name)) for group in data.producer_data_set
        ),
        consumer_data_set=tuple(
            replace(
                group,
                group_name=namespace.wrap(group.group_name),
                subscription_data_set=tuple(_wrap_subscription(s, namespace) for s in group.subscription_data_set),
            )
            for group in data.consumer_data_set
        ),
    )


def _wrap_subscription(subscription: SubscriptionData, namespace: Namespace) -> SubscriptionData:
    return replace(subscription, topic=namespace.wrap(subscription.topic))
