"""Find the option that a user's key names, and explain keys that name none.

Names are compared without case. An unknown key that resembles an option's name, or has a prefix of this source, raises
an error with the name that was probably meant. Any other unknown key is only logged, because the platform
that runs Spark may have added it. `strictOptions` can make both cases errors, or both log lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..errors import OptionError
from ..offsets.strict_json import shorten
from .option import Option
from .table import OPTIONS

__all__ = ["KeyMatch", "complain", "describe_foreign", "edit_distance", "find_option"]

_OURS = ("rocketmq.", "kafka.", "kafkaconsumer.", "tls.client.")
"""Prefixes of keys that only this source reads."""
_SHORT = 6
_FILLERS = re.compile(r"[._-]")


class KeyMatch(NamedTuple):
    """The option that a user's key names, and which of the option's names (`spelling`) the key is."""

    spelling: str
    option: Option[Any]
    depends_on_use: bool = False
    """Whether a write has another option under this name than a read."""


def _spellings(options: Iterable[Option[Any]]) -> dict[str, KeyMatch]:
    return {spelling.lower(): KeyMatch(spelling, option) for option in options for spelling in option.spellings}


def _index(*, for_writes: bool) -> dict[str, KeyMatch]:
    """Return a map from all names of options, in lower case, to the options.

    If reads and writes have different options of the same name, the name leads to the option of writes or of reads.
    """
    writing = _spellings(option for option in OPTIONS if option.use == "W")
    reading = _spellings(option for option in OPTIONS if option.use != "W")
    known = reading | writing if for_writes else writing | reading
    return known | {name: known[name]._replace(depends_on_use=True) for name in reading.keys() & writing.keys()}


_KNOWN, _KNOWN_TO_WRITES = _index(for_writes=False), _index(for_writes=True)


def find_option(key: str, use: str = "") -> KeyMatch | None:
    """Return the option that a key names, in upper or lower case; None if it names none.

    If `use` is W, a name that means different options of reads and writes leads to the option of writes.
    """
    return (_KNOWN_TO_WRITES if use == "W" else _KNOWN).get(key.lower())


def complain(key: str, text: str) -> OptionError | None:
    """Return the error for an unknown key if it resembles an option's name or has a prefix such as `rocketmq.`.

    Return None for any other key: it is probably meant for the platform that runs Spark, not for this data source. The
    error shows the key's value `text` only if the key resembles an option that is no secret.
    """
    near = [match for match in _KNOWN.values() if _is_near(key.lower(), match.spelling.lower())]
    if not near and not key.lower().startswith(_OURS):
        return None
    nearest = min(near or _KNOWN.values(), key=lambda match: _distance(key, match.spelling))
    # The value of an unknown name may be a secret.
    shown = shorten(text) if near and not nearest.option.secret else "***"
    advice = f"did you mean {nearest.spelling}?"
    return OptionError(key, shown, "is not an option of this source", advice=advice, code="OPTION_UNKNOWN")


def describe_foreign(key: str) -> OptionError:
    """Return the error that `strictOptions=all` raises for a key that resembles no option; it hides the key's value."""
    advice = "leave it out, or do not set strictOptions=all"
    return OptionError(key, "***", "is not an option of this source", advice=advice, code="OPTION_UNKNOWN")


def _is_near(key: str, spelling: str) -> bool:
    """Return whether a key is probably a typing error for an option's name."""
    if _bare(key) == _bare(spelling):
        return True
    most = 1 if min(len(key), len(spelling)) < _SHORT else 2
    return abs(len(key) - len(spelling)) <= most and edit_distance(key, spelling) <= most


def _distance(key: str, spelling: str) -> int:
    """Return the edit distance from a key to an option's name, ignoring case and the characters `.`, `_` and `-`.

    If the key has a prefix of this source, such as `rocketmq.`, measure with and without it; the smaller one counts.
    """
    prefix = next((prefix for prefix in _OURS if key.lower().startswith(prefix)), "")
    return min(edit_distance(_bare(name), _bare(spelling)) for name in (key, key[len(prefix) :]))


def _bare(name: str) -> str:
    return _FILLERS.sub("", name.lower())


def edit_distance(first: str, second: str) -> int:
    """Return the number of changes that turn one text into the other.

    A change inserts, deletes or replaces a letter, or swaps it with its neighbour. `difflib` is no substitute: it knows
    no swaps, and mistakes Spark's `maxFilesPerTrigger` for a misspelt `maxBytesPerTrigger`.
    """
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
