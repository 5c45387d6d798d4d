"""The programs of docs/writing.md run, and do what the page says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_stub import StubBroker
from tests.page_blocks import read_blocks
from tests.spark.queries import run_to_end, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one broker."""
    with StubBroker({"events": 4}) as broker:
        yield broker


def bodies(stub: StubBroker, topic: str) -> list[str]:
    """Return the bodies of all messages of a topic, sorted."""
    return sorted(record.body.decode() for record in stub.messages(topic))


def test_the_programs_of_the_page(spark: SparkSession, stub: StubBroker, tmp_path: Path) -> None:
    """A batch, a stream, a reader without repetitions, a function for `foreachBatch`, and order by key."""
    programs = read_blocks("docs/writing.md", __file__)
    assert len(programs) == 5
    rows = [(f"k{number % 3}", f"{number}", number) for number in range(30)]
    page: dict[str, Any] = {
        "spark": spark,
        "name_server": stub.name_server,
        "checkpoint": str(tmp_path / "clicks"),
        "events": spark.createDataFrame(rows, "shardingKey STRING, body STRING, time INT"),
    }
    for program in programs:
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
