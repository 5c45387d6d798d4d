"""Render the page about columns for users, from the tables by which columns are read and written."""

from __future__ import annotations

from collections.abc import Iterable

from ..decode.columns import COLUMNS, Column, Layout, Part, default_columns
from ..encode.columns import COLUMNS as WRITTEN_COLUMNS
from .page import table

__all__ = ["render_columns_page"]

_HEAD = """# Columns of `format("rocketmq")`

A row is a message. A read has the columns of a *layout*, or those that you name; a write takes the columns below and
refuses all others.

| What you want | What to set |
| --- | --- |
| the columns of RocketMQ | nothing: `rowLayout=rocketmq` is the default |
| the columns of Spark's Kafka source | `rowLayout=kafka`, for its headers also `includeHeaders=true` |
| some columns, of both layouts, in your order | `columns=topic,queueOffset,body`, or `.schema(...)` |
| `properties` as JSON text, which reads faster than a map | `propertiesFormat=json` |

Spark cannot leave out columns of a Python source by itself: a `select` behind the read saves no work, `columns` does.
[Options](../options.md#rows) has these options in full.

## Columns of reads

`NOT NULL` columns are never null. *Null* says when one of the others is. With `mode=PERMISSIVE` the columns that come
from a message's properties (%(from_properties)s) are null, too, where the properties cannot be read. Times are UTC.
"""

_WRITES = """## Columns of writes

A DataFrame to write has `body`, and `topic` unless the option of that name is given. A column that is not listed here,
or that has another type, fails with [`SINK_COLUMN`](../troubleshooting.md#sink_column) before anything is sent; a value
that cannot be sent is a matter of `onBadRow` ([writing](../writing.md#rows-that-cannot-be-sent)). To copy a topic, drop
what a read has and a write does not take, as the [mirror](../examples/mirror.py) does.
"""


def render_columns_page() -> str:
    """Return the whole page in Markdown."""
    head = _HEAD % {"from_properties": ", ".join(f"`{name}`" for name in _made_of_properties())}
    layouts = [_render_layout(each) for each in Layout]
    return "\n".join([head, *layouts, _render_others(), _WRITES, _render_written()])


def _made_of_properties() -> list[str]:
    """Return the columns that are null where properties cannot be read; `msgId` is the broker's id then."""
    found = (each for each in COLUMNS.values() if each.part is Part.PROPERTIES and each.null != "never")
    return [each.name for each in found if each.name != "msgId"]


def _render_layout(layout: Layout) -> str:
    return f"### Layout `{layout.value}`\n\n{_render_reads(_columns_of(layout))}"


def _render_others() -> str:
    """Return the table of the columns that no layout has."""
    shown = {column.name for layout in Layout for column in _columns_of(layout)}
    rest = [column for name, column in COLUMNS.items() if name not in shown]
    return f"### By name only\n\nNo layout has these; `columns` adds them.\n\n{_render_reads(rest)}"


def _columns_of(layout: Layout) -> list[Column]:
    return [COLUMNS[name] for name in default_columns(layout, include_headers=True)]


def _render_reads(columns: Iterable[Column]) -> str:
    rows = ((f"`{each.name}`", _type(each), each.meaning, each.null) for each in columns)
    return table(("Column", "Type", "Meaning", "Null"), rows)


def _type(column: Column) -> str:
    json = ", with `propertiesFormat=json` `STRING`" if column.name == "properties" else ""
    return f"`{column.type.value}{'' if column.nullable else ' NOT NULL'}`{json}"


def _render_written() -> str:
    rows = (
        (f"`{name}`", f"`{rule.alias}`" if rule.alias else "", rule.wanted, rule.meaning, rule.null)
        for name, rule in WRITTEN_COLUMNS.items()
    )
    return table(("Column", "Also named", "Type", "Meaning", "A null means"), rows)
