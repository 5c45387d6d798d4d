"""Tell brokers of a client by heartbeats, and ask them for the members of its group.

Every process of every broker in the topics' routes gets a heartbeat every 30 seconds, and one at once when the member's
queues change. A broker keeps one table of subscriptions for the whole group, taken from the last heartbeat, so all
members must have the same subscriptions. It lists a member once for each of the member's connections.

Producers use `Presence` as well; `Membership` adds a group's subscriptions and the list of its members.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..cluster.cluster import Cluster
from ..cluster.routes import BrokerEndpoint
from ..errors import RocketMQError, TopicNotFound
from ..model import MessageQueue, java_order, retry_topic
from ..net.deadline import Deadline, in_turn
from ..net.host import local_host
from ..pull.settings import Subscription
from ..wire.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData, build_subscription
from .clock import Clock
from .settings import ConsumeFrom, MemberSettings, MessageModel
from .subscription_check import SubscriptionCheck

__all__ = ["Membership", "Presence", "make_client_id", "member_id", "producer_heartbeat"]

MEMBERS_TIMEOUT_S = 3.0
LEAVING_S = 5.0
"""The timeout for unregistering from all brokers together."""
PUSH, PULL = "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"

_SHARED_NAME = "DEFAULT"
_log = logging.getLogger(__name__)


def make_client_id(instance_name: str | None = None, unit_name: str = "") -> str:
    """Return a client id in Java's format; without `instance_name` every call returns a new one."""
    own = instance_name or f"{os.getpid()}#{time.monotonic_ns()}"
    return "@".join([local_host(), own, *filter(None, [unit_name])])


def member_id(settings: MemberSettings) -> str:
    """Return the client id for a new member, a different one for each call if the settings have no instance name.

    Only a broadcasting member always gets the same one: its positions are in a directory with this name, and must be
    found after a restart.
    """
    lasting = _SHARED_NAME if settings.is_broadcasting else None
    return make_client_id(settings.instance_name or lasting, settings.unit_name)


class Presence:
    """Sends one client's heartbeats to all brokers in its routes."""

    def __init__(self, cluster: Cluster, client_id: str) -> None:
        self.cluster = cluster
        self.client_id = client_id

    def beat(self, data: HeartbeatData, *, masters_only: bool = False) -> int:
        """Send a heartbeat to every broker process, or only to masters, and return how many of them accepted it."""
        accepted = 0
        for broker_name, endpoint in self._endpoints():
            if masters_only and not endpoint.is_master:
                continue
            try:
                self.cluster.groups.heartbeat(endpoint.address, data)
                accepted += 1
            except RocketMQError as error:
                _log.warning("could not send a heartbeat to %s: %s", broker_name, error)
        return accepted

    def leave(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Unregister the client from these groups at every broker process; a failure is only logged.

        A process that cannot be reached removes the client itself, once the client's heartbeats have stopped.
        """
        for (broker_name, endpoint), deadline in in_turn(Deadline.after(LEAVING_S), list(self._endpoints())):
            try:
                self.cluster.groups.unregister(
                    endpoint.address,
                    self.client_id,
                    producer_group=producer_group,
                    consumer_group=consumer_group,
                    deadline=deadline,
                )
            except RocketMQError as error:
                _log.info("could not unregister from %s: %s", broker_name, error)

    def _endpoints(self) -> Iterator[tuple[str, BrokerEndpoint]]:
        for broker_name, broker in sorted(self.cluster.routes.known_brokers().items()):
            for endpoint in broker.endpoints:
                yield broker_name, endpoint


class Membership:
    """One member's subscriptions and its view of the group. Any thread may use it."""

    def __init__(
        self, cluster: Cluster, settings: MemberSettings, client_id: str, clock: Clock, *, consume_type: str = PUSH
    ) -> None:
        self.group = settings.group
        self.client_id = client_id
        self._presence = Presence(cluster, client_id)
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._consume_type = consume_type
        self._check = SubscriptionCheck(cluster, settings.group, client_id)
        self._lock = threading.Lock()
        self._subscriptions = {each.topic: each for each in self._first_subscriptions()}
        self.subscription: Callable[[str], SubscriptionData | None] = self._subscriptions.get
        """Returns a topic's subscription, or None without one; called before every pull."""

    def __repr__(self) -> str:
        return f"<Membership of {self.client_id} in {self.group}, {', '.join(self.subscriptions)}>"

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]:
        """The subscriptions by topic. The group's retry topic is one of them, except in broadcasting."""
        with self._lock:
            return dict(self._subscriptions)

    def differs(self, topic: str, wanted: Subscription) -> bool:
        """Return whether subscribing to a topic with the filter `wanted` would change its filter, or be its first.

        Raise `LocalProtocolError` if the filter is illegal.
        """
        new, old = self._build(topic, wanted, 0), self.subscription(topic)
        return old is None or (old.expression_type, old.sub_string) != (new.expression_type, new.sub_string)

    def subscribe(self, topic: str, wanted: Subscription) -> None:
        """Add a topic, or replace its subscription."""
        with self._lock:
            self._subscriptions[topic] = self._build(topic, wanted, self._next_version(self._subscriptions.get(topic)))

    def unsubscribe(self, topic: str) -> None:
        """Remove a topic and its subscription."""
        with self._lock:
            self._subscriptions.pop(topic, None)

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(self) -> int:
        """Send the member's subscriptions to every broker process, and return how many accepted them."""
        return self._presence.beat(HeartbeatData(client_id=self.client_id, consumer_data_set=(self._consumer_data(),)))

    def check_others(self) -> None:
        """Compare the subscriptions that brokers have for the group with this member's, and log the differences."""
        self._check.compare(self._consumer_data())

    def touch(self, topic: str) -> None:
        """Give a topic's subscription a newer version, because brokers ignore a change that has the same version."""
        with self._lock:
            if known := self._subscriptions.get(topic):
                self._subscriptions[topic] = replace(known, sub_version=self._next_version(known))

    def _next_version(self, known: SubscriptionData | None) -> int:
        """Return a new version for a subscription: the time in milliseconds, or the old version plus 1 if higher."""
        return max(self._clock.wall_ms(), known.sub_version + 1 if known else 0)

    def leave(self) -> None:
        """Unregister from the group at every broker process."""
        self._presence.leave(consumer_group=self.group)

    def check_filters(self) -> None:
        """Let a broker check all filter expressions except tag expressions; raise if it refuses one."""
        for subscription in self.subscriptions.values():
            self._check_filter(subscription)

    def check_filter(self, topic: str, wanted: Subscription) -> None:
        """Let a broker check one topic's filter expression, unless it is a tag expression; raise if it is refused."""
        self._check_filter(self._build(topic, wanted, self._clock.wall_ms()))

    def _check_filter(self, subscription: SubscriptionData) -> None:
        if subscription.expression_type != "TAG":
            self._cluster.groups.check_subscription(self.group, self.client_id, subscription)

    # --- routes and members ------------------------------------------------------------------------------------------

    def refresh_routes(self) -> None:
        """Fetch the routes of all subscribed topics again; a failure is logged, and the next call tries again."""
        for topic in self.subscriptions:
            self._cluster.routes.expire(topic)
            self.queues(topic)

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Return the readable queues of a topic in RocketMQ's order; None if its route cannot be found."""
        try:
            return self._cluster.routes.route(topic).readable
        except TopicNotFound as error:
            level = logging.DEBUG if topic == retry_topic(self.group) else logging.WARNING
            _log.log(level, "found no queues of %s: %s", topic, error)
        except RocketMQError as error:
            _log.warning("could not look up the queues of %s, keeping those held: %s", topic, error)
        return None

    def members(self, topic: str) -> list[str] | None:
        """Return the client ids of the group's members, in the order in which Java sorts them.

        Return None if no broker of the topic reports them.
        """
        try:
            found = self._cluster.groups.fetch_members(self.group, topic, Deadline.after(MEMBERS_TIMEOUT_S))
        except RocketMQError as error:
            _log.warning("could not list the members of group %s, keeping the held queues: %s", self.group, error)
            return None
        return sorted(found, key=java_order) or None

    # --- data of heartbeats ------------------------------------------------------------------------------------------

    def _first_subscriptions(self) -> Iterator[SubscriptionData]:
        version = self._clock.wall_ms()
        for topic, wanted in self._settings.wanted.items():
            yield self._build(topic, wanted, version)
        if not self._settings.is_broadcasting:
            yield build_subscription(retry_topic(self.group), sub_version=version)

    def _consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=self._consume_type,
            message_model=MessageModel(self._settings.message_model).value,
            consume_from_where=ConsumeFrom(self._settings.consume_from).value,
            subscription_data_set=tuple(self.subscriptions.values()),
        )

    @staticmethod
    def _build(topic: str, wanted: Subscription, version: int) -> SubscriptionData:
        return build_subscription(topic, wanted.expression, expression_type=wanted.expression_type, sub_version=version)


def producer_heartbeat(client_id: str, group: str) -> HeartbeatData:
    """Return the data of a producer's heartbeat."""
    return HeartbeatData(client_id=client_id, producer_data_set=(ProducerData(group_name=group),))
