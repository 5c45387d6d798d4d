"""What a query that ends still does."""

from __future__ import annotations

from broker_stub import StubBroker
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP, TOPIC, Run, options_for, queue_of


def test_a_slow_broker_still_gets_the_last_positions() -> None:
    """Nobody waits for the planner's process to end, so it may wait for its broker."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.put(TOPIC, b"a")
        stub.faults.delay(2000, on=RequestCode.QUERY_CONSUMER_OFFSET)
        with Run(options_for(stub, consumerGroup=GROUP), available_now=True) as run:
            assert len(run.drain()) == 1
        assert stub.offsets(GROUP) == {queue_of(0): 1}
