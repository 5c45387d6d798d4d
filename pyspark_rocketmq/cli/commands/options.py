"""List the options of the data source, or explain one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..command import Command, Parameter
from ..exits import NotFound
from ..views import Column, Facts, Table, View

if TYPE_CHECKING:
    from ...options.option import Option
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One option."""

    name: str
    aliases: tuple[str, ...]
    section: str
    uses: tuple[str, ...]
    accepts: str
    default: str
    meaning: str
    is_built: bool
    is_secret: bool


@dataclass(frozen=True, slots=True)
class OptionList:
    """Options, in the order of the guide."""

    options: tuple[OptionRow, ...]


def _run(session: Session, name: str | None) -> OptionList:
    from ...options.table import SECTIONS

    rows = [(option, _row(each.title, option)) for each in SECTIONS for option in each.options]
    if name is None:
        return OptionList(tuple(row for _, row in rows))
    found = tuple(row for option, row in rows if name.lower() in [each.lower() for each in option.spellings])
    if not found:
        raise _unknown(name)
    return OptionList(found)


def _unknown(name: str) -> NotFound:
    from ...options.keys import complain
    from ...options.refused import find_refusal

    error = find_refusal(name, "…") or complain(name, "…")
    advice = error.advice if error else "options without a name lists all"
    return NotFound(f"there is no option {name}", advice=advice)


def _row(section: str, option: Option[Any]) -> OptionRow:
    from ...options.option import USES

    return OptionRow(
        option.name,
        option.spellings[1:],
        section,
        tuple(USES[letter] for letter in option.use),
        option.kind.accepts.replace("`", ""),
        option.shown_default.replace("`", ""),
        option.meaning.replace("`", ""),
        not option.is_planned,
        option.secret,
    )


def _show(found: OptionList) -> list[View]:
    if len(found.options) == 1:
        return [_facts(found.options[0])]
    columns = (Column("option"), Column("default"), Column("meaning"))
    sections = dict.fromkeys(each.section for each in found.options)
    return [
        Table(
            columns,
            [(each.name, each.default, each.meaning) for each in found.options if each.section == section],
            title=section,
        )
        for section in sections
    ]


def _facts(option: OptionRow) -> View:
    pairs = [
        ("option", option.name),
        ("aliases", ", ".join(option.aliases)),
        ("for", ", ".join(option.uses)),
        ("accepts", option.accepts if option.is_built else "nothing: it is not built yet"),
        ("default", option.default),
        ("meaning", option.meaning),
    ]
    return Facts([(name, text) for name, text in pairs if text])


COMMANDS = (
    Command(
        "options",
        OptionList,
        _run,
        _show,
        parameters=(Parameter("NAME", "option to explain, also by an alias"),),
        examples=("pyspark-rocketmq options", "pyspark-rocketmq options startingOffsets"),
        connects=False,
    ),
)
