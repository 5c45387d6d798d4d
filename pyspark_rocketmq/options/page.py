"""Render the page about options for users.

The page is made from the same tables that check what users write, so the two always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .conflicts import RULES
from .option import USES, Option, Section
from .refused import REFUSED, TRANSLATED
from .table import FIRST, SECTIONS, planned

__all__ = ["render_page", "table"]

_HEAD = """# Options of `format("rocketmq")`

Ten options are enough for most jobs. The others follow by task, then what is refused; what does not go together comes
last. [Columns](reference/columns.md) and the [JSON of offsets](reference/offsets-json.md) have pages of their own.
"""

_TEXT = """## How options are written

Names are read in upper or lower case. Names marked ° are properties of RocketMQ's own client and are also accepted as
`rocketmq.<name>`. A name and its alias may both be given if they mean the same. No option is ignored silently: a value
that is not accepted, a name that looks like a typing error, an option of another use, and options that contradict each
other are errors; other unknown names are logged as a warning (see `strictOptions`). The value of an option outranks the
environment (`NAMESRV_ADDR`), which outranks the default.

### Values

| Kind | Accepted |
| --- | --- |
| integer, boolean, word | decimal digits with optional sign; `true` or `false`; words in upper or lower case |
| duration | an integer (milliseconds), or one with `ms`, `s`, `m`, `h` or `d`: `30s` |
| size | an integer (bytes), or one with `k`, `m` or `g`, powers of 1024: `16m` |
| list | parts with commas between them; none blank, none twice |
| time | milliseconds since 1970; ISO-8601 with a zone: `2026-01-31T00:00:00Z`; a time ago: `-2h` |
| JSON | standard JSON without duplicate keys |

Errors open with a code: [`OPTION_VALUE`](troubleshooting.md#option_value),
[`OPTION_MISSING`](troubleshooting.md#option_missing), [`OPTION_CONFLICT`](troubleshooting.md#option_conflict),
[`OPTION_SCOPE`](troubleshooting.md#option_scope), [`OPTION_UNKNOWN`](troubleshooting.md#option_unknown) or
[`OPTION_REFUSED`](troubleshooting.md#option_refused). Values of secret options are shown as `***`.
"""

_COLUMNS = """### Columns of reads

The option `columns` takes [these](reference/columns.md#columns-of-reads); the page has their types, meanings and nulls.

### Columns of writes

A DataFrame to write may have [these](reference/columns.md#columns-of-writes) columns and no others.
"""


def render_page() -> str:
    """Return the whole page in Markdown: the first options, the others by task, refusals, and conflicts last."""
    tasks = [_render_task(each) for each in SECTIONS if each is not planned.SECTION]
    others = "## The others, by task\n"
    parts = [_render_first(), _TEXT, others, *tasks, _COLUMNS, _render_planned(), _render_refused(), _render_rules()]
    return "\n".join([_HEAD, *parts])


def _render_first() -> str:
    """Return the section with the options that most jobs set."""
    uses = ", ".join(f"{letter} {words}" for letter, words in USES.items())
    use = f"The column *Use* of the tables names the uses of an option: {uses}."
    return f"## Ten options that most jobs set\n\n{use}\n\n{_render_options(FIRST)}"


def _render_task(section: Section) -> str:
    """Return one section of the page: its title, and a table of its options that are not among the first ones."""
    first = ", ".join(_name(each) for each in section.options if each in FIRST)
    above = f"Above, among the [ten](#ten-options-that-most-jobs-set): {first}.\n\n" if first else ""
    return f"### {section.title}\n\n{above}{_render_options(each for each in section.options if each not in FIRST)}"


def _render_options(options: Iterable[Option[Any]]) -> str:
    return table(("Option", "Aliases", "Use", "Accepted", "Default", "Meaning"), map(_describe, options))


def _describe(option: Option[Any]) -> tuple[str, ...]:
    aliases = ", ".join(f"`{alias}`" for alias in option.aliases)
    return _name(option), aliases, option.use, option.kind.accepts, option.shown_default, option.meaning


def _name(option: Option[Any]) -> str:
    return f"`{option.name}`{'°' if option.native else ''}"


def _render_rules() -> str:
    rows = ((_name(rule.option), rule.what, rule.advice, f"`{rule.code}`") for rule in RULES)
    return (
        f"## Options that do not go together, or not alone\n\n{table(('Option', 'Error', 'What to do', 'Code'), rows)}"
    )


def _render_planned() -> str:
    rows = ((_name(option), option.use, option.meaning) for option in planned.SECTION.options)
    head = "## Known, but not built\n\nThese are refused until they have an effect.\n\n"
    return head + table(("Option", "Use", "Meaning"), rows)


def _render_refused() -> str:
    head = """## Names of other products

RocketMQ's own consumers, Spark's Kafka source and other connectors have these options. They are refused, also with
`rocketmq.` before them, and the error says what to use instead.

"""
    return head + table(("Name", "Instead"), _refusals())


def _refusals() -> Iterator[tuple[str, str]]:
    for name, translate in TRANSLATED.items():
        yield f"`{name}`", translate("")
    for names, advice in REFUSED.items():
        yield ", ".join(f"`{name}`" for name in names), advice


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown; the cells may have any character."""
    lines = [head, tuple("---" for _ in head), *(tuple(map(_escape, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
