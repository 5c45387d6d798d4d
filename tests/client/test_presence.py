"""Test which brokers a client tells of itself, and what it makes of their answers, with a scripted cluster."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_rocketmq.client.membership import Membership, Presence, producer_heartbeat
from pyspark_rocketmq.client.settings import ConsumeFrom, ConsumerSettings, MessageModel
from pyspark_rocketmq.cluster.routes import BrokerEndpoint
from pyspark_rocketmq.errors import ConnectError, RocketMQError, TopicNotFound
from pyspark_rocketmq.model import Address, retry_topic
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.bodies import HeartbeatData
from tests.client.fixtures import GROUP, TOPIC, ManualClock, queue

MASTER, REPLICA, OTHER = (BrokerEndpoint(number % 2, Address("10.0.0.1", 1 + number)) for number in range(3))


class Brokers:
    """Stands for a cluster of broker-a with a replica and broker-b; those in `down` refuse everything."""

    def __init__(self) -> None:
        self.down: set[Address] = set()
        self.told: list[tuple[str, Address]] = []
        self.groups = self.routes = self
        self.members: list[str] | RocketMQError = []
        self.route_error: RocketMQError | None = None

    def known_brokers(self) -> dict[str, Any]:
        """Return the broker processes."""
        return {
            "broker-b": SimpleNamespace(endpoints=(OTHER,)),
            "broker-a": SimpleNamespace(endpoints=(MASTER, REPLICA)),
        }

    def heartbeat(self, address: Address, data: HeartbeatData) -> None:
        """Note a heartbeat."""
        self._note("heartbeat", address)

    def unregister(self, address: Address, client_id: str, **groups: Any) -> None:
        """Note that a client leaves."""
        self._note("unregister", address)

    def _note(self, what: str, address: Address) -> None:
        self.told.append((what, address))
        if address in self.down:
            raise ConnectError("down")

    def route(self, topic: str) -> Any:
        """Return a route with one queue, or fail."""
        if self.route_error:
            raise self.route_error
        return SimpleNamespace(readable=(queue(0),))

    def fetch_members(self, group: str, topic: str, deadline: object) -> list[str]:
        """Return the members of the group, or fail."""
        if isinstance(self.members, RocketMQError):
            raise self.members
        return self.members


@pytest.fixture
def brokers() -> Brokers:
    """Return brokers that are all up."""
    return Brokers()


def membership(brokers: Brokers, clock: ManualClock | None = None, **given: Any) -> Membership:
    """Return the membership of a consumer."""
    settings = ConsumerSettings(**{"group": GROUP, "subscriptions": TOPIC, **given})
    return Membership(cast(Any, brokers), settings, "me", clock or ManualClock())


def test_each_process_gets_a_heartbeat(brokers: Brokers) -> None:
    """A heartbeat is sent to every process, or only to masters; the result counts those that accepted it."""
    presence, data = Presence(cast(Any, brokers), "me"), producer_heartbeat("me", "shop")
    assert presence.beat(data) == 3
    assert presence.beat(data, masters_only=True) == 2
    everywhere = [each.address for each in (MASTER, REPLICA, OTHER)]
    assert [address for _, address in brokers.told] == [*everywhere, MASTER.address, OTHER.address]

    brokers.down = {MASTER.address, REPLICA.address}
    assert (presence.beat(data), membership(brokers).heartbeat()) == (1, 1)


def test_a_client_unregisters_everywhere(brokers: Brokers, caplog: pytest.LogCaptureFixture) -> None:
    """A process that is down does not keep others from hearing that the client leaves."""
    brokers.down = {MASTER.address}
    with caplog.at_level(logging.INFO):
        membership(brokers).leave()
    assert brokers.told == [("unregister", each.address) for each in (MASTER, REPLICA, OTHER)]
    assert "could not unregister from broker-a" in caplog.text


def test_each_change_has_a_newer_version(brokers: Brokers) -> None:
    """A subscription that changes gets the time as its version, or one more than before if that is higher."""
    clock = ManualClock()
    member, began_ms = membership(brokers, clock), clock.wall_ms()

    def version() -> int:
        return member.subscriptions[TOPIC].sub_version - began_ms

    versions = [version()]
    for wait_s in (0.0, 0.0, 5.0, 0.0):
        clock.advance(wait_s)
        member.touch(TOPIC)
        versions.append(version())
    assert versions == [0, 1, 2, 5000, 5001]
    member.touch("unknown")
    member.subscribe(TOPIC, Subscription("paid"))
    assert (version(), member.subscriptions[TOPIC].sub_string) == (5002, "paid")
    assert member.differs(TOPIC, Subscription("sent")) and not member.differs(TOPIC, Subscription("paid"))
    member.unsubscribe(TOPIC)
    assert list(member.subscriptions) == [retry_topic(GROUP)]


def test_a_missing_retry_topic_is_usual(brokers: Brokers, caplog: pytest.LogCaptureFixture) -> None:
    """A topic without a route has no queues; a warning says so, except of the group's retry topic."""
    member = membership(brokers)
    assert member.queues(TOPIC) == (queue(0),)
    with caplog.at_level(logging.DEBUG):
        for topic, error in ((retry_topic(GROUP), TopicNotFound("x")), (TOPIC, TopicNotFound("x")), (TOPIC, None)):
            brokers.route_error = error or ConnectError("away")
            assert member.queues(topic) is None
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.WARNING, logging.WARNING]


def test_members_sort_as_in_java(brokers: Brokers) -> None:
    """Members are sorted by UTF-16 units; None stands for brokers that report none, or do not answer."""
    member = membership(brokers)
    brokers.members = ["b", "\uffff", "a", "\U00010000"]
    assert member.members(TOPIC) == ["a", "b", "\U00010000", "\uffff"]
    for brokers.members in ([], ConnectError("away")):
        assert member.members(TOPIC) is None


@pytest.mark.parametrize("model", list(MessageModel))
def test_only_a_clustering_member_has_a_retry_topic(brokers: Brokers, model: MessageModel) -> None:
    """A member subscribes to its group's retry topic, unless it is broadcasting; its heartbeat has its settings."""
    member = membership(brokers, message_model=model, consume_from=ConsumeFrom.FIRST_OFFSET)
    assert (retry_topic(GROUP) in member.subscriptions) == (model is MessageModel.CLUSTERING)
    data = member._consumer_data()
    assert (data.group_name, data.message_model, data.consume_from_where, data.consume_type) == (
        GROUP,
        model.value,
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_PASSIVELY",
    )
