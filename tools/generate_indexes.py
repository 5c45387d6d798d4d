"""Write the lists of pages in the index pages of docs.

With `--check` nothing is written; the exit status is 1 if a list is out of date.

An index page has a comment `<!-- pages: A.md B.md -->`, and below it nothing but the list. The comment names pages in
their order. Pages that do not exist yet are left out of the list; further pages of the folder follow in the order of
their names. A page of docs that no index names, and whose folder has no index, is listed in docs/inside/index.md.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.generated import keep  # noqa: E402  # the script runs from a plain checkout

DOCS = ROOT / "docs"
HOME, INSIDE = DOCS / "index.md", DOCS / "inside" / "index.md"
INDEX_NAMES = ("index.md", "README.md")
_MARK = re.compile(r"^<!-- pages:(.*?)-->\n", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MOST = 240
"""The longest first sentence that a list shows, in characters."""


class Summary(NamedTuple):
    """Title and first sentence of a page; the sentence is empty if a list cannot show it."""

    title: str
    sentence: str


def indexes() -> list[Path]:
    """Return the index pages with a list, in the order of their paths."""
    return sorted(path for path in DOCS.rglob("index.md") if _MARK.search(path.read_text()))


def children(index: Path) -> list[Path]:
    """Return the pages that an index lists, in their order."""
    found = _named(index)
    if index != HOME:
        found += sorted(set(index.parent.glob("*.md")) - {index, *found})
    if index == INSIDE:
        found += _unclaimed()
    return found


def render_index(index: Path) -> str:
    """Return the text of an index page with its list as it should be."""
    text = index.read_text()
    mark = _MARK.search(text)
    assert mark, f"{index} has no comment that names pages"
    return text[: mark.end()] + "".join(_item(index, page) for page in children(index))


def read_summary(page: Path) -> Summary:
    """Return title and first sentence of a page or notebook."""
    text = _COMMENT.sub("", _read(page)).strip()
    title, _, rest = text.partition("\n")
    paragraph = " ".join(rest.strip().split("\n\n")[0].split())
    sentence = re.match(r".*?[.?!](?=\s|$)", _LINK.sub(r"\1", paragraph))
    is_prose = sentence and not paragraph.startswith(("#", "|", "-", "`" * 3, "!"))
    return Summary(title.removeprefix("# "), sentence[0] if sentence and is_prose and len(sentence[0]) <= _MOST else "")


def _item(index: Path, page: Path) -> str:
    title, sentence = read_summary(page)
    target = Path(os.path.relpath(page, index.parent)).as_posix()
    return f"- [{title}]({target})" + (f": {sentence}\n" if sentence else "\n")


def _read(page: Path) -> str:
    if page.suffix != ".ipynb":
        return page.read_text()
    first = json.loads(page.read_text())["cells"][0]["source"]
    return first if isinstance(first, str) else "".join(first)


def _named(index: Path) -> list[Path]:
    """Return the pages that the comment of an index names, as far as they exist."""
    mark = _MARK.search(index.read_text())
    patterns = mark[1].split() if mark else []
    return [path for pattern in patterns for path in _matches(index.parent, pattern)]


def _matches(folder: Path, pattern: str) -> list[Path]:
    place = Path(os.path.normpath(folder / pattern))
    return sorted(place.parent.glob(place.name))


@cache
def _unclaimed() -> list[Path]:
    """Return the pages that no index names, and whose folder has no index; of a folder with a README.md that one."""
    named = {page for index in indexes() for page in _named(index)}
    loose = [page for page in sorted(DOCS.rglob("*.md")) if page not in named and page != HOME]
    return [page for page in loose if page.name == "README.md" or not _has_index(page.parent)]


def _has_index(folder: Path) -> bool:
    return folder != DOCS and any((folder / name).exists() for name in INDEX_NAMES)


if __name__ == "__main__":
    sys.exit(max(keep(index, render_index(index)) for index in indexes()))
