"""Read JSON that a user typed or a checkpoint stored, strictly.

Only standard JSON is accepted: no duplicate keys, no NaN, no number that becomes infinite. Anything else is an
`OptionError` that names the option.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from ..errors import OptionError, shown

__all__ = ["LAST_OFFSET", "LAST_QUEUE_ID", "is_integer", "is_queue_id", "parse_json", "shorten"]

_SHOWN_LENGTH = 200
LAST_QUEUE_ID = 2**31 - 1
LAST_OFFSET = 2**63 - 1
"""The largest Java long: the upper limit of offsets and of times in milliseconds."""


def parse_json(text: str, option: str) -> Any:
    """Return the value that a JSON text holds; raise `OptionError`, which names `option`, if it is not strict JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=_read_float, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise OptionError(option, shorten(text), _reason(error), advice="give one JSON object") from error


def shorten(text: str) -> str:
    """Return a text escaped and cut to 200 characters: JSON of ten thousand queues must not fill the driver's log."""
    return shown(text, _SHOWN_LENGTH)


def is_integer(value: Any, first: int, last: int) -> bool:
    """Return whether a JSON value is an integer from `first` to `last`; unlike in Python, true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool) and first <= value <= last


def is_queue_id(key: str) -> bool:
    """Return whether a JSON key is a queue id: decimal, no sign, no leading zero."""
    return key.isascii() and key.isdigit() and len(key) <= 10 and key == str(int(key)) and int(key) <= LAST_QUEUE_ID


class _NotStandard(ValueError):
    """JSON that Python's parser accepts although it is not standard."""


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError | _NotStandard):
        return f"not standard JSON ({error})"
    return "a number has too many digits"  # Python's own text advises to raise the limit of the interpreter.


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _NotStandard(f"key {next(key for key in keys if keys.count(key) > 1)!r} appears twice")
    return value


def _read_float(text: str) -> float:
    if math.isinf(value := float(text)):
        raise _NotStandard(f"{text:.20} is too large a number")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise _NotStandard(f"{name} is not a JSON number")
