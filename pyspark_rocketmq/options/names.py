"""Which option does a user's key mean, and what is wrong with a key that means none?

Names are compared without case. What is no option may be a typing error, which fails with the name that was probably
meant, or something that a platform adds on its own, which is warned about. `strictOptions` moves that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..errors import OptionError
from ..offsets.strict_json import shorten
from .option import Option
from .table import OPTIONS

__all__ = ["Found", "complain", "describe_foreign", "edit_distance", "find_option"]

_OURS = ("rocketmq.", "kafka.", "kafkaconsumer.", "tls.client.")
"""What begins like this is meant for us, so nobody else will read it."""
_SHORT = 6
_FILLERS = re.compile(r"[._-]")


class Found(NamedTuple):
    """An option and the one of its names that a key is."""

    spelling: str
    option: Option[Any]
    depends_on_use: bool = False
    """Whether the name means another option to writes than to reads."""


def _spellings(options: Iterable[Option[Any]]) -> dict[str, Found]:
    return {spelling.lower(): Found(spelling, option) for option in options for spelling in option.spellings}


def _index() -> dict[str, Found]:
    """Names in lower case; where reading and writing share one, reading has it."""
    writing = _spellings(option for option in OPTIONS if option.use == "W")
    reading = _spellings(option for option in OPTIONS if option.use != "W")
    shared = {name: found._replace(depends_on_use=True) for name, found in reading.items() if name in writing}
    return writing | reading | shared


_KNOWN = _index()


def find_option(key: str) -> Found | None:
    """The option that goes by this name."""
    return _KNOWN.get(key.lower())


def complain(key: str, text: str) -> OptionError | None:
    """The error of a key that is no option; None if it looks like nobody's business here."""
    near = [found for found in _KNOWN.values() if _is_near(key.lower(), found.spelling.lower())]
    if not near and not key.lower().startswith(_OURS):
        return None
    nearest = min(near or _KNOWN.values(), key=lambda found: _distance(key, found.spelling))
    # The value of a name that nobody knows may be a secret.
    shown = shorten(text) if near and not nearest.option.secret else "***"
    advice = f"did you mean {nearest.spelling}?"
    return OptionError(key, shown, "no such option", advice=advice, code="OPTION_UNKNOWN")


def describe_foreign(key: str) -> OptionError:
    """The error of a key that nobody here knows; its value is nobody's business."""
    advice = "leave it out, or do not set strictOptions=all"
    return OptionError(key, "***", "no such option", advice=advice, code="OPTION_UNKNOWN")


def _is_near(key: str, spelling: str) -> bool:
    """Whether one was probably typed for the other."""
    if _bare(key) == _bare(spelling):
        return True
    most = 1 if min(len(key), len(spelling)) < _SHORT else 2
    return abs(len(key) - len(spelling)) <= most and edit_distance(key, spelling) <= most


def _distance(key: str, spelling: str) -> int:
    """How far apart two names are, with the prefix that the user gave or without."""
    prefix = next((prefix for prefix in _OURS if key.lower().startswith(prefix)), "")
    return min(edit_distance(_bare(name), _bare(spelling)) for name in (key, key[len(prefix) :]))


def _bare(name: str) -> str:
    return _FILLERS.sub("", name.lower())


def edit_distance(first: str, second: str) -> int:
    """How many letters to put in, take out, replace or swap with their neighbour."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        before, above, row = row, before, [i]
        for j, b in enumerate(second, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]
