"""Find the code blocks of pages, and what each page says about running them.

A comment on the line before a block tells what becomes of it:

    <!-- run -->                        a `sh` block is run with its page; a `python` block without a comment is, too
    <!-- run by tests/x/test_y.py -->   that test runs the block
    <!-- not run: REASON -->            no test runs it
    <!-- prints -->                     a `text` block is what the block before it prints

A reason such as "needs a YARN cluster" or "installs packages" names what the suite does not have: then the block cannot
run. A reason that names a test says that the test runs the block in another form.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RUNNABLE = ("python", "sh")
"""Languages of blocks that a test must run."""
_COMMENT = re.compile(r"^ *<!-- (.*) -->\s*$")
_TEST = re.compile(r"tests/\S+\.py")
_SHORTEST_REASON = 10


class Block(NamedTuple):
    """A fenced code block of a page."""

    page: Path
    line: int
    """Number of the first line of the code."""
    language: str
    text: str
    comment: str
    """The comment on the line before the block; empty if there is none."""
    heading: str
    """The heading above the block, of any level; empty if there is none."""
    printed: str | None = None
    """The text that the page shows as printed by the block; None if the page does not say so."""

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{name_of(self.page)}:{self.line}"

    @property
    def is_run_here(self) -> bool:
        """Whether the block is run with its page."""
        return self.comment == "run" or (self.language == "python" and not (self.test or self.reason))

    @property
    def test(self) -> str:
        """Path of the test that runs the block; empty if there is none."""
        return self.comment.removeprefix("run by ") if self.comment.startswith("run by ") else ""

    @property
    def can_run(self) -> bool:
        """Whether the suite has what the block needs."""
        return not re.match(r"(it )?(needs|installs) ", self.reason)

    @property
    def is_run(self) -> bool:
        """Whether a test runs the block, as it stands or in another form."""
        return not self.reason or bool(_TEST.search(self.reason))

    @property
    def reason(self) -> str:
        """The reason why no test runs the block; empty if a test does."""
        return self.comment.removeprefix("not run: ") if self.comment.startswith("not run: ") else ""


def name_of(page: Path) -> str:
    """Return the page's path within the checkout, or the whole path of a page elsewhere."""
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else str(page)


def all_pages() -> list[Path]:
    """Return the pages whose blocks are run: README.md and everything in docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def find_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in any language, with what each of them should print."""
    found: list[Block] = []
    for block in _parse(page):
        if block.comment == "prints" and found:
            found[-1] = found[-1]._replace(printed=block.text)
        found.append(block)
    return found


def runnable_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in a language that can be run."""
    return [block for block in find_blocks(page) if block.language in RUNNABLE]


def find_problems(page: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with the comments of a page's blocks."""
    before: Block | None = None
    for block in find_blocks(page):
        if block.comment == "prints":
            if before is None or not before.is_run_here:
                yield f"{block.place}: the block before it is not run with the page, so nothing compares what it prints"
        elif block.language in RUNNABLE:
            yield from (f"{block.place}: {problem}" for problem in _problems_of(block, root))
        before = block


def _problems_of(block: Block, root: Path) -> Iterator[str]:
    yield from (f"there is no {test}" for test in _TEST.findall(block.comment) if not (root / test).is_file())
    if block.test:
        if (root / block.test).is_file() and _known_as(block.page) not in (root / block.test).read_text():
            yield f"{block.test} does not mention {_known_as(block.page)}"
    elif block.reason:
        if len(block.reason) < _SHORTEST_REASON:
            yield f"{block.reason!r} is no reason"
    elif not block.is_run_here:
        yield "a `sh` block needs <!-- run -->, <!-- run by TEST --> or <!-- not run: REASON --> on the line before it"


def _known_as(page: Path) -> str:
    """Return the name by which a test mentions a page: that of its file, or of its folder if all folders have such."""
    is_index = page.name in ("index.md", "README.md") and page.parent != ROOT
    return page.parent.name if is_index else page.name


def _parse(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page as they stand in it."""
    lines = page.read_text().splitlines()
    number, heading = 0, ""
    while number < len(lines):
        if opened := re.match(r"^ *(?P<fence>`{3,})(?P<language>\w*)", lines[number]):
            end = _find_end(lines, number + 1, opened["fence"])
            text = textwrap.dedent("".join(f"{line}\n" for line in lines[number + 1 : end]))
            comment = _COMMENT.match(lines[number - 1]) if number else None
            yield Block(page, number + 2, opened["language"], text, comment[1] if comment else "", heading)
            number = end
        elif titled := re.match(r"#+ (.*)", lines[number]):
            heading = titled[1]
        number += 1


def _find_end(lines: list[str], start: int, fence: str) -> int:
    """Return the index of the line that closes a block; the number of lines if none does."""
    closing = re.compile(rf"^ *{fence}`*\s*$")
    return next((number for number in range(start, len(lines)) if closing.match(lines[number])), len(lines))
