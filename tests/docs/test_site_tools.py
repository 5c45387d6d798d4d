"""Test what makes pages of the site: links, lists of pages, notebooks and docstrings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.generate_indexes import HOME, Summary, children, indexes, read_summary, render_index
from tools.site_api import to_rst
from tools.site_links import ROOT, Links
from tools.site_notebooks import render_notebook

PLACES = {
    ROOT / "docs" / "options.md": "options.md",
    ROOT / "docs" / "decisions" / "README.md": "decisions/index.md",
    ROOT / "CHANGELOG.md": "inside/changelog.md",
    ROOT / "broker_stub" / "__init__.py": "reference/api/broker_stub.md",
}


@pytest.mark.parametrize(
    ("written", "rewritten"),
    [
        ("[all](../options.md#values)", "[all](../options.md#values)"),
        ("[`why`](../decisions)", "[`why`](../decisions/index.md)"),
        ("[new](../../CHANGELOG.md)", "[new](../inside/changelog.md)"),
        ("[stub](../../broker_stub)", "[stub](../reference/api/broker_stub.md)"),
        ("[job](../examples/mirror.py)", "[job](source:files/docs/examples/mirror.py.txt)"),
        ("![it](../pictures/lag-80-light.svg)", "![it](../pictures/docs/pictures/lag-80-light.svg)"),
        ("[it](../pictures/lag-80-light.svg)", "[it](source:files/docs/pictures/lag-80-light.svg)"),
        ("[here](#a) [out](https://a.example/x.md) [gone](none.md)",) * 2,
        ("`[x](../options.md)`\n\n```md\n[x](../../CHANGELOG.md)\n```\n",) * 2,
    ],
)
def test_a_link_leads_where_the_site_has_its_target(written: str, rewritten: str) -> None:
    """Links to pages, modules and files are rewritten; links to elsewhere, and those within code, are not."""
    links = Links(PLACES)

    assert links.rewrite(written, ROOT / "docs" / "start" / "reading.md", "start/reading.md") == rewritten


def test_files_that_pages_link_or_show_are_noted() -> None:
    """Of a linked file the site gets a copy, and a picture that a page shows is staged."""
    links = Links(PLACES)

    links.rewrite("[a](../setup.cfg) ![b](pictures/lag-80-dark.svg)", ROOT / "docs" / "options.md", "options.md")

    assert links.copied == {ROOT / "setup.cfg"}
    assert links.pictures == {"pictures/docs/pictures/lag-80-dark.svg": ROOT / "docs" / "pictures" / "lag-80-dark.svg"}


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("# Title\n\nFirst [words](x.md) of it. More.\n", Summary("Title", "First words of it.")),
        ("<!-- Generated. -->\n# Title\n\nIt takes\n1.5 s. More\n", Summary("Title", "It takes 1.5 s.")),
        ("# Title\n\n| a |\n|---|\n", Summary("Title", "")),
        ("# Title\n\nNo end of a sentence\n", Summary("Title", "")),
    ],
)
def test_a_page_is_listed_with_its_first_sentence(tmp_path: Path, text: str, summary: Summary) -> None:
    """The list of an index shows the title of a page, and its first sentence without links, if there is one."""
    (tmp_path / "page.md").write_text(text)

    assert read_summary(tmp_path / "page.md") == summary


def test_every_page_is_listed_once_or_more() -> None:
    """The lists are up to date, and lead from the home page to every page that has no index of its own."""
    listed = {page for index in indexes() for page in children(index)}
    unlisted = set((ROOT / "docs").rglob("*.md")) - {HOME} - listed

    assert [page for page in unlisted if not (page.parent / "README.md").exists()] == []
    assert [index for index in indexes() if render_index(index) != index.read_text()] == []


def test_a_notebook_is_shown_with_its_outputs(tmp_path: Path) -> None:
    """A notebook becomes its texts, its code, and the texts and pictures that it printed."""
    picture = {"output_type": "display_data", "data": {"image/png": "aGk=", "text/plain": ["<Figure>"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Text."]},
        {"cell_type": "code", "source": ["print(1)"], "outputs": [{"output_type": "stream", "text": ["1\n"]}, picture]},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))

    text, pictures = render_notebook(tmp_path / "a.ipynb")

    shown = "![Output of the code above](a-1.png)"
    assert text == f"# Title\n\nText.\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n{shown}\n"
    assert pictures == {"a-1.png": b"hi"}


@pytest.mark.parametrize(
    ("docstring", "rst"),
    [
        ("Return `Message` or `a b`.", "Return `Message` or ``a b``."),
        ("Take `Row`s of *any kind, a_ or `x`=1.", r"Take `Row`\ s of \*any kind, a\_ or `x`\ =1."),
        ("Use:\n\n    a = *b\n\n    c\n\nThen `d`.", "Use:\n\n::\n\n    a = *b\n\n    c\n\nThen `d`."),
        ("Either:\n- one\n- two", "Either:\n\n- one\n- two"),
        ("Send.\n\nArgs:\n    rows: All `rows`.\n        Even null.",) * 2,
    ],
)
def test_a_docstring_becomes_markup(docstring: str, rst: str) -> None:
    """Code stays code, indented blocks and lists are marked, and other characters mean nothing."""
    assert "\n".join(to_rst(docstring.split("\n"))) == rst
