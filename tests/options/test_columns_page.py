"""The page for users explains every column of reads and writes."""

from __future__ import annotations

import re

import pytest

from pyspark_rocketmq.decode.columns import COLUMNS, Column, Layout, default_columns
from pyspark_rocketmq.encode.columns import COLUMNS as WRITTEN_COLUMNS
from pyspark_rocketmq.options.columns_page import render_columns_page


def section(title: str) -> str:
    """Return the text below a heading of the page, up to the next heading of any level."""
    return re.split(r"^#+ ", render_columns_page().split(f"# {title}\n")[1], flags=re.MULTILINE)[0]


def rows(title: str) -> dict[str, list[str]]:
    """Return {column: the other cells of its row} of the table below a heading."""
    lines = re.findall(r"^\| (`.*) \|$", section(title), flags=re.MULTILINE)
    cells = [re.split(r" \| ", line) for line in lines]
    return {name.strip("`"): rest for name, *rest in cells}


@pytest.mark.parametrize("layout", Layout)
def test_a_layout_has_its_columns(layout: Layout) -> None:
    """The table of a layout has its columns, in their order, with those that only `includeHeaders` adds."""
    assert tuple(rows(f"Layout `{layout.value}`")) == default_columns(layout, include_headers=True)


def test_every_column_is_explained() -> None:
    """Each column of reads and writes has a row with its meaning and its nulls."""
    shown = {name for title in ("Layout `rocketmq`", "Layout `kafka`", "By name only") for name in rows(title)}

    assert shown == set(COLUMNS)
    assert set(rows("Columns of writes")) == set(WRITTEN_COLUMNS)
    assert all(column.meaning.endswith(".") and column.null for column in COLUMNS.values())
    assert all(rule.meaning.endswith(".") and rule.null for rule in WRITTEN_COLUMNS.values())


@pytest.mark.parametrize("column", COLUMNS.values(), ids=lambda column: column.name)
def test_only_a_nullable_column_has_nulls(column: Column) -> None:
    """A column that the schema declares NOT NULL is said to be never null."""
    assert column.nullable or column.null == "never"
