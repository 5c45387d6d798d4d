"""Render the page about options for users.

The page is made from the same tables that check what users write, so the two always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..decode.columns import COLUMNS, Layout, default_columns
from ..encode.columns import COLUMNS as WRITTEN_COLUMNS
from .conflicts import RULES
from .option import USES, Option, Section
from .refused import REFUSED, TRANSLATED
from .table import SECTIONS, planned

__all__ = ["render_page"]

_HEAD = """# Options of `format("rocketmq")`

Names are read in upper or lower case. Names marked ° are properties of RocketMQ's own client and are also accepted as
`rocketmq.<name>`. A name and its alias may both be given if they mean the same. No option is ignored silently: a value
that is not accepted, a name that looks like a typing error, an option of another use, and options that contradict each
other are errors; other unknown names are logged as a warning (see `strictOptions`). The value of an option outranks the
environment (`NAMESRV_ADDR`), which outranks the default.

## Values

| Kind | Accepted |
| --- | --- |
| integer, boolean, word | decimal digits with optional sign; `true` or `false`; words in upper or lower case |
| duration | an integer (milliseconds), or one with `ms`, `s`, `m`, `h` or `d`: `30s` |
| size | an integer (bytes), or one with `k`, `m` or `g`, powers of 1024: `16m` |
| list | parts with commas between them; none blank, none twice |
| time | milliseconds since 1970; ISO-8601 with a zone: `2026-01-31T00:00:00Z`; a time ago: `-2h` |
| JSON | standard JSON without duplicate keys |

Errors open with a code: `OPTION_VALUE`, `OPTION_MISSING`, `OPTION_CONFLICT`, `OPTION_SCOPE`, `OPTION_UNKNOWN` or
`OPTION_REFUSED`. Values of secret options are shown as `***`.
"""


def render_page() -> str:
    """Return the whole page in Markdown."""
    sections = [_render_section(each) for each in SECTIONS if each is not planned.SECTION]
    columns = [_render_columns(), _render_written_columns()]
    parts = [_render_uses(), *sections, *columns, _render_rules(), _render_planned(), _render_refused()]
    return "\n".join([_HEAD, *parts])


def _render_uses() -> str:
    uses = ", ".join(f"{letter} {words}" for letter, words in USES.items())
    return f"The column *Use* of the tables below names the uses of an option: {uses}.\n"


def _render_section(section: Section) -> str:
    """Return one section of the page: its title, and a table of its options."""
    head = ("Option", "Aliases", "Use", "Accepted", "Default", "Meaning")
    return f"## {section.title}\n\n{_table(head, map(_describe, section.options))}"


def _describe(option: Option[Any]) -> tuple[str, ...]:
    aliases = ", ".join(f"`{alias}`" for alias in option.aliases)
    return _name(option), aliases, option.use, option.kind.accepts, option.shown_default, option.meaning


def _name(option: Option[Any]) -> str:
    return f"`{option.name}`{'°' if option.native else ''}"


def _render_columns() -> str:
    """Return the table of all columns, with the layouts that have them by default."""
    head = """## Columns of reads

The option `columns` takes any of these. *Default in* names the layouts that have a column if `columns` is not given;
`headers` is in `kafka` only with `includeHeaders`. `properties` is a STRING with `propertiesFormat=json`.

"""
    rows = (
        (f"`{name}`", f"`{column.type.value}`", "yes" if column.nullable else "no", ", ".join(_layouts_with(name)))
        for name, column in COLUMNS.items()
    )
    return head + _table(("Column", "Type", "Nullable", "Default in"), rows)


def _render_written_columns() -> str:
    """Return the table of all columns that a DataFrame to write may have."""
    head = """## Columns of writes

A DataFrame to write has `body`, and `topic` unless the option of that name is given. A column that is not listed here,
or that has another type, is an error.

"""
    rows = (
        (f"`{name}`", f"`{rule.alias}`" if rule.alias else "", rule.wanted, rule.meaning)
        for name, rule in WRITTEN_COLUMNS.items()
    )
    return head + _table(("Column", "Also named", "Type", "Meaning"), rows)


def _layouts_with(column: str) -> list[str]:
    return [f"`{layout.value}`" for layout in Layout if column in default_columns(layout, include_headers=True)]


def _render_rules() -> str:
    rows = ((_name(rule.option), rule.what, rule.advice, f"`{rule.code}`") for rule in RULES)
    return (
        f"## Options that do not go together, or not alone\n\n{_table(('Option', 'Error', 'What to do', 'Code'), rows)}"
    )


def _render_planned() -> str:
    rows = ((_name(option), option.use, option.meaning) for option in planned.SECTION.options)
    head = "## Known, but not built\n\nThese are refused until they have an effect.\n\n"
    return head + _table(("Option", "Use", "Meaning"), rows)


def _render_refused() -> str:
    head = """## Names of other products

RocketMQ's own consumers, Spark's Kafka source and other connectors have these options. They are refused, also with
`rocketmq.` before them, and the error says what to use instead.

"""
    return head + _table(("Name", "Instead"), _refusals())


def _refusals() -> Iterator[tuple[str, str]]:
    for name, translate in TRANSLATED.items():
        yield f"`{name}`", translate("")
    for names, advice in REFUSED.items():
        yield ", ".join(f"`{name}`" for name in names), advice


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(map(_escape, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
