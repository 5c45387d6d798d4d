"""Explain an error code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from ..command import Command, Parameter
from ..exits import NotFound
from ..views import Facts, View

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["COMMANDS"]

PAGES = "explanations.json"
"""File beside the package `cli`, generated from docs/troubleshooting.md."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of one code, and what to do about it."""

    code: str
    response_code: int | None
    """RocketMQ's own number, for a code of a server's response."""
    area: str
    means: str
    look_at: str
    """The places to look at, to find the cause."""
    do: str
    is_retried: bool | None
    """Whether requests other than sends are repeated automatically; null where the question does not arise."""
    page: str
    """The place of the explanation in the documentation."""


@dataclass(frozen=True, slots=True)
class Explanations:
    """The explanations of one code; several if a server's number has several meanings."""

    explanations: tuple[Explanation, ...]


def _run(session: Session, code: str) -> Explanations:
    wanted = code.strip("[]`").upper()
    entries = json.loads((files(__package__.rpartition(".")[0]) / PAGES).read_text(encoding="utf-8"))
    every = [Explanation(**entry) for entry in entries]
    found = tuple(each for each in every if wanted in (each.code, str(each.response_code)))
    found = found or tuple(each for each in every if each.code == f"BROKER_{wanted}")
    if not found:
        near = [each.code for each in every if wanted in each.code] if len(wanted) > 2 else []
        advice = f"codes like it: {', '.join(near[:8])}" if near else "the code stands in brackets before an error"
        raise NotFound(f"there is no code {code}", advice=advice)
    return Explanations(found)


def _show(found: Explanations) -> list[View]:
    return [_facts(each) for each in found.explanations]


def _facts(each: Explanation) -> View:
    number = "" if each.response_code is None else f" (response code {each.response_code})"
    retried = {None: "", True: "repeated automatically, except sends", False: "not repeated"}[each.is_retried]
    pairs = [
        ("code", each.code + number),
        ("area", each.area),
        ("means", each.means),
        ("look at", each.look_at),
        ("do", each.do),
        ("retry", retried),
        ("page", each.page),
    ]
    return Facts([(name, text) for name, text in pairs if text])


COMMANDS = (
    Command(
        "explain",
        Explanations,
        _run,
        _show,
        parameters=(Parameter("CODE", "code of an error, or the number of a server's response", is_required=True),),
        examples=("pyspark-rocketmq explain OFFSET_BEFORE_EARLIEST", "pyspark-rocketmq explain 26"),
        connects=False,
    ),
)
