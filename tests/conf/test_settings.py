"""Check that the settings in `conf/` are valid and explained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyspark_rocketmq.options import parse_reader_options

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
PAGE = (ROOT / "docs" / "performance.md").read_text()
SETS = sorted((CONF / "options").glob("*.json"))

every_set = pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)


@every_set
def test_option_sets_are_accepted(path: Path) -> None:
    """Each option set, with name server and topic added, is accepted and changes at least one setting of a stream."""
    needed = {"nameServer": "localhost:9876", "subscribe": "orders"}
    options = json.loads(path.read_text())

    assert parse_reader_options({**needed, **options}, stream=True) != parse_reader_options(needed, stream=True)


@every_set
def test_option_sets_are_on_the_page(path: Path) -> None:
    """The page docs/performance.md links every option set in conf/options, and no file that does not exist."""
    linked = re.findall(r"\]\(\.\./(conf/options/\S+)\)", PAGE)

    assert str(path.relative_to(ROOT)) in linked
    assert sorted(linked) == [str(each.relative_to(ROOT)) for each in SETS]


def test_every_setting_of_spark_has_its_reason() -> None:
    """In conf/spark-defaults.conf a comment precedes every setting."""
    paragraphs = (CONF / "spark-defaults.conf").read_text().strip().split("\n\n")[1:]

    assert paragraphs
    assert [text for text in paragraphs if not re.fullmatch(r"# .+\n(# .+\n)*spark\.\S+ +\S+", text)] == []
