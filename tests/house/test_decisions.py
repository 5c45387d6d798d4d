"""Check the form of the decision records in docs/decisions, and that their index is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
DECISIONS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
LONGEST = 15
PARTS = ["Context", "Decision", "Rejected", "Consequence"]

each_decision = pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)


def index() -> list[tuple[str, str, str]]:
    """Return the number, file name and title in each row of the index."""
    rows = re.findall(r"^\| \[(\d+)\]\((\S+)\) \| \w+ \| (.+) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    return [(number, name, title) for number, name, title in rows]


def test_numbers_have_no_gaps() -> None:
    """The decisions are numbered from 001 on without gaps, and no number appears twice."""
    assert [path.name[:4] for path in DECISIONS] == [f"{number:03}-" for number in range(1, len(DECISIONS) + 1)]


def test_the_index_names_every_decision() -> None:
    """The index has one row per decision, in the order of numbers, with the title of the file."""
    titles = [path.read_text().partition("\n")[0].removeprefix("# ") for path in DECISIONS]

    assert [name for _, name, _ in index()] == [path.name for path in DECISIONS]
    assert [f"{number} {title}" for number, _, title in index()] == titles


@each_decision
def test_a_decision_is_short(path: Path) -> None:
    """A decision record has at most fifteen lines."""
    assert len(path.read_text().splitlines()) <= LONGEST


@each_decision
def test_a_decision_has_its_parts(path: Path) -> None:
    """A decision record has its context, the decision, what was rejected and the consequence, in this order."""
    assert re.findall(r"^\*\*(\w+)\.\*\* \S", path.read_text(), re.MULTILINE) == PARTS


@each_decision
def test_a_file_bears_its_title(path: Path) -> None:
    """A file name is the decision's number and title, in lower case with hyphens."""
    title = path.read_text().partition("\n")[0].removeprefix("# ").lower()

    assert path.stem == re.sub(r"[^a-z0-9]+", "-", title).strip("-")
