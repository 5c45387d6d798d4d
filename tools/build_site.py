"""Build the guide site from the pages of the checkout; `make site` runs this.

    python tools/build_site.py                  # into build/site
    python tools/build_site.py FOLDER           # into another folder

Pages are staged first, in a folder beside the site: Markdown with links as the site needs them, tables of contents,
rendered notebooks, and the pages of the API reference. Sphinx turns these into HTML. A warning of Sphinx, such as a
link without a target, fails the build.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.generate_indexes import DOCS, INSIDE, children, indexes, render_index  # noqa: E402  # a plain checkout
from tools.page_blocks import all_pages, runnable_blocks  # noqa: E402
from tools.site_api import FOLDER, MODULES, module_files, render_page  # noqa: E402
from tools.site_links import Links, copy_name  # noqa: E402
from tools.site_notebooks import render_notebook  # noqa: E402

API_INDEX = DOCS / "reference" / "api" / "index.md"
BLOCKS = "inside/blocks.md"
TOP_PAGES = ("CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")
"""Pages at the top of the checkout that the site has, if they exist. Links to README.md lead to the home page."""


def find_places() -> dict[Path, str]:
    """Return the page of the site that each file of the checkout becomes."""
    docs = {path: _without_readme(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))}
    top = {ROOT / f"{name}.md": f"inside/{name.lower()}.md" for name in TOP_PAGES if (ROOT / f"{name}.md").exists()}
    notebooks = {path: f"notebooks/{path.stem}.md" for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    return docs | top | notebooks


def stage(target: Path) -> set[Path]:
    """Write the pages of the site below `target`; return the files of which links want a copy."""
    places = find_places()
    links = Links(places | module_files() | {ROOT / "README.md": "index.md"})
    for source, page in places.items():
        text = links.rewrite(_read(source, target / page), source, page)
        _write(target / page, text + _contents(source, places))
    for name in MODULES:
        _write(target / FOLDER / f"{name}.md", render_page(name))
    _write(target / BLOCKS, links.rewrite(render_blocks(), INSIDE, BLOCKS))
    _copy({target / place: picture for place, picture in links.pictures.items()})
    return links.copied


def render_blocks() -> str:
    """Return the page that lists the blocks that no test runs, as a page of docs/inside."""
    blocks = [block for page in all_pages() for block in runnable_blocks(page)]
    left_out = [block for block in blocks if block.reason]
    run = len(blocks) - len(left_out)
    rows = [f"| [{block.place}]({os.path.relpath(block.page, INSIDE.parent)}) | {block.reason} |" for block in left_out]
    return "\n".join(
        [
            "# Code blocks that no test runs\n",
            f"The pages have {len(blocks)} blocks of Python and of shell commands. Tests run {run} of them.\n",
            "| block | why no test runs it |\n|---|---|",
            *rows,
            "",
        ]
    )


def build(site: Path) -> int:
    """Build the site in a folder; return the exit status of Sphinx."""
    from sphinx.cmd.build import main as run_sphinx  # an extra

    pages = site.with_name(f"{site.name}-pages")
    for folder in (site, pages):
        shutil.rmtree(folder, ignore_errors=True)
    copied = stage(pages)
    folders = ["--conf-dir", str(ROOT / "conf" / "site"), "--doctree-dir", str(pages / ".doctrees")]
    strict = ["--fail-on-warning", "--keep-going", "--quiet", "--jobs", "auto"]
    status: int = run_sphinx([*folders, *strict, str(pages), str(site)])
    _copy({site / copy_name(path): path for path in copied})
    return status


def _without_readme(path: Path) -> str:
    return (path.with_name("index.md") if path.name == "README.md" else path).as_posix()


def _read(source: Path, page: Path) -> str:
    """Return the text of a page; the pictures of a notebook are written beside the page."""
    if source.suffix == ".ipynb":
        notebook = render_notebook(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        for name, content in notebook.pictures.items():
            (page.parent / name).write_bytes(content)
        return notebook.text
    return render_index(source) if source in indexes() else source.read_text()


def _contents(source: Path, places: Mapping[Path, str]) -> str:
    """Return the hidden table of contents of an index page; nothing for other pages."""
    entries = list(_entries(source, places))
    return "\n```{toctree}\n:hidden:\n\n" + "".join(f"/{entry}\n" for entry in entries) + "```\n" if entries else ""


def _entries(source: Path, places: Mapping[Path, str]) -> Iterable[str]:
    """Yield the pages below an index page, as Sphinx names them."""
    if source == API_INDEX:
        yield from (f"{FOLDER}/{name}" for name in MODULES)
    elif source in indexes():
        yield from (places[page].removesuffix(".md") for page in children(source))
    elif source.name == "README.md":
        beside = [page for page in source.parent.glob("*.md") if page != source]
        yield from (places[page].removesuffix(".md") for page in sorted(beside, key=_order_in(source.read_text())))
    if source == INSIDE:
        yield BLOCKS.removesuffix(".md")


def _order_in(text: str) -> Callable[[Path], tuple[bool, int, str]]:
    """Return the key by which pages sort as a text links them; others follow by name."""
    return lambda page: (f"({page.name}" not in text, text.find(f"({page.name}"), page.name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _copy(files: Mapping[Path, Path]) -> None:
    """Copy files, given as {copy: original}."""
    for copy, original in files.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(original, copy)


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site").resolve()))
