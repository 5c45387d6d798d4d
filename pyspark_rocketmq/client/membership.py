"""How do brokers learn that we are there and what we want, and whom else do they know?

Every process of every broker that our topics' routes name gets a heartbeat every 30 seconds, and one at once when our
share changes. A broker keeps one table of subscriptions for the whole group, that of whichever heartbeat came last,
so all members must want the same. It lists a member once for each of its connections.

`Presence` is what producers have, too; `Membership` adds a group's subscriptions and the list of its members.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..cluster.cluster import Cluster
from ..cluster.routes import Place
from ..errors import RocketMQError, TopicNotFound
from ..model import MessageQueue, java_order, retry_topic
from ..net.deadline import Deadline, in_turn
from ..net.host import local_host
from ..pull.settings import Subscription
from ..wire.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData, build_subscription
from .clock import Clock
from .company import Company
from .settings import MemberSettings

__all__ = ["Membership", "Presence", "make_client_id", "member_id", "producer_heartbeat"]

MEMBERS_TIMEOUT_S = 3.0
LEAVING_S = 5.0
"""Until all brokers are told that a client goes."""
PUSH, PULL = "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"

_SHARED_NAME = "DEFAULT"
_log = logging.getLogger(__name__)


def make_client_id(instance_name: str | None = None, unit_name: str = "") -> str:
    """A name as Java makes it, new every time unless an instance is named."""
    own = instance_name or f"{os.getpid()}#{time.monotonic_ns()}"
    return "@".join([local_host(), own, *filter(None, [unit_name])])


def member_id(settings: MemberSettings) -> str:
    """A member's client id; lasting for broadcasting members, whose positions it names."""
    lasting = _SHARED_NAME if settings.is_broadcasting else None
    return make_client_id(settings.instance_name or lasting, settings.unit_name)


class Presence:
    """A client among the brokers it knows."""

    def __init__(self, cluster: Cluster, client_id: str) -> None:
        self.cluster = cluster
        self.client_id = client_id

    def beat(self, data: HeartbeatData, *, masters_only: bool = False) -> int:
        """Tell every broker process that we are alive; how many took note."""
        heard = 0
        for broker_name, place in self._places():
            if masters_only and not place.is_master:
                continue
            try:
                self.cluster.groups.heartbeat(place.address, data)
                heard += 1
            except RocketMQError as error:
                _log.warning("no heartbeat to %s: %s", broker_name, error)
        return heard

    def leave(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Tell every broker process that we go; those that cannot be told in time will notice."""
        for (broker_name, place), deadline in in_turn(Deadline.after(LEAVING_S), list(self._places())):
            try:
                self.cluster.groups.unregister(
                    place.address,
                    self.client_id,
                    producer_group=producer_group,
                    consumer_group=consumer_group,
                    deadline=deadline,
                )
            except RocketMQError as error:
                _log.info("no farewell to %s: %s", broker_name, error)

    def _places(self) -> Iterator[tuple[str, Place]]:
        for broker_name, broker in sorted(self.cluster.routes.known_brokers().items()):
            for place in broker.endpoints:
                yield broker_name, place


class Membership:
    """One member of a consumer group. For any thread."""

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
        self._company = Company(cluster, settings.group, client_id)
        self._lock = threading.Lock()
        self._subscriptions = {each.topic: each for each in self._first_subscriptions()}

    def __repr__(self) -> str:
        return f"<Membership of {self.client_id} in {self.group}, {', '.join(self.subscriptions)}>"

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]:
        """What we want, by topic; the group's retry topic is among them unless all members get all messages."""
        with self._lock:
            return dict(self._subscriptions)

    def subscription(self, topic: str) -> SubscriptionData | None:
        """What we want of a topic."""
        return self._subscriptions.get(topic)

    def subscribe(self, topic: str, wish: Subscription) -> None:
        """Want something of one more topic."""
        subscription = _build(topic, wish, self._clock.wall_ms())
        with self._lock:
            self._subscriptions[topic] = subscription

    # --- being there -------------------------------------------------------------------------------------------------

    def heartbeat(self) -> int:
        """Tell every broker what we want; how many took note."""
        return self._presence.beat(HeartbeatData(client_id=self.client_id, consumer_data_set=(self._consumer_data(),)))

    def look_around(self) -> None:
        """See whether the others of the group want what we want, and log it if not."""
        self._company.look(self._consumer_data())

    def touch(self, topic: str) -> None:
        """Make our subscription of a topic newer than what brokers know, so that they take the next heartbeat's."""
        with self._lock:
            known = self._subscriptions[topic]
            self._subscriptions[topic] = replace(known, sub_version=self._clock.wall_ms())

    def leave(self) -> None:
        """Leave the group."""
        self._presence.leave(consumer_group=self.group)

    def check_filters(self) -> None:
        """Have a broker compile expressions that are not tags; raises if one will not do."""
        for subscription in self.subscriptions.values():
            if subscription.expression_type != "TAG":
                self._cluster.groups.check_subscription(self.group, self.client_id, subscription)

    # --- looking around ----------------------------------------------------------------------------------------------

    def refresh_routes(self) -> None:
        """Fetch our topics' routes anew; those without one are left for the next time."""
        for topic in self.subscriptions:
            self._cluster.routes.expire(topic)
            self.queues(topic)

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """The queues of a topic, in RocketMQ's order; none if there is no route."""
        try:
            return self._cluster.routes.route(topic).readable
        except TopicNotFound as error:
            level = logging.DEBUG if topic == retry_topic(self.group) else logging.WARNING
            _log.log(level, "no queues: %s", error)
        except RocketMQError as error:
            _log.warning("no queues: %s", error)
        return None

    def members(self, topic: str) -> list[str] | None:
        """Client ids of the group's members in Java's order, as a broker of the topic knows them; none if unknown."""
        try:
            found = self._cluster.groups.fetch_members(self.group, topic, Deadline.after(MEMBERS_TIMEOUT_S))
        except RocketMQError as error:
            _log.warning("no list of members: %s", error)
            return None
        return sorted(found, key=java_order) or None

    # --- what brokers are told ---------------------------------------------------------------------------------------

    def _first_subscriptions(self) -> Iterator[SubscriptionData]:
        version = self._clock.wall_ms()
        for topic, wish in self._settings.subscriptions.items():
            yield _build(topic, wish, version)
        if not self._settings.is_broadcasting:
            yield build_subscription(retry_topic(self.group), sub_version=version)

    def _consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.group,
            consume_type=self._consume_type,
            message_model=self._settings.message_model.value,
            consume_from_where=self._settings.consume_from.value,
            subscription_data_set=tuple(self.subscriptions.values()),
        )


def _build(topic: str, wish: Subscription, version: int) -> SubscriptionData:
    return build_subscription(topic, wish.expression, expression_type=wish.expression_type, sub_version=version)


def producer_heartbeat(client_id: str, group: str) -> HeartbeatData:
    """What a producer tells brokers."""
    return HeartbeatData(client_id=client_id, producer_data_set=(ProducerData(group_name=group),))
