"""Read and write the JSON of Java's library fastjson.

It differs from standard JSON in three ways. A map with numbers as keys may have them without quotes
(`{0:"10.0.0.1:10911"}`). A map with queues as keys has a whole object as key
(`{{"brokerName":"b","queueId":0,"topic":"T"}:7}`). A Java object that occurs a second time is written as a reference to
its first place (`{"$ref":"$.a.b"}`).

`parse` puts such keys in quotes and calls Python's parser. So a key that is a number comes out as its text, and one
that is an object as its JSON text; `parse_queue` turns that text into a `MessageQueue`. `write` is the reverse of
`parse`, for values whose keys are texts, numbers or queues.

A text of 16 MiB can hold eight million values; in memory, each takes up to thirty times its size in the text.
A large value can also be referenced many times. So `MOST_PARTS` limits the number of values of one text, and the number
that references add.
"""

from __future__ import annotations

import json
import math
import re
from reprlib import repr as shorten
from typing import Any, NoReturn

from ..errors import LimitExceeded, MalformedFrame
from ..model import MessageQueue

MOST_PARTS = 1_000_000
"""Limit of commas, opening brackets and strings together.

Enough for statistics of 66,000 queues, or 500,000 topic names.
"""
_LONGEST_KEY = 1024
"""Longest key text, in characters, whose parsed queue is cached."""
_MOST_CACHED_CHARACTERS = 4 * 2**20
"""Largest sum of cached key texts: servers choose their lengths. A usual key has 60 characters."""

# Strings are matched first, so that nothing inside them is taken for a key. No part can match in two ways, and
# an unclosed string matches to the end: the time is linear for any input.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_OBJECT = rf"\{{(?:[^{{}}\"]|{_STRING})*+\}}"
_BARE_KEY = re.compile(rf"{_STRING}|(?P<before>[{{,]\s*+)(?P<key>-?\d++|{_OBJECT})(?=\s*:)", re.DOTALL)
_REFERENCE_STEP = re.compile(r"\.((?:\\.|[^.\[\\])+)|\[(\d+)\]|\[([\"'])(.*?)\3\]")


def parse(data: bytes | memoryview | str) -> Any:
    """Return the value of a fastjson text.

    Raise `MalformedFrame` if it cannot be parsed, `LimitExceeded` if it has too many values.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        _refuse_bomb(text)
        value = _parse_text(text)
        if "\\u" in text:
            _write(value, bare=False).encode()  # an escaped half of a surrogate pair is no text
        return _References(value).resolve(value) if '"$ref"' in text else value
    except (ValueError, RecursionError) as cause:
        raise MalformedFrame(f"unreadable JSON: {cause}") from cause


def parse_queue(text: str) -> MessageQueue:
    """Return the queue that a JSON text describes: `parse` returns map keys that are queues as such texts."""
    return _known.queues.get(text) or _known.add(text, queue_of(parse(text)))


class _KnownQueues:
    """A cache of parsed queues by their JSON texts: a broker names the same queues in every response.

    The cache is emptied when its texts become too long in total.
    """

    def __init__(self) -> None:
        self.queues: dict[str, MessageQueue] = {}
        self._characters = 0

    def add(self, text: str, queue: MessageQueue) -> MessageQueue:
        """Return the queue; cache it before, unless its JSON text is very long."""
        if len(text) <= _LONGEST_KEY:
            if self._characters > _MOST_CACHED_CHARACTERS:
                self.queues, self._characters = {}, 0
            self.queues[text] = queue
            self._characters += len(text)
        return queue


_known = _KnownQueues()


def queue_of(value: Any) -> MessageQueue:
    """Return the queue that a parsed JSON object describes; raise `MalformedFrame` if it is no queue."""
    try:
        return MessageQueue(str(value["topic"]), str(value["brokerName"]), _read_queue_id(value["queueId"]))
    except (LookupError, TypeError, ValueError) as cause:
        raise MalformedFrame(f"not a queue: {shorten(value)}") from cause


def _read_queue_id(value: object) -> int:
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise ValueError("the queue id is no 32-bit integer")
    return value


def write(value: Any, *, bare_integer_keys: bool = False) -> bytes:
    """Return the value as a fastjson text; maps may have queues as keys.

    `bare_integer_keys` writes integer keys without quotes.
    """
    return _write(value, bare_integer_keys).encode()


# --- reading ---------------------------------------------------------------------------------------------------------


def _parse_text(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        return _DECODER.decode(_BARE_KEY.sub(_quote, text))


def _read_float(text: str) -> float:
    """Return a number with a fraction or exponent; raise `ValueError` if it is larger than a Java double can be."""
    if math.isinf(value := float(text)):
        raise ValueError(f"{text:.60} is too large a number")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_float=_read_float, parse_constant=_refuse_constant)


def _quote(match: re.Match[str]) -> str:
    return match["before"] + json.dumps(match["key"]) if match["key"] else match[0]


def _refuse_bomb(text: str) -> None:
    """Raise `LimitExceeded` for a text that would become too many Python objects when it is parsed."""
    if len(text) > MOST_PARTS:
        parts = text.count(",") + text.count("[") + text.count("{") + text.count('"') // 2
        if parts > MOST_PARTS:
            raise _too_many(f"a JSON text of {len(text)} characters holds {parts} values")


def _too_many(what: str) -> LimitExceeded:
    advice = "reduce what the server lists (queues, topics, groups); larger responses are not read"
    return LimitExceeded(f"{what}, the limit is {MOST_PARTS}", advice=advice)


class _References:
    """Replaces the references in a parsed value (`{"$ref":"$.a.b"}`) by the values to which they lead.

    All references together may add at most `MOST_PARTS` values; a value counts again with each reference to it.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = MOST_PARTS
        self._sizes: dict[int, int] = {}
        """Number of values in each target, by the target's `id`.

        Ids stay valid because the root keeps all targets alive.
        """

    def resolve(self, value: Any) -> Any:
        """Return a copy of the value in which each reference is replaced by its target."""
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"$ref"}:
            return self._target(str(value["$ref"]))
        return {key: self.resolve(item) for key, item in value.items()}

    def _target(self, path: str) -> Any:
        target = _follow(path, self._root)
        if id(target) not in self._sizes:
            self._sizes[id(target)] = _count(target)
        self._left -= self._sizes[id(target)]
        if self._left < 0:
            raise _too_many(f"JSON with references to more values ({path:.100} is one of them)")
        return target


def _count(value: Any) -> int:
    """Return the number of values inside a value, counting the value itself and all nested ones."""
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _follow(path: str, root: Any) -> Any:
    value, at = root, 1
    try:
        while at < len(path) and (step := _REFERENCE_STEP.match(path, at)):
            name = re.sub(r"\\(.)", r"\1", step[1] or step[2] or step[4])
            value = value[int(name) if isinstance(value, list) else name]
            at = step.end()
    except (LookupError, TypeError, ValueError) as cause:
        raise ValueError(f"reference {path:.100} leads to no value") from cause
    if not path.startswith("$") or at != len(path):
        raise ValueError(f"reference {path:.100} cannot be followed")
    return value


# --- writing ---------------------------------------------------------------------------------------------------------

_write_scalar = json.JSONEncoder(ensure_ascii=False).encode


def _write(value: Any, bare: bool) -> str:
    if isinstance(value, MessageQueue):
        value = {"brokerName": value.broker_name, "queueId": value.queue_id, "topic": value.topic}
    if isinstance(value, dict):
        return "{" + ",".join(f"{_write_key(key, bare)}:{_write(item, bare)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_write(item, bare) for item in value) + "]"
    return str(value) if type(value) is int else _write_scalar(value)


def _write_key(key: Any, bare: bool) -> str:
    if isinstance(key, int) and not bare:
        return f'"{key}"'
    return _write(key, bare)
