"""Nothing is decided about a share before brokers list the query among the members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import GroupError
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source import membership
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP, TOPIC, Run, join, options_for

HEARTBEAT = RequestCode.HEART_BEAT


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a message in each of four queues, and somebody else in the group."""
    with StubBroker({TOPIC: 4}) as broker:
        broker.fill(TOPIC, 4, 4)
        join(broker)
        yield broker


def shared(stub: StubBroker) -> ReaderOptions:
    """Options of a query that shares its group."""
    return options_for(stub, consumerGroup=GROUP, groupMembership="shared", startingOffsets="group")


def test_a_lost_first_heartbeat_does_not_leave_a_query_without_a_share(stub: StubBroker) -> None:
    """It is sent again, and the share is waited for."""
    lost = stub.faults.busy(on=HEARTBEAT)
    with Run(shared(stub), available_now=True) as run:
        assert len(run.drain()) == 2 and lost.fired == 1


def test_a_query_that_is_never_listed_says_so(stub: StubBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not take that for having no share, and does not wait for ever."""
    monkeypatch.setattr(membership, "JOIN_PATIENCE_S", 1.0)
    stub.faults.busy(on=HEARTBEAT, times=None)
    with Run(shared(stub)) as run, pytest.raises(GroupError, match="not known after 1 s") as told:
        run.plan()
    assert "do not list" in str(told.value.__cause__)
