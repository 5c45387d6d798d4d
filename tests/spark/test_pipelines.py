"""Test that a declarative pipeline of Spark reads a topic and writes to another one by `create_sink`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_stub import StubBroker
from tests.page_blocks import fill_in, read_blocks
from tests.spark.fixtures import ROOT
from tests.spark.standalone import SPARK_HOME, environment, submit

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLE = ROOT / "docs" / "examples" / "pipeline"


def prepare(folder: Path, name_server: str) -> None:
    """Copy the example into a folder, with its storage there, and with this name server."""
    shutil.copy(EXAMPLE / "copy_orders.py", folder)
    text = (EXAMPLE / "spark-pipeline.yml").read_text()
    for example, given in (("file:///data/pipelines", (folder / "storage").as_uri()), ("localhost:9876", name_server)):
        assert example in text
        text = text.replace(example, given)
    (folder / "spark-pipeline.yml").write_text(text)


def run_pipeline(command: str, folder: Path) -> str:
    """Run the pipeline of a folder by the command of the page; return what it prints."""
    program, spec = SPARK_HOME / "bin" / "spark-pipelines", folder / "spark-pipeline.yml"
    given = {"spark-pipelines": str(program), "docs/examples/pipeline/spark-pipeline.yml": str(spec)}
    return submit(fill_in(command, given), environment(PYTHONPATH=str(ROOT)), folder)


def test_a_pipeline_copies_each_message_once(tmp_path: Path) -> None:
    """Two runs copy the messages that each finds, with their tags, and ids that all differ.

    The second run has the program of the page in place of the example; it goes on where the example ended.
    """
    program, command = read_blocks("docs/deploy/pipelines.md", __file__)
    with StubBroker(topics={"orders": 4, "orders-copy": 4}) as broker:
        prepare(tmp_path, broker.name_server)
        for run in range(2):
            for number in range(20):
                broker.put("orders", b"%d" % (20 * run + number), tags="new")
            assert "COMPLETED" in run_pipeline(command, tmp_path)
            copies = broker.messages("orders-copy")
            assert sorted(int(record.body) for record in copies) == list(range(20 * run + 20))
            (tmp_path / "copy_orders.py").write_text(program)
    assert {record.properties["TAGS"] for record in copies} == {"new"}
    assert len({record.properties["UNIQ_KEY"] for record in copies}) == 40
