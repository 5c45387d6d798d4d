"""Check that brokers are asked for bounds at a limited rate, however often Spark asks the planner."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.view import BrokerView
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.source.driving import TOPIC, Run, admin_of, options_for, queue_of


@pytest.mark.parametrize("topics", [1, 3])
def test_an_idle_query_asks_each_broker_ten_times_a_second(topics: int) -> None:
    """An idle query sends a broker at most about ten requests per second, for any number of topics."""
    names = [f"t{number}" for number in range(topics)]
    with StubBroker(dict.fromkeys(names, 2)) as stub:
        with Run(options_for(stub, subscribe=",".join(names))) as run:
            run.trigger()
            asked = stub.faults.delay(1, times=None)
            begun = time.monotonic()
            while time.monotonic() < begun + 1.0:
                assert run.trigger() is None
            assert topics <= asked.fired <= 10 + topics


@pytest.fixture
def refusing() -> Iterator[StubBroker]:
    """One broker with a topic of eight queues; it refuses statistics, so that each queue needs requests of its own."""
    with StubBroker({TOPIC: 8}) as stub:
        stub.faults.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
        yield stub


class Polling:
    """A view of the brokers' bounds that is asked a hundred times a second, on a clock of its own."""

    def __init__(self, stub: StubBroker) -> None:
        self._now = 0.0
        self.view = BrokerView(open_cluster(options_for(stub).cluster), None, PlannerRhythm(clock=lambda: self._now))
        self.poll(0.01)

    def poll(self, seconds: float) -> None:
        """Ask for the bounds of all queues 100 times per second, for this many seconds of the clock."""
        for _ in range(round(seconds * 100)):
            self.bounds = self.view.fetch_bounds([queue_of(number) for number in range(8)])
            self._now += 0.01


def test_a_broker_without_statistics_is_asked_no_oftener(refusing: StubBroker) -> None:
    """If a broker refuses statistics, so that each queue needs requests, it still gets at most ten per second."""
    polling = Polling(refusing)
    smallest, following = (
        refusing.faults.delay(1, on=code, times=None)
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    )
    polling.poll(60.0)
    assert smallest.fired == 8
    assert 550 <= smallest.fired + following.fired <= 600


def test_news_are_soon_followed_by_the_next_question(refusing: StubBroker) -> None:
    """After a message in a queue, the next one is seen within 0.1 seconds, even at a broker that refuses statistics."""
    polling = Polling(refusing)
    refusing.put(TOPIC, b"a", queue_id=3)
    polling.poll(1.61)
    assert polling.bounds[queue_of(3)].max_offset == 1
    refusing.put(TOPIC, b"b", queue_id=3)
    polling.poll(0.1)
    assert polling.bounds[queue_of(3)].max_offset == 2


def test_a_message_soon_after_another_is_soon_seen() -> None:
    """The sooner messages follow each other, the sooner each is seen; without messages, fewer requests are sent."""
    with StubBroker({TOPIC: 8}) as stub:
        polling = Polling(stub)
        stub.put(TOPIC, b"a", queue_id=3)
        polling.poll(0.11)
        for number, after_s in enumerate((0.1, 0.3, 0.5, 0.8)):
            polling.poll(after_s)
            stub.put(TOPIC, b"b", queue_id=3)
            polling.poll(after_s / 16 + 0.02)
            assert polling.bounds[queue_of(3)].max_offset == number + 2
        asked = stub.faults.delay(1, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
        polling.poll(2.0)
        assert asked.fired <= 60
        asked_before = asked.fired
        polling.poll(1.0)
        assert asked.fired - asked_before <= 10


def test_a_queue_that_was_made_anew_has_new_bounds(refusing: StubBroker) -> None:
    """If a topic is deleted and made anew, the remembered minimum of the old queue is not used."""
    refusing.fill(TOPIC, 800, size=1)
    refusing.expire(TOPIC, 3, 50)
    polling = Polling(refusing)
    admin_of(refusing).admin.delete_topic(TOPIC)
    admin_of(refusing).admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=8, write_queue_nums=8))
    polling.poll(2.0)
    assert polling.bounds[queue_of(3)] == (0, 0, False)


def test_bounds_are_asked_for_anew_after_a_moment() -> None:
    """Bounds are remembered for 0.1 seconds; bounds of a queue that was not asked for before are fetched at once."""
    now = [0.0]
    with StubBroker({TOPIC: 2}) as stub:
        asked = stub.faults.delay(1, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
        view = BrokerView(open_cluster(options_for(stub).cluster), None, PlannerRhythm(clock=lambda: now[0]))
        view.fetch_bounds([queue_of(0)])
        stub.put(TOPIC, b"a", queue_id=0)
        assert view.fetch_bounds([queue_of(0)])[queue_of(0)].max_offset == 0
        now[0] = 0.1
        assert view.fetch_bounds([queue_of(0)])[queue_of(0)].max_offset == 1
        view.fetch_bounds([queue_of(0), queue_of(1)])
        assert asked.fired == 3


def test_what_is_forgotten_is_asked_for_at_once(refusing: StubBroker) -> None:
    """After `forget`, the next call fetches the minima and maxima of all queues."""
    polling = Polling(refusing)
    refusing.fill(TOPIC, 8, size=1)
    refusing.expire(TOPIC, 3, 1)
    asked = refusing.faults.delay(1, times=None)
    polling.poll(0.5)
    assert asked.fired == 0 and polling.bounds[queue_of(3)] == (0, 0, False)
    polling.view.forget()
    polling.poll(0.01)
    assert asked.fired == 16 and polling.bounds[queue_of(3)] == (1, 1, False)


def test_what_failed_is_not_remembered() -> None:
    """If a request for bounds fails, the next call sends a request again."""
    with StubBroker({TOPIC: 1}) as stub:
        options = options_for(stub, **{"fetchOffset.numRetries": "0"})
        view = BrokerView(open_cluster(options.cluster), None)
        stub.faults.busy(on=RequestCode.GET_TOPIC_STATS_INFO)
        with pytest.raises(BrokerError):
            view.fetch_bounds([queue_of(0)])
        assert view.fetch_bounds([queue_of(0)])[queue_of(0)].max_offset == 0
