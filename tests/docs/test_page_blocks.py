"""Test the runner of pages' blocks: which blocks it finds, what it demands of their comments, and what it compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_run import WrongOutput, page_stub, python_names, run_block, shell_environment
from tools.page_blocks import find_blocks, find_problems, runnable_blocks


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The path of a page."""
    return tmp_path / "page.md"


def run_all(page: Path) -> None:
    """Run the blocks of a page without Spark."""
    folder = page.parent / "run"
    folder.mkdir()
    with page_stub() as broker:
        names, environment = python_names(broker, None, folder), shell_environment(broker, folder)
        for block in runnable_blocks(page):
            run_block(block, names, environment)


def test_blocks_have_their_place_language_and_comment(page: Path) -> None:
    """A block is found with its heading and the number of its first line, also in a list and with a longer fence."""
    page.write_text(
        "# T\n\n```python\n# a\n```\n\n- item\n  <!-- not run: x -->\n  ```sh\n  ls\n  ```\n## U\n````text\n```\n````\n"
    )

    found = [(block.heading, block.line, block.language, block.text, block.comment) for block in find_blocks(page)]

    assert found == [
        ("T", 4, "python", "# a\n", ""),
        ("T", 10, "sh", "ls\n", "not run: x"),
        ("U", 14, "text", "```\n", ""),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```sh\nls\n```\n", "needs <!-- run -->"),
        ("<!-- not run: tests/none.py does -->\n```sh\nls\n```\n", "there is no tests/none.py"),
        ("<!-- run by tests/none.py -->\n```python\n```\n", "there is no tests/none.py"),
        ("<!-- run by tests/test_x.py -->\n```python\n```\n", "does not mention page.md"),
        ("<!-- not run: no -->\n```sh\nls\n```\n", "is no reason"),
        ("<!-- prints -->\n```text\nx\n```\n", "nothing compares"),
        ("<!-- not run: needs a cluster -->\n```sh\n```\n<!-- prints -->\n```text\nx\n```\n", "nothing compares"),
    ],
)
def test_what_a_comment_lacks_is_told(page: Path, text: str, problem: str) -> None:
    """A block without a test or a reason is a problem, with its place."""
    (page.parent / "tests").mkdir()
    (page.parent / "tests" / "test_x.py").write_text("")
    page.write_text(text)

    [found] = find_problems(page, page.parent)

    assert problem in found
    assert found.startswith(f"{page}:")


@pytest.mark.parametrize("comment", ["run", "run by tests/test_x.py", "not run: it needs a cluster"])
def test_a_test_or_a_reason_is_enough(page: Path, comment: str) -> None:
    """A `sh` block that is run here, by a test that mentions the page, or not run for a reason, is no problem."""
    (page.parent / "tests").mkdir()
    (page.parent / "tests" / "test_x.py").write_text('"""Run the blocks of page.md."""')
    page.write_text(f"<!-- {comment} -->\n```sh\nls\n```\n")

    assert list(find_problems(page, page.parent)) == []


@pytest.mark.parametrize(
    ("comment", "can_run", "is_run"),
    [
        ("run", True, True),
        ("not run: needs a YARN cluster", False, False),
        ("not run: it installs packages", False, False),
        ("not run: tests/test_x.py runs it", True, True),
        ("not run: runs until Ctrl-C", True, False),
    ],
)
def test_a_reason_tells_whether_a_block_can_run(page: Path, comment: str, can_run: bool, is_run: bool) -> None:
    """A block cannot run where the suite lacks what it needs; a test that a reason names runs it in another form."""
    page.write_text(f"<!-- {comment} -->\n```sh\nls\n```\n")

    [block] = find_blocks(page)

    assert (block.can_run, block.is_run) == (can_run, is_run)


def test_blocks_share_names_and_print_what_the_page_shows(page: Path) -> None:
    """Blocks of a page share one namespace; the stub's address is printed as that of the page."""
    page.write_text(
        "```python\nfound = len(broker.messages('orders'))\n```\n"
        "```python\nprint(found, name_server == 'localhost:9876', name_server)\n```\n"
        "<!-- prints -->\n```text\n100 True localhost:9876\n```\n"
        '<!-- run -->\n```sh\necho "$NAME_SERVER"\n```\n'
        "<!-- prints -->\n```text\nlocalhost:9876\n```\n"
    )

    run_all(page)


@pytest.mark.parametrize("code", ["```python\nprint(2)\n```\n", "<!-- run -->\n```sh\necho 2\n```\n"])
def test_other_output_is_refused(page: Path, code: str) -> None:
    """A block that prints other text than its page shows fails, with its place and both texts."""
    page.write_text(f"{code}<!-- prints -->\n```text\n1\n```\n")

    with pytest.raises(WrongOutput, match=r"page\.md:\d printed\n2\n\nbut the page shows\n1"):
        run_all(page)


def test_a_command_that_fails_ends_its_block(page: Path) -> None:
    """A shell command that fails ends its block, and the error shows what it wrote."""
    page.write_text("<!-- run -->\n```sh\nls /none/such\necho done\n```\n")

    with pytest.raises(AssertionError, match="/none/such"):
        run_all(page)


def test_the_group_of_pages_is_behind(page: Path) -> None:
    """The command line of this checkout sees the group of which pages tell, 60 messages behind."""
    lag = 'pyspark-rocketmq lag etl --name-server "$NAME_SERVER"'
    page.write_text(f"<!-- run -->\n```sh\n{lag} --max 60\nif {lag} --max 59; then exit 1; fi\n```\n")

    run_all(page)
