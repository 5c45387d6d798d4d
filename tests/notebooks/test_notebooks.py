"""Run the notebooks, and check the outputs that are committed with them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tools.execute_notebooks import NOTEBOOKS, ROOT, run_notebook

KEPT_BYTES = 120_000
SHOWS = {
    "01_quickstart": ("191 of 720 orders are from Bergen", "180 orders were put, 180 read", "1260 in all"),
    "02_offsets_and_replay": ("[8, 8, 8]", "and after it: {0: 0, 1: 0}", "[OFFSET_BEFORE_EARLIEST]", "[8, 6]"),
    "03_writing": ("240 receipts in 4 queues", "480 messages with 240", "240 messages without", "302 in all"),
    "04_operate_a_query": (
        "40 messages wait",
        'pyspark_rocketmq_query_lag_messages{query="archive"} 40.0',
        'pyspark_rocketmq_query_lag_messages_known{query="archive"} 0.0',
        "exit code 6",
        "exit code 0",
    ),
}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def kept(path: Path) -> NotebookNode:
    """Return the notebook as it is in the repository."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def texts(notebook: NotebookNode) -> dict[str, list[str]]:
    """Return the texts of each code cell's outputs, by cell id; an image counts by its text form."""
    return {
        cell.id: [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


@every_notebook
@pytest.mark.spark
def test_a_notebook_shows_what_is_kept_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the notebook, without the PYSPARK_PYTHON variables, fails in no cell and gives the committed outputs."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)

    assert texts(run_notebook(path)) == texts(kept(path))


@every_notebook
def test_what_is_kept_tells_the_story(path: Path) -> None:
    """The committed cells were run once and in order, show the expected numbers, and have a plot."""
    cells = [cell for cell in kept(path).cells if cell.cell_type == "code"]
    shown = "".join(text for parts in texts(kept(path)).values() for text in parts)

    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert [wanted for wanted in SHOWS[path.stem] if wanted not in shown] == []
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)


@every_notebook
def test_what_is_kept_is_small_and_of_no_machine(path: Path) -> None:
    """The committed outputs are small, and have no paths of a machine, no errors and no warnings of the JVM."""
    outputs = [output for cell in kept(path).cells for output in cell.get("outputs", [])]
    shown = "".join(text for parts in texts(kept(path)).values() for text in parts)

    assert path.stat().st_size < KEPT_BYTES
    assert re.findall(rf"{ROOT}|/(?:home|root|tmp|Users|var)/\S*", shown) == []
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}


@every_notebook
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link in a notebook names an existing file."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", "".join(cell.source for cell in kept(path).cells))

    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []
