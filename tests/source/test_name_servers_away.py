"""Check that planning goes on with known routes while name servers do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_stub import NAME_SERVER, StubBroker
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import MessageQueue, retry_topic
from pyspark_rocketmq.source.catalog import QueueCatalog
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP, TOPIC, Run, options_for, queue_of

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
RETRY = retry_topic(GROUP)
RETRY_QUEUE = MessageQueue(RETRY, "broker-a", 0)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue."""
    with StubBroker({TOPIC: 1}) as broker:
        yield broker


class World:
    """A catalog of queues whose routes expire after 30 seconds, on a clock of its own."""

    def __init__(self, stub: StubBroker, **given: str) -> None:
        self.now = 0.0
        options = options_for(stub, consumerGroup=GROUP, **given)
        cluster = open_cluster(replace(options.cluster, route_max_age_s=30.0, retries=0))
        self.catalog = QueueCatalog(cluster, options, PlannerRhythm(clock=lambda: self.now))


def test_planning_asks_name_servers_that_are_away_for_one_topic() -> None:
    """If name servers fail, a planning does not request the routes of all eight topics one after the other."""
    topics = [f"topic-{number}" for number in range(8)]
    with StubBroker(dict.fromkeys(topics, 1)) as stub:
        stub.put(topics[0], b"a")
        with Run(options_for(stub, subscribe=",".join(topics))) as run:
            run.read_until(1)
            asked = stub.faults.busy(on=ROUTE, at=NAME_SERVER, times=None)
            stub.put(topics[0], b"b")
            run.plan()
            assert 1 <= asked.fired < len(topics)


def test_what_was_absent_stays_absent(stub: StubBroker) -> None:
    """If name servers fail, a topic that was absent stays absent; it is asked for every 30 seconds and found later."""
    world = World(stub, readRetryTopic="true")
    assert world.catalog.queues() == [queue_of(0)]
    away = stub.faults.busy(on=ROUTE, at=NAME_SERVER, times=None)
    for world.now in (30.0, 59.0, 60.0):
        assert world.catalog.queues() == [queue_of(0)]
    assert away.fired == 2
    stub.faults.clear()
    stub.state.brokers[0].topics.find_or_create(RETRY, 1)
    world.now = 90.0
    assert world.catalog.queues() == [RETRY_QUEUE, queue_of(0)]


def test_a_topic_of_a_pattern_may_stay_absent_too(stub: StubBroker) -> None:
    """If a topic of the pattern has no route yet, and name servers then fail, the topic still counts as absent."""
    stub.state.brokers[0].topics.find_or_create("unrouted", 1)
    stub.faults.answer(17, on=ROUTE, at=NAME_SERVER, times=None)
    world = World(stub, subscribePattern="unrouted")
    assert world.catalog.queues() == []
    stub.faults.clear()
    stub.faults.busy(on=ROUTE, at=NAME_SERVER, times=None)
    world.now = 30.0
    assert world.catalog.queues() == []


def test_what_was_never_looked_for_is_not_taken_for_absent(stub: StubBroker) -> None:
    """If name servers fail before the retry topic was asked for once, the call fails, since the topic may exist."""
    world = World(stub, readRetryTopic="true")
    stub.faults.delay(1, on=ROUTE, at=NAME_SERVER)
    stub.faults.busy(on=ROUTE, at=NAME_SERVER, times=None)
    with pytest.raises(RocketMQError, match="busy"):
        world.catalog.queues()
