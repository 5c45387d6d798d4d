"""Rewrite the links of pages for the site, where files have other places than in the checkout.

A link to a page leads to that page of the site, a link to a module with a page in the API reference to that page. Other
files are copied into the site: a link to one becomes `source:PATH`, which the site's configuration turns into a link to
the copy, since only a finished page knows its folder. Links within code are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = (".svg", ".png")
COPIES = "files"
"""Folder of the site that has the copies."""
_FENCED = r"^ *(?P<fence>`{3,}).*?^ *(?P=fence)`* *$"
_SPAN = r"(?<!`)`(?:[^`\n]|\n(?!\n))+`(?!`)"
_CODE = re.compile(rf"({_FENCED}|{_SPAN})", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<before>!\[[^\]\n]*\]\(|\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_OUTSIDE = re.compile(r"[a-z]+:")


def copy_name(path: Path) -> str:
    """Return the place of a file's copy in the site; a browser shows it as a text or a picture."""
    name = f"{COPIES}/{path.relative_to(ROOT).as_posix()}"
    return name if path.suffix in PICTURES else f"{name}.txt"


@dataclass(frozen=True)
class Links:
    """The places of pages in the site, and the files that links have asked for."""

    places: Mapping[Path, str]
    """{file of the checkout: page of the site}."""
    copied: set[Path] = field(default_factory=set)
    """Files that the site needs a copy of."""
    pictures: dict[str, Path] = field(default_factory=dict)
    """{place among the staged pages: picture that a page shows}."""

    def rewrite(self, text: str, source: Path, page: str) -> str:
        """Return the text of a page of the site, with links as they are in the file `source`."""
        parts = _CODE.split(text)
        # The pattern has two groups: after each piece of text come the code and its fence.
        texts, codes = parts[::3], [*parts[1::3], ""]
        return "".join(
            _LINK.sub(lambda link: self._rewrite(link, source, page), each) + code
            for each, code in zip(texts, codes, strict=True)
        )

    def _rewrite(self, link: re.Match[str], source: Path, page: str) -> str:
        target, anchor = link["target"], link["anchor"] or ""
        if _OUTSIDE.match(target):
            return link[0]
        path = Path(os.path.normpath(source.parent / target))
        if link["before"].startswith("!") and path.is_file():
            return f"{link['before']}{self._show(path, page)})"
        if (place := self._place(path)) is not None:
            return f"{link['before']}{relative(place, page)}{anchor})"
        if path.is_file():
            self.copied.add(path)
            return f"{link['before']}source:{copy_name(path)})"
        return link[0]

    def _place(self, path: Path) -> str | None:
        """Return the page of a file or folder; None if the site has none."""
        candidates = (path, path / "index.md", path / "README.md", path / "__init__.py")
        return next((self.places[each] for each in candidates if each in self.places), None)

    def _show(self, picture: Path, page: str) -> str:
        """Stage a picture that a page shows, and return its path for that page."""
        place = f"pictures/{picture.relative_to(ROOT).as_posix()}"
        self.pictures[place] = picture
        return relative(place, page)


def relative(place: str, page: str) -> str:
    """Return the path of a place of the site, as a page of the site links it."""
    return Path(os.path.relpath(place, Path(page).parent)).as_posix()
