"""Run the example jobs against the stub: each message once, in order, and a clean end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from broker_stub import StubBroker
from tests.examples.jobs import EXAMPLES, JOBS, load, parse
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.queries import WAIT_TIMEOUT_S, wait_for

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

MINUTE_MS = 60_000
NINE_MS = 1_769_850_000_000
"""31 January 2026, 9:00 UTC."""


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker, a topic to read and one to write."""
    with StubBroker({"orders": 4, "copy": 4}) as broker:
        yield broker


def run(spark: SparkSession, job: ModuleType, *words: str | Path) -> int:
    """Run a job in this session until its query ends; return the number of messages that it read."""
    query = job.start(spark, parse(job, *words))
    assert query.awaitTermination(int(WAIT_TIMEOUT_S)), "the query should have ended"
    rows: int = sum(progress["numInputRows"] for progress in query.recentProgress)
    return rows


@pytest.mark.spark
def test_the_archive_grows_by_what_is_new(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """Two runs append each message once; an option reaches the reader."""
    words = (stub.name_server, "orders", tmp_path / "table", tmp_path / "checkpoint", "--option", "consumerGroup=etl")
    for number in (20, 3):
        stub.fill("orders", number, 10)
        assert run(spark, load("archive_topic"), *words) == number
    rows = spark.read.parquet(str(tmp_path / "table"))
    assert rows.count() == rows.select("queueId", "queueOffset").distinct().count() == 23
    assert rows.where("day IS NULL").count() == 0
    assert sum(stub.offsets("etl").values()) >= 20, "the query commits for the group"


@pytest.mark.spark
def test_the_mirror_copies_each_message_once_in_order(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """Two runs copy each message once, with tags, keys, properties and ids of its own, in the order of its key."""
    for turn in range(2):
        for number in range(turn * 40, turn * 40 + 40):
            properties = {"n": f"{number}"}
            stub.put("orders", b"x", keys=f"k{number % 8}", tags="new", properties=properties, queue_id=number % 4)
        words = (stub.name_server, "orders", stub.name_server, "copy", tmp_path)
        assert run(spark, load("mirror"), *words) == 40
    copies = stub.messages("copy")
    originals = {record.properties["n"]: record.properties["UNIQ_KEY"] for record in stub.messages("orders")}
    assert {record.properties["n"]: record.properties["SOURCE_ID"] for record in copies} == originals
    assert len(copies) == 80 and {record.properties["TAGS"] for record in copies} == {"new"}
    assert not {record.properties["UNIQ_KEY"] for record in copies} & set(originals.values())
    order: dict[str, list[int]] = defaultdict(list)
    for record in copies:
        order[record.properties["KEYS"]].append(int(record.properties["n"]))
    assert len(order) == 8 and all(numbers == sorted(numbers) for numbers in order.values())


@pytest.mark.spark
def test_a_session_is_written_when_it_is_over(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A session that is open at the end of a run is completed by the next one, and is written once."""
    job, table = load("sessionise"), tmp_path / "table"

    def click(visitor: str, minute: int) -> None:
        stub.put("orders", b"x", keys=visitor, tags=f"page-{minute}", store_timestamp=NINE_MS + minute * MINUTE_MS)

    def sessions() -> list[Row]:
        rows = spark.read.parquet(str(table)).selectExpr("visitor", "clicks", "first_page", "last_page")
        return sorted(rows.collect())

    for minute in (0, 20, 100):
        click("ada", minute)
    click("ben", 95)
    run(spark, job, stub.name_server, "orders", table, tmp_path / "checkpoint")
    early = [("ada", 2, "page-0", "page-20")]
    assert sessions() == early
    click("ben", 120)
    click("cleo", 400)
    run(spark, job, stub.name_server, "orders", table, tmp_path / "checkpoint")
    later = [("ada", 1, "page-100", "page-100"), ("ben", 2, "page-95", "page-120")]
    assert sessions() == sorted([*early, *later])


@pytest.mark.spark
def test_a_job_that_falls_behind_writes_an_alert_and_ends_on_sigterm(stub: StubBroker, tmp_path: Path) -> None:
    """A line names what waits after the first batch; SIGTERM ends the job with 0, and with its position stored."""
    stub.put("orders", b"first")
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    words = ("--every", "1 hour", "--interval", "0.3", "--most-seconds", "60")
    with spawned(output, "alert_on_lag", stub.name_server, "orders", tmp_path / "table", checkpoint, *words) as job:
        wait_for(lambda: (checkpoint / "commits" / "0").exists() or job.poll() is not None, "a batch is finished")
        stub.put("orders", b"late", store_timestamp=stub.clock.now_ms() - 10 * MINUTE_MS)
        wait_for(lambda: "}\n" in output.read_text() or job.poll() is not None, "an alert is written")
        job.send_signal(signal.SIGTERM)
        job.wait(WAIT_TIMEOUT_S)
    alert, last = output.read_text().splitlines()
    line = json.loads(alert)
    assert [line[name] for name in ("event", "query", "topic", "alert")] == [
        "begins",
        "archive orders",
        "orders",
        "behind",
    ]
    assert (line["queues"], line["messages"], line["reason"]) == (1, 1, None) and 600 <= line["seconds"] < 700
    assert job.returncode == 0 and last == f"stopped; {checkpoint} has the position"


@contextmanager
def spawned(output: Path, name: str, *words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a job in a process of its own, with its output in a file; end it after the `with` block."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, words)]
    environment = {**os.environ, **spark_environment(), "SPARK_CONF_DIR": str(ROOT / "conf")}
    with output.open("w") as file, subprocess.Popen(command, env=environment, cwd=ROOT, stdout=file) as job:
        try:
            yield job
        finally:
            job.kill()


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_help_says_what_a_job_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help of a job has its description, and a line for each argument."""
    monkeypatch.setenv("COLUMNS", "120")
    job = load(path.stem)
    shown = job.make_parser().format_help()
    assert str(job.__doc__).strip() in shown
    missing = [action.dest for action in job.make_parser()._actions if not action.help]
    assert missing == []
