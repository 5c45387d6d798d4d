"""Run the code blocks of README.md and of all pages in docs, and check that none is left out without a reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.page_run import page_session, page_stub, python_names, run_block, shell_environment
from tools.page_blocks import ROOT, all_pages, find_problems, name_of, runnable_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_LEFT_OUT = 0.05
"""The largest share of blocks that can run, and that no test runs."""


def languages_run(page: Path) -> set[str]:
    """Return the languages of the blocks that are run with the page."""
    return {block.language for block in runnable_blocks(page) if block.is_run_here}


def pages_to_run() -> list[object]:
    """Return the pages with blocks to run as parameters of a test; Python blocks need Spark."""
    return [
        pytest.param(page, marks=pytest.mark.spark if "python" in languages else (), id=name_of(page))
        for page in all_pages()
        if (languages := languages_run(page))
    ]


@pytest.mark.parametrize("page", pages_to_run())
def test_the_blocks_of_a_page_run(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page run one after the other, and print what the page shows."""
    monkeypatch.chdir(ROOT)
    if "python" not in languages_run(page):
        run_page(page, tmp_path, None)
    else:
        with page_session(request.getfixturevalue("spark")) as session:
            run_page(page, tmp_path, session)


def run_page(page: Path, folder: Path, session: SparkSession | None) -> None:
    """Run the blocks of a page that no other test runs."""
    with page_stub() as broker:
        names, environment = python_names(broker, session, folder), shell_environment(broker, folder)
        for block in runnable_blocks(page):
            if block.is_run_here:
                run_block(block, names, environment)


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    """Each block is run with its page, names a test that mentions the page, or gives the reason why it is not run."""
    assert list(find_problems(page)) == []


def test_few_blocks_are_not_run() -> None:
    """Of the blocks that can run, at least 95 in 100 are run by a test; the rest are listed with their reasons."""
    blocks = [block for page in all_pages() for block in runnable_blocks(page)]
    left_out = [block for block in blocks if block.reason]
    can_run = [block for block in blocks if block.can_run]

    listed = "\n".join(f"{block.place}: {block.reason}" for block in left_out)
    print(f"{len(blocks)} blocks, {len(can_run)} can run, no test runs {len(left_out)}:\n{listed}")
    assert len(set(left_out) & set(can_run)) <= MOST_LEFT_OUT * len(can_run), listed
