"""How often brokers are asked, whatever Spark asks."""

from __future__ import annotations

import time

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import BrokerError
from pyspark_rocketmq.source.view import BrokerView
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import TOPIC, Run, options_for, queue_of


@pytest.mark.parametrize("topics", [1, 3])
def test_an_idle_query_asks_each_broker_ten_times_a_second(topics: int) -> None:
    """However often Spark asks, however many topics there are; and nothing else is asked of brokers."""
    names = [f"t{number}" for number in range(topics)]
    with StubBroker(dict.fromkeys(names, 2)) as stub:
        with Run(options_for(stub, subscribe=",".join(names))) as run:
            run.trigger()
            asked = stub.faults.delay(1, times=None)
            begun = time.monotonic()
            while time.monotonic() < begun + 1.0:
                assert run.trigger() is None
            assert topics <= asked.fired <= 10 + topics


def test_bounds_are_asked_for_anew_after_a_moment() -> None:
    """Sooner for queues that were not asked for before."""
    now = [0.0]
    with StubBroker({TOPIC: 2}) as stub:
        asked = stub.faults.delay(1, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)
        view = BrokerView(open_cluster(options_for(stub).cluster), None, lambda: now[0])
        view.fetch_bounds([queue_of(0)])
        stub.put(TOPIC, b"a", queue_id=0)
        assert view.fetch_bounds([queue_of(0)])[queue_of(0)].max_offset == 0
        now[0] = 0.1
        assert view.fetch_bounds([queue_of(0)])[queue_of(0)].max_offset == 1
        view.fetch_bounds([queue_of(0), queue_of(1)])
        assert asked.fired == 3


def test_what_failed_is_not_remembered() -> None:
    """The next question goes out again."""
    with StubBroker({TOPIC: 1}) as stub:
        options = options_for(stub, **{"fetchOffset.numRetries": "0"})
        view = BrokerView(open_cluster(options.cluster), None)
        stub.faults.busy(on=RequestCode.GET_TOPIC_STATS_INFO)
        with pytest.raises(BrokerError):
            view.fetch_bounds([queue_of(0)])
        assert view.fetch_bounds([queue_of(0)])[queue_of(0)].max_offset == 0
