"""Make a client a member of a group, and lock queues for it.

Each broker process knows the members that send it heartbeats; the master of a queue keeps the queue's lock. So
heartbeats and unregistrations go to single addresses, and all other requests go to brokers that routes name.
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
"""Largest number of members of one group; the work of a rebalance grows with it."""
_OFFLINE = (ConsumerNotOnline, GroupWithoutMembers)


@dataclass(frozen=True, slots=True)
class Locked:
    """The result of a request to lock queues: granted, refused or unknown."""

    granted: frozenset[MessageQueue]
    refused: frozenset[MessageQueue]
    """Queues that another client has locked."""
    unknown: Mapping[str, RocketMQError]
    """The error of each broker that did not decide, by broker name; locks that the client held there count as held."""


class HeartbeatReply(NamedTuple):
    """A broker's reply to a heartbeat."""

    broker_version: int
    knows_version_2: bool
    subscription_changed: bool


class Groups:
    """Requests about members, locks and subscriptions of groups."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._namespace = brokers.settings.namespace

    # --- membership --------------------------------------------------------------------------------------------------

    def heartbeat(self, address: Address, data: HeartbeatData, deadline: Deadline | None = None) -> HeartbeatReply:
        """Send one broker process a client's heartbeat with its groups and subscriptions, and return the reply."""
        body = encode_body(_wrap_heartbeat(data, self._namespace))
        reply = self._brokers.servers.ask(ServerRequest(address, HeartbeatRequestHeader(), body), deadline=deadline)
        header = reply.header(HeartbeatResponseHeader)
        return HeartbeatReply(reply.command.version, bool(header.is_support_heart_beat_v2), bool(header.is_sub_change))

    def unregister(
        self,
        address: Address,
        client_id: str,
        *,
        producer_group: str | None = None,
        consumer_group: str | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Unregister a client from a producer group, a consumer group or both, at one broker process."""
        header = UnregisterClientRequestHeader(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        self._brokers.servers.ask(ServerRequest(address, header), deadline=deadline)

    def fetch_members(self, group: str, topic: str, deadline: Deadline | None = None) -> tuple[str, ...]:
        """Return the client ids of the group's live members, as reported by one broker of the topic."""
        header = GetConsumerListByGroupRequestHeader(consumer_group=group)
        try:
            reply = self._brokers.ask_any(topic, header, deadline=deadline)
        except GroupWithoutMembers:
            return ()
        members = reply.body(GetConsumerListByGroupResponseBody).consumer_id_list
        if len(members) > MOST_MEMBERS:
            what = f"the broker lists {len(members)} members of the group, the limit is {MOST_MEMBERS}"
            raise LimitExceeded(what, advice="find out which clients join the group", **reply.request.where())
        return members

    def check_subscription(
        self, group: str, client_id: str, subscription: SubscriptionData, deadline: Deadline | None = None
    ) -> None:
        """Let a broker of the topic check a filter expression; raise the broker's error if the filter is illegal."""
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
        """Return the group's members at each broker of a topic, by broker name; leave out brokers without any.

        Without `topic`, these are the brokers of the group's retry topic.
        """
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        replies = self._brokers.ask_each(topic or retry_topic(group), header, absent=_OFFLINE, deadline=deadline)
        return {name: reply.body(ConsumerConnection) for name, reply in replies.items()}

    def fetch_producer_connections(
        self, group: str, topic: str, deadline: Deadline | None = None
    ) -> dict[str, ProducerConnection]:
        """Return the group's producers at each broker of a topic, by broker name; leave out brokers without any."""
        header = GetProducerConnectionListRequestHeader(producer_group=group)
        replies = self._brokers.ask_each(topic, header, absent=_OFFLINE, deadline=deadline)
        return {name: reply.body(ProducerConnection) for name, reply in replies.items()}

    # --- locks -------------------------------------------------------------------------------------------------------

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], deadline: Deadline | None = None
    ) -> Locked:
        """Lock queues or renew their locks; return which locks were granted, refused or are unknown.

        Each broker gets one request, which is never repeated. Of the queues in its response only those count that it
        was asked for.
        """
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
                granted.update({self._namespace.unwrap_queue(queue) for queue in held}.intersection(parts[name]))
        refused = {queue for name, part in parts.items() if name not in unknown for queue in part} - granted
        return Locked(frozenset(granted), frozenset(refused), unknown)

    def unlock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], deadline: Deadline | None = None
    ) -> None:
        """Release a client's locks of queues; locks of other clients stay."""
        requests = {
            name: self._lock_request(UnlockBatchMqRequestHeader(), group, client_id, part)
            for name, part in self._by_broker(queues).items()
        }
        self._brokers.ask_all(requests, deadline=deadline)

    def unlock_oneway(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], deadline: Deadline | None = None
    ) -> None:
        """Release a client's locks of queues without waiting for responses.

        Each broker gets at most one request. If sending to one fails, the others still get theirs; then the first error
        is raised.
        """
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
        """Return a request about locks of one broker's queues.

        The queues may belong to several topics; the route of the first one's topic gives the broker's address.
        """
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


def _wrap_heartbeat(data: HeartbeatData, namespace: Namespace) -> HeartbeatData:
    """Return a heartbeat in which the user's names of groups and topics are replaced by the cluster's.

    A heartbeat's names are in the body of its request; the module `servers` replaces only names in headers.
    """
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
