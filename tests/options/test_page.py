"""The page for users explains every option."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pyspark_rocketmq.options.option import Option
from pyspark_rocketmq.options.page import render_page
from pyspark_rocketmq.options.table import FIRST, OPTIONS

ROOT = Path(__file__).parents[2]


def test_the_pages_are_up_to_date() -> None:
    """The pages that are generated from options, columns and commands equal those in docs."""
    command = [sys.executable, "tools/generate_pages.py", "--check"]

    assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_explained(option: Option[Any]) -> None:
    """Every option has a description, and if it is implemented also a default."""
    row = next(line for line in render_page().splitlines() if line.startswith(f"| `{option.name}`"))

    assert option.meaning
    assert option.is_planned or option.shown_default in row


def test_tables_keep_their_shape() -> None:
    """In each table of the page, all rows have as many columns as the heading."""
    counts = [line.replace("\\|", "").count("|") if line.startswith("|") else 0 for line in render_page().splitlines()]

    assert all(a == b or 0 in (a, b) for a, b in pairwise(counts))


def test_ten_options_come_first_and_conflicts_last() -> None:
    """The page opens with the ten options that most jobs set, and ends with the table of conflicts."""
    titles = re.findall(r"^## (.*)", render_page(), flags=re.MULTILINE)
    first = render_page().split("\n## ")[1]

    assert (titles[0], titles[-1]) == (
        "Ten options that most jobs set",
        "Options that do not go together, or not alone",
    )
    assert re.findall(r"^\| `(\w+)`", first, flags=re.MULTILINE) == [option.name for option in FIRST]
    assert len(FIRST) == 10 and not any(option.is_planned for option in FIRST)


def test_every_option_has_one_row() -> None:
    """Each option is described once: among the first ten, at its task, or among those that are not built."""
    described = render_page().split("\n## Names of other products")[0]
    shown = re.findall(r"^\| `([\w.]+)`", described, flags=re.MULTILINE)

    assert sorted(shown) == sorted(option.name for option in OPTIONS)
