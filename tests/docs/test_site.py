"""Build the guide site, and check it as a whole: its links, what it loads, and that nothing is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest

from tools.build_site import find_places
from tools.page_blocks import ROOT
from tools.site_api import FOLDER, MODULES, public_names

BUILD_S = 240
"""Seconds after which a build of the site fails."""
LOADING = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("source", "srcset")}
"""Attributes whose target a browser loads with the page."""
LOADED_LINKS = {"stylesheet", "preload", "modulepreload", "icon", "manifest", "preconnect", "dns-prefetch"}
"""Kinds of `link` elements whose target a browser loads or connects to."""
OUTSIDE_STYLE = re.compile(r"(url\(|@import)\s*['\"]?(https?:)?//")
WITHOUT_LINKS = {"search.html", "genindex.html", "py-modindex.html"}


class Page(HTMLParser):
    """The ids of a page, its links, and what a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take over the attributes of an element."""
        given = {name: value for name, value in attrs if value is not None}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and LOADED_LINKS & set(given.get("rel", "").split()):
            self.loads.append(given["href"])
        self.loads += [value for name, value in given.items() if (tag, name) in LOADING]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site that is built once; a warning fails the build."""
    folder = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, str(ROOT / "tools" / "build_site.py"), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """The pages of the site by their paths."""
    found = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    return {path.relative_to(site).as_posix(): Page(path) for path in found}


def inner_links(pages: dict[str, Page], path: str) -> Iterator[tuple[str, str, str]]:
    """Yield each link of a page that stays within the site: as written, the path that it leads to, and its anchor."""
    for link in [*pages[path].links, *pages[path].loads]:
        if not re.match(r"[a-z]+:|//", link):
            target, _, anchor = link.partition("#")
            target = unquote(target.partition("?")[0])
            yield link, os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path, anchor


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[str, Page]) -> None:
    """Every link within the site has its file, and every anchor its element."""
    broken = [
        f"{path}: {link}"
        for path in pages
        for link, target, anchor in inner_links(pages, path)
        if not (site / target).is_file() or (anchor and target in pages and unquote(anchor) not in pages[target].ids)
    ]

    assert broken == []


def test_a_page_loads_nothing_from_outside(site: Path, pages: dict[str, Page]) -> None:
    """Browsers load no script, style, font or picture of a page from another server."""
    outside = [f"{path}: {load}" for path, page in pages.items() for load in page.loads if re.match(r"\w+:|//", load)]
    styles = [path.name for path in site.rglob("*.css") if OUTSIDE_STYLE.search(path.read_text())]

    assert [each for each in outside if not re.match(r".*: data:", each)] == []
    assert styles == []


def test_every_page_is_in_the_site_and_reached_from_its_home(pages: dict[str, Page]) -> None:
    """Each page of docs and each notebook is in the site, and links lead to it from the home page."""
    wanted = {page.removesuffix(".md") + ".html" for page in find_places().values()}
    reached, waiting = set[str](), ["index.html"]
    while waiting:
        path = waiting.pop()
        if path in pages and path not in reached:
            reached.add(path)
            waiting += [target for _, target, _ in inner_links(pages, path)]

    assert wanted - set(pages) == set()
    assert set(pages) - reached - WITHOUT_LINKS == set()


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_public_name(pages: dict[str, Page], module: str) -> None:
    """Each public name of a module has an entry, and so an anchor, on the module's page."""
    names = [f"{module}.{name}" for name in public_names(import_module(module))]

    assert names
    assert set(names) - pages[f"{FOLDER}/{module}.html"].ids == set()


def test_docstrings_leave_no_markup_behind(site: Path) -> None:
    """No page of the reference shows a backtick outside its blocks, since code in docstrings is shown as code."""
    for module in MODULES:
        article = (site / FOLDER / f"{module}.html").read_text().partition("<article")[2]
        text = re.sub(r"<pre>.*?</pre>|<[^>]*>", "", article, flags=re.DOTALL)
        assert re.findall(r".{0,60}`.{0,60}", text) == []


def test_the_search_knows_the_pages(site: Path) -> None:
    """The index of the search, which works without a server, has the pages and their words."""
    index = (site / "searchindex.js").read_text()

    assert '"how-to/index"' in index and "maxoffsetspertrigg" in index
