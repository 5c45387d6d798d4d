"""Run the example jobs against the stub: each message once, in order, and a clean end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
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

every_job = pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)

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


@pytest.mark.spark
def test_late_clicks_are_counted(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """If batches are limited, the watermark may pass unread clicks; the job says that it left some out."""
    for minute in (0, 20, 100, 120):
        stub.put("orders", b"x", keys="ada", queue_id=0, store_timestamp=NINE_MS + minute * MINUTE_MS)
    stub.put("orders", b"x", keys="ben", queue_id=1, store_timestamp=NINE_MS + 600 * MINUTE_MS)
    words = (stub.name_server, "orders", tmp_path / "table", tmp_path / "checkpoint")
    job = load("sessionise")
    query = job.start(spark, parse(job, *words, "--option", "maxOffsetsPerTrigger=2"))
    assert query.awaitTermination(int(WAIT_TIMEOUT_S))

    assert job.count_rows(query) == "5"
    assert re.fullmatch(r", at least [123] of them too late: they are in no session", job.count_late(query))


class FakeSession:
    """A builder and a session, which only take words; SIGTERM arrives while the session is made, if that is asked."""

    def __init__(self, *, is_signalled: bool = False) -> None:
        self.builder = self.streams = self
        self._is_signalled = is_signalled

    def appName(self, name: str) -> FakeSession:
        """Return itself."""
        return self

    def getOrCreate(self) -> FakeSession:
        """Return itself."""
        if self._is_signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        return self

    def stop(self) -> None:
        """Do nothing."""

    addListener = removeListener = lambda self, listener: None


class FakeQuery:
    """A query that has had some batches with one row each, and ends after the first wait, or gets SIGTERM there."""

    def __init__(self, batches: int = 0, *, is_signalled: bool = False) -> None:
        self.recentProgress = [{"numInputRows": 1, "stateOperators": []}] * batches
        self.waits = self.stops = 0
        self._is_signalled = is_signalled

    def awaitTermination(self, timeout: int) -> bool:
        """Return whether the query has ended."""
        self.waits += 1
        if self._is_signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        return not self._is_signalled

    def stop(self) -> None:
        """Count the call."""
        self.stops += 1


@pytest.fixture
def run_main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """A function that runs a job's `main` with a fake session and query, and returns its last line."""
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def run(job: ModuleType, session: FakeSession, query: FakeQuery, *words: str) -> str:
        monkeypatch.setattr(job, "SparkSession", session)
        monkeypatch.setattr(job, "start", lambda *_: query)
        places = [action.dest for action in job.make_parser()._actions if not action.option_strings]
        monkeypatch.setattr(sys, "argv", ["job", "localhost:9876", *places[1:], *words])
        job.main()
        return capsys.readouterr().out.splitlines()[-1]

    yield run
    signal.signal(signal.SIGTERM, handler)


@every_job
def test_sigterm_while_spark_starts_is_not_forgotten(path: Path, run_main: Callable[..., str]) -> None:
    """A signal that comes before there is a query stops it at once."""
    query = FakeQuery()

    assert run_main(load(path.stem), FakeSession(is_signalled=True), query) == "stopped; checkpoint has the position"
    assert (query.waits, query.stops) == (0, 1)


@every_job
def test_a_run_that_is_stopped_is_not_called_done(path: Path, run_main: Callable[..., str]) -> None:
    """A run from a scheduler, too, says that it was stopped, not how much it would have done."""
    query = FakeQuery(3, is_signalled=True)

    assert run_main(load(path.stem), FakeSession(), query) == "stopped; checkpoint has the position"
    assert query.stops == 1


@pytest.mark.parametrize("name", [path.stem for path in JOBS if path.stem != "alert_on_lag"])
def test_a_count_is_a_bound_if_spark_forgot_batches(name: str, run_main: Callable[..., str]) -> None:
    """Spark keeps the progress of the last 100 batches; a job with more says "at least"."""
    job = load(name)

    assert run_main(job, FakeSession(), FakeQuery(99)).startswith("99 ")
    assert run_main(job, FakeSession(), FakeQuery(100)).startswith("at least 100 ")


@every_job
def test_wrong_arguments_are_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An option without a value or a name is refused before Spark starts, and its text is not repeated."""
    job = load(path.stem)
    for word in ("secret", "=secret"):
        with pytest.raises(SystemExit):
            parse(job, *["word"] * 5, "--option", word)
        said = capsys.readouterr().err
        assert "argument --option: give NAME=VALUE" in said and "secret" not in said
    assert job.option("tags=a=b") == ("tags", "a=b")


@pytest.mark.parametrize("name", ["--most-seconds", "--least-retention"])
def test_a_limit_that_switches_alerts_off_is_refused(name: str) -> None:
    """Nothing is above or below `nan`."""
    with pytest.raises(SystemExit):
        parse(load("alert_on_lag"), *["word"] * 4, name, "nan")


@every_job
def test_help_says_what_a_job_does(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help of a job has its description, and a line for each argument."""
    monkeypatch.setenv("COLUMNS", "120")
    job = load(path.stem)
    shown = job.make_parser().format_help()
    assert str(job.__doc__).strip() in shown
    missing = [action.dest for action in job.make_parser()._actions if not action.help]
    assert missing == []
