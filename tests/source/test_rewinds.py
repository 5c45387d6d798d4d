"""Check that a loss moves the group's position back with the query, so that it is never ahead of the query."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_stub import StubBroker, StubCluster
from pyspark_rocketmq.client.membership import make_client_id
from pyspark_rocketmq.client.stores import LocalStore, offset_file
from pyspark_rocketmq.errors import OffsetBeyondEnd
from pyspark_rocketmq.options import ReaderOptions
from tests.source.driving import (
    GROUP,
    TOPIC,
    Checkpoint,
    Run,
    options_for,
    queue_of,
    quick_run,
    store_offsets,
    wait_for,
)

Options = Callable[[StubCluster], ReaderOptions]


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue, which holds 40 messages."""
    with StubBroker({TOPIC: 1}) as broker:
        broker.fill(TOPIC, 40, 4)
        yield broker


def dedicated(stub: StubCluster, **given: str) -> ReaderOptions:
    """Return options of a query that is the only user of its group and goes on after a loss."""
    return options_for(stub, **{"consumerGroup": GROUP, "failOnDataLoss": "false", **given})


def shared(stub: StubCluster, **given: str) -> ReaderOptions:
    """Return options of a query that is a member of its group and goes on after a loss."""
    member = {"groupMembership": "shared", "startingOffsets": "group", "rebalanceInterval": "1s"}
    return dedicated(stub, **{**member, **given})


def make_anew(stub: StubBroker, count: int) -> None:
    """Delete the queue with its messages, then create it again with `count` new messages."""
    stub.run(lambda: stub.state.brokers[0].store.queues.pop((TOPIC, 0)))
    stub.fill(TOPIC, count, 4)


def standing(stub: StubCluster) -> int | None:
    """Return the group's position in queue 0, or None if the group has none."""
    return stub.offsets(GROUP).get(queue_of(0))


def await_standing(run: Run, stub: StubCluster, offset: int) -> None:
    """Trigger the query until the group's position is `offset` and nothing is left to read."""
    wait_for(lambda: run.trigger() is None and standing(stub) == offset, f"the group stands at {offset}")


@pytest.mark.parametrize("options", [dedicated, shared])
def test_the_position_follows_the_query_down_after_a_loss(
    stub: StubBroker, caplog: pytest.LogCaptureFixture, options: Options
) -> None:
    """If a queue is made anew and ends below the committed position, the position is moved back with a warning."""
    with quick_run(options(stub)) as run:
        run.read_until(40)
        await_standing(run, stub, 40)
        make_anew(stub, 25)
        assert run.trigger() == []
        stub.fill(TOPIC, 5, 4)
        assert len(run.read_until(5)) == 5
        await_standing(run, stub, 30)
    assert "40 of group spark-orders is ahead of this query's" in caplog.text and "moved back" in caplog.text


def test_a_loss_that_fails_the_query_moves_no_position(stub: StubBroker) -> None:
    """If a loss fails a new run of the query, the finished batch before the loss is not committed."""
    given, checkpoint = dedicated(stub, failOnDataLoss="true"), Checkpoint()
    with quick_run(given, checkpoint, once=True) as run:
        run.read_until(40)
    make_anew(stub, 25)
    store_offsets(stub, {queue_of(0): 3})
    with quick_run(given, checkpoint) as run, pytest.raises(OffsetBeyondEnd, match="offset 40"):
        run.trigger()
    assert standing(stub) == 3


def test_a_commit_after_the_loss_does_not_publish_what_was_lost(stub: StubBroker) -> None:
    """If Spark commits the batch before a loss once more, the group's position still moves back to the new end."""
    with quick_run(dedicated(stub)) as run:
        run.drain()
        make_anew(stub, 25)
        run.trigger()
        run.reader.commit(json.loads(run.checkpoint.offsets[0]))
        await_standing(run, stub, 25)


def test_a_loss_is_known_to_the_run_that_replays_it(stub: StubBroker) -> None:
    """If a run ends between a loss and its commit, the next run still moves the group's position back."""
    checkpoint = Checkpoint()
    with quick_run(dedicated(stub), checkpoint) as run:
        run.drain()
        await_standing(run, stub, 40)
    make_anew(stub, 25)
    with quick_run(dedicated(stub, commitOffsets="none"), checkpoint) as killed:
        killed.plan()
    stub.fill(TOPIC, 5, 4)
    with quick_run(dedicated(stub), checkpoint) as run:
        run.trigger()
        assert len(run.read_until(5)) == 5
        await_standing(run, stub, 30)


def test_a_larger_position_without_a_loss_stays(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If the group's position is larger than the query's and no loss was found, it stays, with a warning."""
    store_offsets(stub, {queue_of(0): 60})
    with caplog.at_level(logging.WARNING), quick_run(dedicated(stub)) as run:
        run.drain()
        wait_for(lambda: "this query's 40 and stays" in caplog.text, "the warning")
    assert standing(stub) == 60


def test_a_file_follows_the_query_down_too(stub: StubBroker, tmp_path: Path) -> None:
    """If a broadcasting query keeps its positions in a file, a loss moves the position in the file back."""
    given = {"messageModel": "BROADCASTING", "localOffsetStoreDir": str(tmp_path)}
    checkpoint = Checkpoint()
    for count in (0, 25):
        if count:
            make_anew(stub, count)
        with quick_run(dedicated(stub, **given), checkpoint, available_now=True) as run:
            run.drain()
    store = LocalStore(offset_file(tmp_path, make_client_id("DEFAULT"), GROUP))
    store.load()
    assert store.progress.snapshot() == {queue_of(0): 25}


# --- positions beyond the end of the queue ---------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "checkpoint"), [(40, 15), (15, 40)])
def test_a_member_does_not_go_by_a_position_beyond_the_end(
    stub: StubBroker, caplog: pytest.LogCaptureFixture, group: int, checkpoint: int
) -> None:
    """If one of the group's and the checkpoint's positions is beyond the end, a member starts at the other one."""
    make_anew(stub, checkpoint)
    log = Checkpoint()
    with quick_run(shared(stub), log) as run:
        run.read_until(checkpoint)
        run.trigger()
    make_anew(stub, 25)
    store_offsets(stub, {queue_of(0): group})
    with quick_run(shared(stub), log) as run:
        assert [row.offset for row in run.read_until(10)] == list(range(15, 25))
        await_standing(run, stub, 25)
    assert "position 40" in caplog.text
