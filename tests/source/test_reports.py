"""Test the reports of tasks and planners: plain values for logs, Spark's progress and tests."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.progress import planner_status
from pyspark_rocketmq.source.partition import RangePartition, read_partition
from pyspark_rocketmq.source.reports import PlannerStatus, TaskReport, measure_lag, parse_status
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP, TOPIC, Checkpoint, fresh_run, options_for, queue_of, wait_for

MOST_BYTES = 4096


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues."""
    with StubBroker({TOPIC: 2}) as broker:
        yield broker


def status_of(**given: Any) -> PlannerStatus:
    """Return a planner status with these fields, and with zero or no value in all others."""
    commits = {"group": None, "failed_commits": 0, "is_commit_refused": False}
    return PlannerStatus(**{"role": "solo", "losses": {}, **commits, **measure_lag({}, {}), **given})


def test_a_task_reports_nothing_before_it_begins() -> None:
    """All figures of a task begin at zero."""
    zeros = "0 pulls, 0 bytes, 0.000 s waited, 0 dropped, losses {}"
    text = str(TaskReport(2))
    assert text.startswith("0 rows of 2 ranges; 0 records were read one by one") and text.endswith(zeros)


def query_with(report: Any) -> Any:
    """Return a stand-in for a query with several sources, the first of which reports `report` as its latest offset."""
    sources = [{"latestOffset": report}, {"latestOffset": {"logOffset": 3}}, {"latestOffset": None}, {}]
    return SimpleNamespace(lastProgress=SimpleNamespace(json=json.dumps({"sources": sources})))


# --- tasks -----------------------------------------------------------------------------------------------------------


def test_a_task_logs_its_report(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """At its end a task logs a line with its rows, ranges, pulls, bytes, waits, dropped messages and losses."""
    stub.fill(TOPIC, 80, 10)
    stub.expire(TOPIC, 0, 10)
    options = options_for(stub, pullBatchSize="8", failOnDataLoss="false")
    task = RangePartition((QueueRange(queue_of(0), 0, 40), QueueRange(queue_of(1), 0, 40)))
    with caplog.at_level(logging.DEBUG, "pyspark_rocketmq.source.partition"):
        assert sum(batch.num_rows for batch in read_partition(task, options)) == 70
    [line] = [each.getMessage() for each in caplog.records if each.name == "pyspark_rocketmq.source.partition"]
    assert line.startswith("70 rows of 2 ranges; 0 records were read one by one")
    pulls, byte_count = (int(part.split()[0]) for part in line.split("; ")[-1].split(", ")[:2])
    assert 70 / 8 <= pulls <= 12 and byte_count > 70 * 10
    assert line.endswith("0 dropped, losses {'BELOW_MIN': 1}")


def test_a_task_measures_how_long_it_waited(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a broker answers late, the task's log line has the time for which the task waited."""
    stub.fill(TOPIC, 2, 10)
    stub.faults.delay(300, on=RequestCode.PULL_MESSAGE)
    with caplog.at_level(logging.DEBUG, "pyspark_rocketmq.source.partition"):
        list(read_partition(RangePartition((QueueRange(queue_of(0), 0, 1),)), options_for(stub)))
    [waited] = [part for part in caplog.text.split(", ") if part.endswith(" s waited")]
    assert float(waited.split()[0]) >= 0.2


# --- planners --------------------------------------------------------------------------------------------------------


def test_a_status_tells_what_a_cap_left_behind(stub: StubBroker) -> None:
    """The status has the sums of positions, ends and lag over all queues, and names the queues with the largest lag."""
    for _ in range(30):
        stub.put(TOPIC, b"x", queue_id=0)
    stub.put(TOPIC, b"x", queue_id=1)
    with fresh_run(options_for(stub, consumerGroup=GROUP, maxOffsetsPerQueue="10")) as run:
        run.trigger()
        assert run.reader.planner.status() == status_of(
            queues=2, position=11, end=31, lag=20, most_behind={f"{TOPIC}/broker-a/0": 20}, group=GROUP
        )
        run.drain()
        assert run.reader.planner.status().lag == 0


def test_a_status_counts_failed_commits_and_losses(stub: StubBroker) -> None:
    """The status counts failed commits, and losses that did not fail the query."""
    options = options_for(stub, consumerGroup=GROUP, failOnDataLoss="false", **{"fetchOffset.numRetries": "0"})
    with fresh_run(options) as run:
        stub.put(TOPIC, b"x", queue_id=0)
        run.trigger()
        stub.faults.busy(on=RequestCode.UPDATE_CONSUMER_OFFSET)
        stub.run(lambda: stub.state.brokers[0].store.queues.pop((TOPIC, 0)))
        run.trigger()
        wait_for(lambda: bool(run.reader.planner.status().failed_commits == 1), "the commit has failed")
        assert run.reader.planner.status().losses == {"ABOVE_MAX": 1}


def test_a_status_stays_out_of_the_checkpoint(stub: StubBroker) -> None:
    """The status is in the reported latest offset, and not in the offsets of the checkpoint."""
    stub.put(TOPIC, b"x", queue_id=0)
    checkpoint = Checkpoint()
    with fresh_run(options_for(stub), checkpoint) as run:
        run.drain()
        assert "status" in run.reader.reportLatestOffset()
    assert checkpoint.last.keys() == {"begin", "next", "open", "version"}


def test_a_driver_reads_the_status_from_the_progress(stub: StubBroker) -> None:
    """`planner_status` reads the status from an object or from text, and ignores sources that report none."""
    stub.put(TOPIC, b"x", queue_id=0)
    with fresh_run(options_for(stub)) as run:
        run.trigger()
        report, status = run.reader.reportLatestOffset(), run.reader.planner.status()
    assert planner_status(query_with(report)) == planner_status(query_with(json.dumps(report))) == [status]
    assert planner_status(query_with({**report, "status": {"from": "another release"}})) == []
    assert planner_status(query_with("{")) == []


def test_a_query_without_progress_has_no_status() -> None:
    """If a query has no progress yet, `planner_status` returns an empty list."""
    query: Any = SimpleNamespace(lastProgress=None)
    assert planner_status(query) == []


def test_queues_without_a_position_do_not_count_as_read() -> None:
    """A queue that waits for its first position is counted apart, and is in no sum."""
    status = status_of(**measure_lag({queue_of(0): 5}, {queue_of(0): 12, queue_of(1): 1_000_000}))
    assert (status.queues, status.without_position) == (1, 1)
    assert (status.position, status.end, status.lag) == (5, 12, 7)


def test_a_status_is_bounded() -> None:
    """A status takes at most 4 KiB of JSON, with ten thousand queues and with names of thousands of characters."""
    queues = [MessageQueue("\u4e00" * 255, "\u4e01" * 5000, number) for number in range(10_000)]
    status = status_of(group="g" * 255, **measure_lag(dict.fromkeys(queues, 0), dict.fromkeys(queues, 2**62)))
    assert len(json.dumps(status.as_json())) <= MOST_BYTES
    assert len(status.most_behind) == 3 and parse_status({"status": status.as_json()}) == status
