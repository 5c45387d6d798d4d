"""Spark's calls on a writer: made on the driver, pickled for tasks, told to commit or to abort."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from broker_stub.faults import NAME_SERVER
from pyspark_rocketmq.datasource import RocketMQDataSource
from pyspark_rocketmq.errors import OptionError, RocketMQError
from pyspark_rocketmq.options import batch_keys
from pyspark_rocketmq.options.writer_options import GivenBatch
from pyspark_rocketmq.sink.identity import running_batch
from pyspark_rocketmq.sink.report import WriteReport
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.sink.fixtures import BATCH, TOPIC, MakeTarget, Target, rows, schema_of

SCHEMA = schema_of("body BINARY")
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
SECRETS = {"accessKey": "hush-ak", "secretKey": "hush-sk", "securityToken": "hush-token"}


def source(target: Target, options: Mapping[str, str] | None = None) -> RocketMQDataSource:
    """Return the data source as Spark makes it: with names of options in lower case."""
    given = {"nameServer": target.stub.name_server, "topic": TOPIC, **(options or {})}
    return RocketMQDataSource({name.lower(): text for name, text in given.items()})


def plan_of(writer: Any) -> Any:
    """Return the plan of a writer's copy in a task."""
    return pickle.loads(pickle.dumps(writer))._plan


def report(partition: int, **figures: Any) -> WriteReport:
    """Return the report of a task."""
    return WriteReport(BATCH, partition, **figures)


# --- made on the driver -----------------------------------------------------------------------------------------------


def test_both_writers_travel_with_their_queues(target: Target) -> None:
    """A copy of a writer in a task has the queues that the topic had on the driver."""
    made = source(target)
    for writer in (made.writer(SCHEMA, overwrite=False), made.streamWriter(SCHEMA, overwrite=False)):
        assert len(plan_of(writer).queues) == 4


def test_overwriting_is_refused(target: Target) -> None:
    """A topic cannot be overwritten, neither by a batch nor by a stream; the error says what to use."""
    made = source(target)
    for make in (made.writer, made.streamWriter):
        with pytest.raises(OptionError, match=r'cannot be overwritten; use mode\("append"\), .*outputMode\("append"\)'):
            make(SCHEMA, overwrite=True)


def test_a_writer_that_only_commits_asks_no_server(target: Target) -> None:
    """Spark makes another writer of a stream for the commit: it works while no server can be reached."""
    target.stub.close()
    writer = source(target).streamWriter(SCHEMA, overwrite=False)
    writer.commit([report(0, rows=1)], 7)
    writer.abort([None], 7)


def test_an_error_of_the_cluster_reaches_the_driver(target: Target) -> None:
    """If the topic is missing and not created, making a batch's writer fails, and pickling a stream's."""
    target.stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=ROUTE, at=NAME_SERVER, times=None)
    made = source(target, {"sendTimeoutMs": "1000"})
    with pytest.raises(RocketMQError, match="mqadmin updateTopic"):
        made.writer(SCHEMA, overwrite=False)
    writer = made.streamWriter(SCHEMA, overwrite=False)
    with pytest.raises(RocketMQError, match="mqadmin updateTopic"):
        pickle.dumps(writer)


def test_a_plan_knows_what_keys_select(target: Target) -> None:
    """Rows have keys for their queues if there is a column for them that `queueSelector` does not ignore."""
    keyed = schema_of("body BINARY, shardingKey STRING")
    named = schema_of("body BINARY, key STRING")
    made = [
        plan_of(source(target, options).streamWriter(schema, overwrite=False)).has_keys
        for schema, options in (
            (SCHEMA, {}),
            (keyed, {}),
            (keyed, {"queueSelector": "roundRobin"}),
            (named, {}),
            (named, {"ordering": "key"}),
        )
    ]
    assert made == [False, True, False, False, True]


def test_a_stream_lists_queues_once(target: Target) -> None:
    """Spark pickles a writer twice for one batch; the second time no server is asked."""
    writer = source(target).streamWriter(SCHEMA, overwrite=False)
    first = plan_of(writer)
    target.stub.close()
    assert plan_of(writer) == first


def test_options_of_reads_are_refused_when_a_writer_is_made(target: Target) -> None:
    """The data source itself accepts options of both; making the writer refuses those of reads, and the reverse."""
    made = source(target, {"startingOffsets": "earliest"})
    with pytest.raises(OptionError, match=r"OPTION_SCOPE.*reads"):
        made.writer(SCHEMA, overwrite=False)
    reading = RocketMQDataSource({"nameserver": "ns:9876", "subscribe": "orders", "sendbatchsize": "1"})
    with pytest.raises(OptionError, match=r"OPTION_SCOPE.*writes"):
        reading.reader(SCHEMA)


def test_wrong_options_fail_before_the_use_is_known() -> None:
    """A wrong value of an option of writes fails when Spark makes the data source."""
    with pytest.raises(OptionError, match=r"\[OPTION_VALUE\] sendBatchSize = '0'"):
        RocketMQDataSource({"nameserver": "ns:9876", "sendBatchSize": "0"})


@pytest.mark.parametrize(("release", "warns"), [("4.9.7", True), ("5.3.3", False)])
def test_brokers_that_ignore_times_are_warned_about(
    make_target: MakeTarget, release: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers before 5.0 deliver rows at once, whatever their `deliverTimeMs` says: a warning tells that."""
    timed = schema_of("body BINARY, deliverTimeMs BIGINT")
    made = source(make_target(emulate=release))
    made.writer(SCHEMA, overwrite=False)
    assert not caplog.messages
    made.writer(timed, overwrite=False)
    pickle.dumps(made.streamWriter(timed, overwrite=False))
    assert ["older than 5.0" in line for line in caplog.messages] == [True] * 2 * warns


def test_a_broker_that_refuses_to_tell_is_not_called_old(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """A user who may not read the topic's configuration gets no warning about old brokers."""
    target.stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.GET_TOPIC_CONFIG)
    source(target).writer(schema_of("body BINARY, deliverTimeMs BIGINT"), overwrite=False)
    assert not caplog.messages


# --- which batch ------------------------------------------------------------------------------------------------------


def test_each_batch_write_has_an_identity_of_its_own(target: Target) -> None:
    """Two batch writes of equal rows share no message id; `writing.send` says which batch is written."""
    made = source(target)
    first, second = (plan_of(made.writer(SCHEMA, overwrite=False)).batch for _ in range(2))
    assert first != second and first.batch_id == 0
    helped = source(target, batch_keys("query", 9)).writer(SCHEMA, overwrite=False)
    assert plan_of(helped).batch == GivenBatch("query", 9)


class Context:
    """A task's context that knows some local properties."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def getLocalProperty(self, name: str) -> str | None:
        """Return the property whose name ends like this."""
        return self._properties.get(name.rpartition(".")[2])


def test_a_stream_takes_its_identity_from_the_task() -> None:
    """Query and batch come from the task's local properties; without them nothing is written."""
    assert running_batch(Context(queryId="q", batchId="7")) == GivenBatch("q", 7)  # type: ignore[arg-type]
    with pytest.raises(RocketMQError, match=r"does not tell the task.*writing.send"):
        running_batch(Context(batchId="7"))  # type: ignore[arg-type]


# --- told to commit or to abort ---------------------------------------------------------------------------------------


def test_a_commit_logs_one_line_with_sums(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """The line has query, batch, sink, rows, bytes, sends, brokers, retries, pauses, and seconds by step."""
    caplog.set_level(logging.INFO)
    writer = source(target, {"sinkName": "audit"}).streamWriter(SCHEMA, overwrite=False)
    figures: dict[str, Any] = {"rows": 5, "requests": 2, "byte_count": 100, "retries": 1, "pauses": 2}
    reports = [report(task, brokers=(f"broker-{task}",), seconds={"encoding": 0.5}, **figures) for task in range(3)]
    writer.commit([*reports], 7)
    [(_, level, line)] = caplog.record_tuples
    assert level == logging.INFO
    assert line == (
        "batch 7 of query 0a1b of sink audit: 15 rows, of which 0 are dead letters and 0 were dropped; 300 bytes in "
        "6 sends to broker-0, broker-1, broker-2; 3 retries, 6 pauses; 3 tasks, together encoding 1.500 s"
    )


def test_bad_rows_make_it_a_warning(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """A batch with dropped rows or dead letters is logged as a warning, which Spark shows by default."""
    writer = source(target).streamWriter(SCHEMA, overwrite=False)
    for figures in ({"dropped": 1}, {"dead_letters": 1}):
        writer.commit([report(0, **figures)], 7)
    assert [level for _, level, _ in caplog.record_tuples] == [logging.WARNING] * 2


def test_an_abort_logs_what_is_known(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """The warning counts the tasks that had ended and their rows, and says that the others may have stored some."""
    made = source(target)
    made.writer(SCHEMA, overwrite=False).abort([report(0, rows=5), None, None])
    made.streamWriter(SCHEMA, overwrite=False).abort([report(0, rows=5), None, None], 7)
    for line, ids in zip(caplog.messages, ("with other message ids", "with the same message ids"), strict=True):
        assert "1 of 3 tasks had written all their rows, 5 rows" in line and "may have stored some" in line
        assert ids in line


def test_a_report_stays_small(target: Target) -> None:
    """A report does not grow with the numbers of brokers and rows."""
    small = target.write(rows(10))
    small.name_brokers(f"broker-{number}" for number in range(1000))
    assert len(small.brokers) == 16 and len(pickle.dumps(small)) < 2000


def test_secrets_are_in_no_text_of_a_writer(target: Target) -> None:
    """Neither writer nor plan shows keys and tokens."""
    writer = source(target, SECRETS).streamWriter(SCHEMA, overwrite=False)
    plan = plan_of(writer)
    assert "hush" not in f"{writer} {writer!r} {plan} {plan!r}"
