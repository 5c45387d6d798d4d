"""While name servers are away, a caller with a known route does not wait for them at every request."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.route_table import RouteTable
from pyspark_rocketmq.cluster.routes import AddressMap, Route, make_route
from pyspark_rocketmq.errors import ConnectError
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire.bodies import TopicRouteData
from tests.cluster.scripted import ScriptedLinks, cluster_of, route_of

TOPICS = ("T", "U", "V")
ROUTE = "GET_ROUTEINFO_BY_TOPIC"


class World:
    """A route table with three topics whose routes are stale, its clock, and a name server that can be slow or away."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes_s = 0.0
        self.is_away = False
        self.asked: list[str] = []
        self.deadlines: list[Deadline | None] = []
        self.table = RouteTable(self.fetch, max_age_s=30, clock=lambda: self.now)
        for topic in TOPICS:
            self.table.route(topic)
        self.now = 100.0

    def fetch(self, topic: str, deadline: Deadline | None, *, once: bool) -> Route:
        """Return a new route after `takes_s` seconds; raise `ConnectError` if the name server is away."""
        self.asked.append(topic)
        self.deadlines.append(deadline)
        self.now += self.takes_s
        if self.is_away:
            raise ConnectError("refused")
        return make_route(topic, TopicRouteData(), AddressMap())

    def ask_all(self) -> list[str]:
        """Use the routes of all topics; return the topics whose route was requested from the name server."""
        self.asked.clear()
        for topic in TOPICS:
            self.table.route(topic)
        return list(self.asked)


@pytest.mark.parametrize(("takes_s", "silence_s"), [(0.0, 1.0), (3.0, 12.0), (60.0, 30.0)])
def test_one_failure_is_told_to_all_topics(takes_s: float, silence_s: float) -> None:
    """If one renewal fails, no route is renewed for four times its duration, but at least 1 s and at most 30 s."""
    world = World()
    world.is_away, world.takes_s = True, takes_s
    assert world.ask_all() == ["T"]
    world.now += silence_s - 0.1
    assert world.ask_all() == []
    world.now += 0.1
    assert world.ask_all() == ["T"]


def test_nobody_is_asked_again_because_a_route_is_wrong() -> None:
    """While name servers are away, a route that is marked as stale is not renewed either."""
    world = World()
    world.is_away = True
    world.ask_all()
    world.table.expire("U")
    assert world.ask_all() == []


def test_the_first_answer_ends_the_silence() -> None:
    """If a name server replies to any request again, stale routes are renewed again."""
    world = World()
    world.is_away = True
    world.ask_all()
    world.is_away = False
    world.table.route("new")
    assert world.ask_all() == ["T", "U", "V"]


def test_who_renews_has_time_left_for_the_old_route() -> None:
    """A renewal gets half of the caller's time, so that time for the brokers is left if name servers are silent."""
    world = World()
    world.table.route("T", Deadline(at=10.0, seconds=10.0, clock=lambda: 0.0))
    assert world.deadlines[-1] is not None and world.deadlines[-1].seconds == 5.0


def test_what_is_known_is_not_insisted_on() -> None:
    """If a route is unknown, failed fetches are repeated; the renewal of a known route is tried once."""
    links = ScriptedLinks()
    links.serve("ns:1", **{ROUTE: route_of(a={0: "a:1"})})
    cluster = cluster_of(links, retries=3, route_max_age_s=0.0)
    cluster.routes.route("T")
    links.stop("ns:1")
    assert cluster.routes.route("T").readable and len(links.asked(ROUTE)) == 1 + 1
    with pytest.raises(ConnectError):
        cluster.routes.route("U", once=True)
    assert len(links.asked(ROUTE)) == 1 + 1 + 1
    with pytest.raises(ConnectError):
        cluster.routes.route("U")
    assert len(links.asked(ROUTE)) == 1 + 1 + 1 + 4
