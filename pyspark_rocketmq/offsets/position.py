"""Hold a query's position, and write it as canonical JSON.

Spark keeps an offset per batch in its log and compares offsets as text. So equal positions are written as equal text:
keys are sorted by code point at every level. The JSON object has these keys:

    next     topic → broker → queue id → the next offset to read
    begin    as `next`, the starts of queues whose range does not start at the previous offset's `next`: queues that are
             new, moved by a loss, or gained from another group member; left out when empty
    group    the group whose position is committed, if one is
    open     as `next`, for queues of which nothing was read before this batch and that begin at their first readable
             message: messages missing at the front of a range that begins there are no loss; left out when empty
    version  2 with `open`, which came with that version; else 1, so that earlier releases can read it

An object with nothing but a version is the sentinel: no offset is resolved yet. In Python it is `None`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..errors import MalformedFrame, OptionError
from ..model import MessageQueue, QueueRange
from .strict_json import LAST_OFFSET, is_integer, is_queue_id, parse_json, shorten

__all__ = ["SENTINEL", "Position", "Positions", "advance", "batch_ranges", "parse_position", "position_json"]

Positions = Mapping[MessageQueue, int]
"""The next offset to read of each queue."""

VERSION = 2
_VERSION_WITHOUT_OPEN = 1
SENTINEL: Mapping[str, Any] = {"version": _VERSION_WITHOUT_OPEN}
_KEYS = {"begin", "group", "next", "open", "version"}
_OPTION = "checkpointLocation"
_NOT_LOGGED = "it is not written to the checkpoint; check the brokers, and start the query again"


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a query between two batches, which Spark calls an offset."""

    next: Positions
    begin: Positions = field(default_factory=dict)
    group: str | None = None
    open: Positions = field(default_factory=dict)

    @property
    def still_open(self) -> Positions:
        """The offset of the first readable message of each queue that begins there and of which nothing is read yet."""
        return {queue: offset for queue, offset in self.open.items() if self.next.get(queue) == offset}

    def __str__(self) -> str:
        return json.dumps(position_json(self))


def advance(
    previous: Position | None,
    starts: Positions,
    ends: Positions,
    group: str | None = None,
    opened: Positions = MappingProxyType({}),
) -> Position:
    """Return the position after a batch from `starts` to `ends`; return `previous` itself if nothing changes.

    `group` is the group whose positions the query commits. `opened` has first readable offsets; it counts for queues
    that start there. Raise `MalformedFrame` if a start or end is no offset, for example negative.
    """
    begin = {queue: start for queue, start in starts.items() if previous is None or previous.next.get(queue) != start}
    if previous is not None and not begin and ends == previous.next:
        return previous
    for queue, offset in (*begin.items(), *ends.items()):
        if not 0 <= offset <= LAST_OFFSET:
            raise MalformedFrame(f"{queue} is at {offset}, which is not an offset", advice=_NOT_LOGGED)
    return Position(ends, begin, group, {queue: at for queue, at in opened.items() if starts.get(queue) == at})


def batch_ranges(start: Position | None, end: Position) -> list[QueueRange]:
    """Return the ranges between two positions, in the order of `end`, without empty ones.

    Raise `OptionError` for an end without a start or below its start: no query can have logged such positions.
    """
    known = {**(start.next if start else {}), **end.begin}
    ranges = [_range_to(queue, stop, known, end.open) for queue, stop in end.next.items()]
    for queue, first, stop, _ in ranges:
        if stop < first:
            raise _refuse(str(end), f"the end {stop} of {queue} lies below its start {first}")
    return [each for each in ranges if each.offset_count]


def _range_to(queue: MessageQueue, stop: int, known: Positions, opened: Positions) -> QueueRange:
    if queue not in known:
        raise _refuse(str(queue), "an end without a start")
    return QueueRange(queue, known[queue], stop, opened.get(queue) == known[queue])


# --- JSON ----------------------------------------------------------------------------------------------------------


def position_json(position: Position | None) -> dict[str, Any]:
    """Return a position as a JSON object with sorted keys; Spark writes it by `json.dumps`, which keeps their order."""
    if position is None:
        return dict(SENTINEL)
    value: dict[str, Any] = {}
    if position.begin:
        value["begin"] = _nest(position.begin)
    if position.group is not None:
        value["group"] = position.group
    value["next"] = _nest(position.next)
    if position.open:
        value["open"] = _nest(position.open)
    return {**value, "version": VERSION if position.open else _VERSION_WITHOUT_OPEN}


def parse_position(stored: str | Mapping[str, Any]) -> Position | None:
    """Return the position that Spark's log stores as JSON, given as text or as a parsed object.

    Return None for the object that stands for "no position yet". Raise `OptionError` if the position cannot be read,
    or was written by a newer release.
    """
    value = parse_json(stored, _OPTION) if isinstance(stored, str) else stored
    text = stored if isinstance(stored, str) else json.dumps(stored)
    try:
        return _read_position(value)
    except ValueError as error:
        raise _refuse(text, str(error)) from error


def _nest(positions: Positions) -> dict[str, dict[str, dict[str, int]]]:
    tree: dict[str, dict[str, dict[str, int]]] = {}
    rows = [(queue.topic, queue.broker_name, str(queue.queue_id), offset) for queue, offset in positions.items()]
    for topic, broker_name, queue_id, offset in sorted(rows):
        tree.setdefault(topic, {}).setdefault(broker_name, {})[queue_id] = offset
    return tree


def _read_position(value: Any) -> Position | None:
    """Return the position in a parsed JSON value, or None if it says "no position yet"; raise ValueError otherwise."""
    value = _require_object(value, "the offset")
    _require_version(value.get("version"))
    if unknown := sorted(value.keys() - _KEYS):
        raise ValueError(f"unknown key {unknown[0]!r}")
    if value.keys() == {"version"}:
        return None
    if "next" not in value:
        raise ValueError("'next' is missing")
    if not isinstance(value.get("group", ""), str):
        raise ValueError("'group' is not text")
    begin, opened = _flatten(value.get("begin", {})), _flatten(value.get("open", {}))
    return Position(_flatten(value["next"]), begin, value.get("group"), opened)


def _require_version(version: Any) -> None:
    if not is_integer(version, 1, LAST_OFFSET):
        raise ValueError("no version")
    if version > VERSION:
        raise ValueError(f"written by a newer release (version {version}, this release reads {VERSION})")


def _flatten(tree: Any) -> dict[MessageQueue, int]:
    positions = {}
    for topic, brokers in _require_object(tree, "positions").items():
        for broker_name, ids in _require_object(brokers, topic).items():
            for key, offset in _require_object(ids, f"{topic}/{broker_name}").items():
                if not is_queue_id(key) or not is_integer(offset, 0, LAST_OFFSET):
                    raise ValueError(f"{topic}/{broker_name}/{key} is {json.dumps(offset)}, no position")
                positions[MessageQueue(topic, broker_name, int(key))] = offset
    return positions


def _require_object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is not an object")
    return value


def _refuse(text: str, what: str) -> OptionError:
    advice = "use the release that wrote this checkpoint, or a new checkpoint with startingOffsets"
    return OptionError(_OPTION, shorten(text), what, advice=advice)
