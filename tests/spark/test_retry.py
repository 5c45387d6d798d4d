"""Test through Spark that failed rows are sent back to their brokers and delivered again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import OptionError, SendBackError
from pyspark_rocketmq.retry import RECONSUME_LATER, SUCCESS, SUSPEND, consume, send_back
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.queries import GROUP, TOPIC, batch, given, run_to_end, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker, a topic of four queues, and a clock that only the test advances."""
    with StubBroker({TOPIC: 4}, frozen_clock=True) as broker:
        yield broker


def put(stub: StubBroker, *bodies: str) -> None:
    """Send one message for each body, to the queues in turn."""
    for body in bodies:
        stub.put(TOPIC, body.encode())


def options(stub: StubBroker, **more: str) -> dict[str, str]:
    """Return options for a reader and for the functions of `retry`, with these further options."""
    return given(stub, consumerGroup=GROUP, **more)


def bodies(stub: StubBroker, topic: str) -> list[str]:
    """Return the bodies of all messages in a topic as sorted texts."""
    return sorted(record.body.decode() for record in stub.messages(topic))


def test_rows_go_back_once_and_the_frame_tells(spark: SparkSession, stub: StubBroker) -> None:
    """Rows go back once, at the delay level of their column or the option; reading the report repeats nothing."""
    put(stub, *"abcd")
    levels = "CASE body WHEN binary('a') THEN -1 WHEN binary('b') THEN 1 END AS delayLevel"
    rows = batch(spark, stub).selectExpr("*", levels)
    report = send_back(rows, options(stub, delayLevelWhenNextConsume="2"))
    assert report.columns == ["topic", "brokerName", "commitLogOffset", "accepted", "error"]
    assert report.count() == 4 and report.where("accepted AND error IS NULL").count() == 4
    assert bodies(stub, DEAD) == ["a"]
    for ms, come in ((1_000, "b"), (3_999, "b"), (1, "bcd")):
        stub.clock.advance(ms)
        assert bodies(stub, RETRY) == list(come)


def test_refusals_are_counted_by_broker(spark: SparkSession, stub: StubBroker) -> None:
    """If brokers refuse rows, the error counts them by broker; with `on_error="report"` the report contains them."""
    put(stub, *"abc")
    moved = "CASE body WHEN binary('c') THEN brokerName ELSE 'broker-z' END AS brokerName"
    rows = batch(spark, stub).selectExpr("topic", moved, "commitLogOffset", "msgId")
    with pytest.raises(SendBackError, match=r"2 .*broker-z.*\[QUEUE_MOVED\].*; \w+") as caught:
        send_back(rows, options(stub))
    assert caught.value.counts == {"broker-z": 2}
    report = send_back(rows, options(stub), on_error="report").collect()
    assert Counter((row.brokerName, row.accepted, bool(row.error)) for row in report) == {
        ("broker-z", False, True): 2,
        ("broker-a", True, False): 1,
    }


def test_wrong_requests_are_refused_before_anything_is_sent(spark: SparkSession, stub: StubBroker) -> None:
    """Invalid columns, types, arguments or groups raise an `OptionError` that names them."""
    rows = batch(spark, stub)
    typed = rows.withColumn("commitLogOffset", rows.commitLogOffset.cast("string"))
    wrong: list[tuple[str, Any]] = [
        ("rows: .*brokerName, msgId", lambda: send_back(rows.drop("brokerName", "msgId"), options(stub))),
        ("commitLogOffset = 'string'", lambda: send_back(typed, options(stub))),
        ("delayLevel = 'string'.*tinyint", lambda: send_back(rows.selectExpr("*", "'3' AS delayLevel"), options(stub))),
        ("on_error = 'ignore'", lambda: send_back(rows, options(stub), on_error="ignore")),
        ("OPTION_MISSING.*consumerGroup", lambda: send_back(rows, given(stub))),
        ("OPTION_CONFLICT.*TOOLS_CONSUMER", lambda: send_back(rows, given(stub, consumerGroup="TOOLS_CONSUMER"))),
        ("model = 'ordered'", lambda: consume(rows, print, options(stub), model="ordered")),
        ("suspendCurrentQueueTimeMillis = '9'", lambda: consume(rows, print, options(stub), "orderly", 9)),
        ("rows: .*queueId", lambda: consume(rows.drop("queueId"), print, options(stub), "orderly")),
    ]  # fmt: skip
    for text, call in wrong:
        with pytest.raises(OptionError, match=text):
            call()


def test_a_function_decides_row_by_row(spark: SparkSession, stub: StubBroker) -> None:
    """`consume` calls the function for each row, and sends back the rows that it rejects or fails on."""
    put(stub, "good", "later", "broken", "nonsense")

    def listen(row: Row) -> object:
        if row.body == b"broken":
            raise ValueError("broken")
        return {b"good": SUCCESS, b"later": RECONSUME_LATER}.get(bytes(row.body), len(row.properties))

    report = consume(batch(spark, stub), listen, options(stub))
    assert Counter((row.result, row.accepted, row.error) for row in report.collect()) == {
        ("SUCCESS", None, None): 1,
        ("RECONSUME_LATER", True, None): 3,
    }
    stub.clock.advance(10_000)
    assert bodies(stub, RETRY) == ["broken", "later", "nonsense"]


def test_in_order_a_row_is_tried_again_before_the_next(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """In orderly mode a suspended row is repeated before the next one; after its last attempt it is a dead letter."""
    put(stub, *(f"{queue}{turn}" for turn in "abc" for queue in range(4)))
    seen = tmp_path / "seen"

    def listen(row: Row) -> object:
        body = bytes(row.body).decode()
        with seen.open("a") as file:
            file.write(f"{body}\n")
        return SUSPEND if body in ("1b", "3a") else SUCCESS

    given = options(stub, maxReconsumeTimes="2")
    report = consume(batch(spark, stub).repartition(3), listen, given, "orderly", 10)
    by_queue = {queue: [line for line in seen.read_text().split() if line[0] == queue] for queue in "0123"}
    assert by_queue["0"] == ["0a", "0b", "0c"] and by_queue["1"] == ["1a", "1b", "1b", "1b", "1c"]
    assert by_queue["3"] == ["3a", "3a", "3a", "3b", "3c"]
    assert bodies(stub, DEAD) == ["1b", "3a"]
    assert Counter(row.result for row in report.collect()) == {"SUCCESS": 10, "SUSPEND": 2}


def test_a_query_reads_what_it_sent_back(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """With `readRetryTopic` a query reads its returned row again, until the row becomes a dead letter."""
    put(stub, "good", "poison")
    asked = options(stub, maxReconsumeTimes="2")
    columns = "topic,brokerName,commitLogOffset,msgId,body,reconsumeTimes,originTopic"
    seen: list[tuple[str, int, str]] = []

    def handle(frame: DataFrame, _: int) -> None:
        rows = frame.persist()
        seen.extend((bytes(row.body).decode(), row.reconsumeTimes, row.originTopic) for row in rows.collect())
        send_back(rows.where("body = binary('poison')"), asked)

    for delay_ms in (10_000, 30_000, 60_000, 0):
        reader = stream(spark, stub, consumerGroup=GROUP, readRetryTopic="true", columns=columns)
        run_to_end(reader, handle, tmp_path)  # type: ignore[arg-type]  # any writer of batches will do
        stub.clock.advance(delay_ms)
    assert sorted(seen) == [("good", 0, TOPIC), *(("poison", times, TOPIC) for times in range(3))]
    assert bodies(stub, DEAD) == ["poison"]
    assert {queue.topic: at for queue, at in stub.offsets(GROUP).items() if queue.topic == RETRY} == {RETRY: 2}


def test_it_works_over_connect(stub: StubBroker) -> None:
    """Over Spark Connect rows are consumed and sent back.

    The client runs in a process of its own, because one process cannot have a classic session and a client.
    """
    put(stub, *"abc")
    command = [sys.executable, "-m", "tests.spark.connect_retry", stub.name_server]
    environment = {**os.environ, **spark_environment()}
    ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=300, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-4000:]
    results, accepted, counts = json.loads(ended.stdout.splitlines()[-1])
    assert results == ["RECONSUME_LATER", "RECONSUME_LATER", "SUCCESS"]
    assert accepted == ["True"] * 3 and counts == {"broker-z": 3}
