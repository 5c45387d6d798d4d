"""Check that a query uses no assignment before brokers list the query as a member of its group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import GroupError
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP, TOPIC, Run, join, options_for, wait_for

HEARTBEAT, LIST = RequestCode.HEART_BEAT, RequestCode.GET_CONSUMER_LIST_BY_GROUP


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a message in each of four queues, and another member in the group."""
    with StubBroker({TOPIC: 4}) as broker:
        broker.fill(TOPIC, 4, 4)
        join(broker)
        yield broker


def shared(stub: StubBroker, **given: str) -> ReaderOptions:
    """Return options of a query that is a member of its group."""
    return options_for(stub, consumerGroup=GROUP, groupMembership="shared", startingOffsets="group", **given)


def test_a_lost_first_heartbeat_does_not_leave_a_query_without_a_share(stub: StubBroker) -> None:
    """If its first heartbeat fails, a query sends it again, waits for its assignment, and reads half of the queues."""
    lost = stub.faults.busy(on=HEARTBEAT)
    with Run(shared(stub), available_now=True) as run:
        assert len(run.drain()) == 2 and lost.fired == 1


def test_a_query_that_is_never_listed_says_so(stub: StubBroker) -> None:
    """If brokers never list the query as a member, planning fails after a timeout instead of reading nothing."""
    stub.faults.busy(on=HEARTBEAT, times=None)
    with (
        Run(shared(stub), rhythm=PlannerRhythm(join_timeout_s=1.0)) as run,
        pytest.raises(GroupError, match="no assignment of orders after 1 s") as told,
    ):
        run.plan()
    assert "do not list" in str(told.value.__cause__)


def test_heartbeats_do_not_wait_for_rounds(stub: StubBroker) -> None:
    """If a rebalance waits for a broker that does not answer, the query still sends heartbeats."""
    options = shared(stub, rebalanceInterval="1s")
    assert options.share is not None
    with Run(replace(options, share=replace(options.share, heartbeat_s=0.1))) as run:
        run.plan()
        mute = stub.faults.drop_reply(on=LIST, times=None)
        wait_for(lambda: mute.fired > 0, "a round has begun")
        beats = stub.faults.delay(0, on=HEARTBEAT, times=None)
        before = mute.fired
        wait_for(lambda: mute.fired > before, "the round looks at its next topic, three seconds later")
        assert beats.fired >= 3
        stub.faults.clear()
