"""How is the JSON of Java's fastjson read and written?

It departs from JSON in its keys. Maps keyed by a number may leave the number bare (`{0:"10.0.0.1:10911"}`), maps
keyed by a queue have a whole object as key (`{{"brokerName":"b","queueId":0,"topic":"T"}:7}`), and a Java object met
a second time is written as a reference to the first (`{"$ref":"$.a.b"}`).

So `parse` quotes such keys and lets Python's parser do the rest: a number comes out as its text, an object as
its JSON text (`MessageQueue` keys are read with `parse_queue`). `write` is the reverse, for values whose keys
are text, numbers or queues.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from ..errors import MalformedFrame
from ..model import MessageQueue

# Strings are matched first, so that nothing inside them is taken for a key. No part can match in two ways, and
# an unclosed string matches to the end: the time is linear for any input.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_OBJECT = rf"\{{(?:[^{{}}\"]|{_STRING})*+\}}"
_BARE_KEY = re.compile(rf"{_STRING}|(?P<before>[{{,]\s*+)(?P<key>-?\d++|{_OBJECT})(?=\s*:)", re.DOTALL)
_REFERENCE_STEP = re.compile(r"\.((?:\\.|[^.\[\\])+)|\[(\d+)\]|\[([\"'])(.*?)\3\]")


def parse(data: bytes | memoryview | str) -> Any:
    """Read fastjson's text; what cannot be read is a `MalformedFrame`."""
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        value = _parse_text(text)
        return _resolve(value, value) if '"$ref"' in text else value
    except (ValueError, RecursionError) as cause:
        raise MalformedFrame(f"unreadable JSON: {cause}") from cause


@lru_cache(maxsize=2**15)  # A broker names the same queues in every answer.
def parse_queue(text: str) -> MessageQueue:
    """Read a queue that was the key of a map."""
    return queue_of(parse(text))


def queue_of(value: Any) -> MessageQueue:
    """The queue that a parsed object describes."""
    try:
        queue = MessageQueue(str(value["topic"]), str(value["brokerName"]), int(value["queueId"]))
    except (LookupError, TypeError, ValueError) as cause:
        raise MalformedFrame(f"not a queue: {value!r:.200}") from cause
    return queue


def write(value: Any, *, bare_integer_keys: bool = False) -> bytes:
    """Write text that fastjson reads; queues may be keys."""
    return _write(value, bare_integer_keys).encode()


# --- reading ---------------------------------------------------------------------------------------------------------


def _parse_text(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(_BARE_KEY.sub(_quote, text))


def _quote(match: re.Match[str]) -> str:
    return match["before"] + json.dumps(match["key"]) if match["key"] else match[0]


def _resolve(value: Any, root: Any) -> Any:
    """The value with each reference replaced by what it points at."""
    if isinstance(value, list):
        return [_resolve(item, root) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$ref"}:
        return _follow(str(value["$ref"]), root)
    return {key: _resolve(item, root) for key, item in value.items()}


def _follow(path: str, root: Any) -> Any:
    value, at = root, 1
    try:
        while at < len(path) and (step := _REFERENCE_STEP.match(path, at)):
            name = re.sub(r"\\(.)", r"\1", step[1] or step[2] or step[4])
            value = value[int(name) if isinstance(value, list) else name]
            at = step.end()
    except (LookupError, TypeError, ValueError) as cause:
        raise ValueError(f"reference {path:.100} points at nothing") from cause
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
