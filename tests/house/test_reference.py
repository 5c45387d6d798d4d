"""Check that the reference pages agree with the project that they describe."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(REFERENCE.glob("*.md"))
_TEST = re.compile(r"\]\(([^)]*/tests/[^)]*\.py)\) `(test_\w+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    """Each test that a page names after a link is defined in the linked file."""
    named = _TEST.findall(page.read_text())

    missing = [name for link, name in named if f"def {name}(" not in (page.parent / link).read_text()]

    assert missing == []


def test_the_releases_under_test_are_those_of_the_page() -> None:
    """The page on compatibility calls exactly those releases of RocketMQ tested on which tests run."""
    config = configparser.ConfigParser()
    config.read(ROOT / "conf" / "brokers" / "versions.ini")
    shown = dict(re.findall(r"^\| (\d\.\d\.\d) \| tested.* \| (\d\.\d): tested \|", page_text(), flags=re.MULTILINE))

    assert shown == {version: config[version]["acl"] for version in config.sections()}


def test_the_releases_of_pyspark_are_those_of_the_page() -> None:
    """The page on compatibility calls exactly those releases of PySpark tested that `make test-compat` installs."""
    shown = re.findall(r"^\| (4\.\d) \| tested", page_text(), flags=re.MULTILINE)

    assert sorted(shown) == sorted(path.stem for path in (ROOT / "conf" / "pyspark").glob("*.txt"))


def page_text() -> str:
    """Return the text of the page on compatibility."""
    return (REFERENCE / "compatibility.md").read_text()
