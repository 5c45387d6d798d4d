"""The programs of docs/writing.md and the mirror job run, and do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_stub import StubBroker
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.queries import WAIT_TIMEOUT_S, run_to_end, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PROGRAMS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "writing.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker and the source of a mirror."""
    with StubBroker({"source": 4, "events": 4, "copy": 4}) as broker:
        yield broker


def bodies(stub: StubBroker, topic: str) -> list[str]:
    """Return the bodies of all messages of a topic, sorted."""
    return sorted(record.body.decode() for record in stub.messages(topic))


def test_the_programs_of_the_page(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A batch, a stream, a reader without repetitions, a function for `foreachBatch`, and order by key."""
    assert len(PROGRAMS) == 5
    rows = [(f"k{number % 3}", f"{number}", number) for number in range(30)]
    page: dict[str, Any] = {
        "spark": spark,
        "name_server": stub.name_server,
        "checkpoint": str(tmp_path / "clicks"),
        "events": spark.createDataFrame(rows, "shardingKey STRING, body STRING, time INT"),
    }
    for program in PROGRAMS:
        exec(program, page)
    assert bodies(stub, "orders") == ["tea", "two lattes"]
    query = page["query"]
    wait_for(lambda: bool(query.lastProgress and query.lastProgress.numInputRows), "clicks are written")
    query.stop()
    assert bodies(stub, "clicks")
    run_to_end(page["once"], page["handle"], tmp_path / "once")
    assert bodies(stub, "checked") == [] and not stub.messages("rejected")
    for queue in range(4):
        numbers: dict[str, list[int]] = defaultdict(list)
        for record in stub.messages("events", queue):
            numbers[record.properties["__SHARDINGKEY"]].append(int(record.body))
        assert all(of_key == sorted(of_key) for of_key in numbers.values())
    assert len(stub.messages("events")) == 30


def test_the_mirror(stub: StubBroker, tmp_path: Path) -> None:
    """Two runs of the mirror copy each message once, with tags, keys, properties and flag, in the order of its key."""
    command = [sys.executable, str(ROOT / "docs" / "examples" / "mirror.py"), stub.name_server, "source"]
    given = [stub.name_server, "copy", str(tmp_path)]
    environment = {**os.environ, **spark_environment()}
    for run in range(2):
        for number in range(40):
            properties = {"n": f"{run * 40 + number}"}
            stub.put("source", b"x", keys=f"k{number % 8}", tags="new", properties=properties, queue_id=number % 4)
        done = subprocess.run(
            [*command, *given], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_TIMEOUT_S * 3
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "40 messages copied to copy" in done.stdout
    copies = stub.messages("copy")
    originals = {record.properties["n"]: record.properties["UNIQ_KEY"] for record in stub.messages("source")}
    assert {record.properties["n"]: record.properties["SOURCE_ID"] for record in copies} == originals
    assert len(copies) == 80 and {record.properties["TAGS"] for record in copies} == {"new"}
    assert originals.keys() and not {record.properties["UNIQ_KEY"] for record in copies} & set(originals.values())
    order: dict[str, list[int]] = defaultdict(list)
    for record in copies:
        order[record.properties["KEYS"]].append(int(record.properties["n"]))
    assert len(order) == 8 and all(numbers == sorted(numbers) for numbers in order.values())
