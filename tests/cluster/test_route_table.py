"""Routes are cached for their lifetime, and fetched again when they are stale."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.route_table import LEAST_SILENCE_S, RouteTable
from pyspark_rocketmq.cluster.routes import AddressMap, Route, make_route
from pyspark_rocketmq.errors import ConnectError, LimitExceeded, RocketMQError, TopicNotFound
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire.bodies import BrokerData, QueueData, TopicRouteData


class World:
    """A route table, its clock, and a name server that can fail."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fetched = 0
        self.error: RocketMQError | None = None
        self.table = RouteTable(self.fetch, max_age_s=30, clock=lambda: self.now)

    def fetch(self, topic: str, deadline: Deadline | None, *, once: bool) -> Route:
        """Return a new route with one broker: `b1` at the first fetch, then `b2`, ...; raise the error that is set."""
        if self.error:
            raise self.error
        self.fetched += 1
        data = TopicRouteData(broker_datas=(BrokerData(broker_name=f"b{self.fetched}"),))
        return make_route(topic, data, AddressMap())

    def broker(self, topic: str = "T") -> str:
        """Return the name of the broker in the topic's current route."""
        return next(iter(self.table.route(topic).brokers))


def test_a_route_serves_until_it_has_come_of_age() -> None:
    """A route is fetched once and then used until its lifetime is over."""
    world = World()
    assert [world.broker(), world.broker()] == ["b1", "b1"]
    world.now = 29.9
    assert world.broker() == "b1"
    world.now = 30.0
    assert world.broker() == "b2"


def test_an_expired_route_is_fetched_at_once() -> None:
    """If a topic's route expires, only this route is fetched again; expiring an unknown topic changes nothing."""
    world = World()
    assert (world.broker("T"), world.broker("U")) == ("b1", "b2")
    world.table.expire("T")
    world.table.expire("unheard of")
    assert (world.broker("U"), world.broker("T"), world.broker("T")) == ("b2", "b3", "b3")


def test_without_name_servers_the_last_route_stays_in_force() -> None:
    """If no name server replies, the last route is still used, and not every use tries to renew it."""
    world = World()
    world.broker()
    world.now, world.error = 40.0, ConnectError("refused")
    assert world.broker() == "b1"
    world.error = None
    assert world.broker() == "b1"
    world.now += LEAST_SILENCE_S
    assert world.broker() == "b2"


def test_the_first_route_must_be_fetched() -> None:
    """If the first fetch of a topic's route fails, the error is raised."""
    world = World()
    world.error = ConnectError("refused")
    with pytest.raises(ConnectError):
        world.broker()


def test_a_topic_that_is_gone_is_forgotten() -> None:
    """If a topic is deleted, its route is dropped from the table."""
    world = World()
    world.broker()
    world.now, world.error = 40.0, TopicNotFound("gone")
    with pytest.raises(TopicNotFound):
        world.broker()
    world.error = ConnectError("refused")
    with pytest.raises(ConnectError):
        world.broker()


def test_all_brokers_in_use_are_known() -> None:
    """The table lists all brokers that its routes name."""
    world = World()
    world.broker("T")
    world.broker("U")
    assert set(world.table.known_brokers()) == {"b1", "b2"} and repr(world.table) == "<RouteTable 2 topics, 2 brokers>"


def test_routes_are_bounded_together() -> None:
    """If all routes together hold too many objects, an error says how to narrow; a dropped route makes room."""
    queues = dict.fromkeys("ABCDEFGHIJKLMNOPQ", 60000)

    def fetch(topic: str, deadline: Deadline | None, *, once: bool) -> Route:
        data = QueueData(broker_name="b", read_queue_nums=queues[topic], write_queue_nums=0, perm=4)
        return make_route(topic, TopicRouteData(queue_datas=(data,)), AddressMap())

    table = RouteTable(fetch, max_age_s=0)
    for topic in "ABCDEFGHIJKLMNOP":
        table.route(topic)
    with pytest.raises(LimitExceeded, match=r"routes of 17 topics name 1020000 queues .* narrow subscribePattern"):
        table.route("Q")
    queues["A"] = 1000
    table.route("A")
    assert len(table.route("Q").readable) == 60_000


def test_topics_are_bounded() -> None:
    """If the table holds too many routes, an error is raised, however small the routes are."""
    world = World()
    for number in range(20_000):
        world.table.route(f"topic{number}")
    with pytest.raises(LimitExceeded, match="routes of 20001 topics"):
        world.table.route("one more")
