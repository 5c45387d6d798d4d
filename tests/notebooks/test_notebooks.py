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
    "01_first_job": ("191 of 720 orders are from Bergen", "180 orders were put, 180 read", "1260 in all"),
    "02_offsets_and_replay": ("[8, 8, 8]", "and after it: {0: 0, 1: 0}", "[OFFSET_BEFORE_EARLIEST]", "[8, 6]"),
    "03_writing": ("240 receipts in 4 queues", "480 messages with 240", "240 messages without", "302 in all"),
    "04_operate_a_query": (
        "40 messages wait",
        'pyspark_rocketmq_query_lag_messages{query="archive"} 40.0',
        'pyspark_rocketmq_query_lag_messages_known{query="archive"} 0.0',
        "exit code 6",
        "exit code 0",
    ),
    "05_failed_rows_and_dead_letters": (
        "failed   order-4 order-5 order-10 order-11",
        "billed   order-4 order-10",
        "2 letters sent, 0 sent before",
        "billed   order-5 order-11",
        "0 letters sent, 2 sent before",
    ),
    "06_exactly_once_into_a_table": (
        "appended: 40 rows, 30 of 30 messages",
        "by-batch: 30 rows, 30 of 30 messages",
        "by-batch: 45 rows, 45 of 45 messages",
        "[OFFSET_BEFORE_EARLIEST]",
    ),
    "07_test_your_job": (
        "one sale of three messages",
        "test_a_job_that_was_away_for_too_long_fails PASSED",
        "exit code 0",
        "test_a_restart_reads_only_what_is_new FAILED",
        "exit code 1",
    ),
}
WITHOUT_PLOT = {"07_test_your_job"}

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
    """The committed cells were run once and in order, show the expected numbers, and have a plot where it helps."""
    cells = [cell for cell in kept(path).cells if cell.cell_type == "code"]
    shown = "".join(text for parts in texts(kept(path)).values() for text in parts)

    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert [wanted for wanted in SHOWS[path.stem] if wanted not in shown] == []
    has_plot = any("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)
    assert has_plot == (path.stem not in WITHOUT_PLOT)


@every_notebook
def test_a_notebook_opens_with_its_subject_and_closes_with_what_is_next(path: Path) -> None:
    """The first cell has a title and tells what follows; the last text lists next steps, another notebook first."""
    texts = [cell.source for cell in kept(path).cells if cell.cell_type == "markdown"]
    title, _, subject = texts[0].partition("\n\n")

    assert title.startswith("# ") and len(subject) > 200
    assert re.match(r"## Next steps\n\n- \[\d\d_\w+\]\(\d\d_\w+\.ipynb\): ", texts[-1])


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
