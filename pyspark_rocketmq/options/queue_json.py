"""Read JSON that names queues: offsets and times by queue, and lists of queues.

Offsets and times have the levels topic → broker → queue id. `assign` is one object: topic → `"*"`, or topic → broker →
queue ids or `"*"`; `messageQueueList` is an array of such objects, one for each slot of the
allocation strategy CONFIG.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import OptionError
from ..model import MessageQueue
from ..offsets.requested import ANY, AtTime, Keyword, QueuePlace, QueueTree, Target
from ..offsets.strict_json import LAST_OFFSET, LAST_QUEUE_ID, is_integer, is_queue_id, parse_json, shorten
from ..planning.listed_queues import ListedQueues
from .values import OptionText, read_time_ms

__all__ = ["read_assignment", "read_offsets", "read_queue_lists", "read_times"]

_TREE_SHAPE = '{"topic": {"broker": {"queue id": ...}}}'
_LIST_SHAPE = '{"topic": {"broker": [0, 1]}}, with "*" for all brokers or queue ids'


# --- offsets and times by queue ---------------------------------------------------------------------------------------


def read_offsets(given: OptionText, accepted: Collection[Keyword] = tuple(Keyword)) -> Keyword | QueueTree:
    """Return the offsets that an option's text requests: one keyword for all queues, or JSON with offsets by queue.

    `accepted` are the keywords that may be used: as a word (`latest`), or inside JSON as a number (-1).
    """
    word = given.text.strip()
    keywords = {str(keyword): keyword for keyword in accepted}
    if word.lower() in keywords:
        return keywords[word.lower()]
    if not word.startswith("{"):
        advice = f"give {', '.join(keywords)}, or JSON {_TREE_SHAPE}"
        raise OptionError(given.option, shorten(given.text), "unknown", advice=advice)
    sentinels = {keyword.value: keyword for keyword in accepted}
    meanings = ", ".join(f"{number} ({keyword})" for number, keyword in sentinels.items())
    reader = _TreeReader(given, lambda leaf: _read_offset(leaf, sentinels), f"an offset from 0, or {meanings}")
    return reader.read(parse_json(word, given.option))


def read_times(given: OptionText) -> QueueTree:
    """Return the times that a JSON text requests by queue; one time may also stand for all queues of a topic."""
    tree = parse_json(given.text, given.option)
    if isinstance(tree, dict):
        tree = {topic: below if isinstance(below, dict) else {ANY: {ANY: below}} for topic, below in tree.items()}
    accepted = 'milliseconds since 1970, or text: "2026-01-31T00:00:00Z", "-2h"'
    return _TreeReader(given, lambda leaf: _read_time(leaf, given), accepted).read(tree)


def _read_offset(leaf: Any, sentinels: Mapping[int, Keyword]) -> Target | None:
    if is_integer(leaf, 0, LAST_OFFSET):
        return int(leaf)
    return sentinels.get(leaf) if is_integer(leaf, -LAST_OFFSET, -1) else None


def _read_time(leaf: Any, given: OptionText) -> Target | None:
    """Return the time that a JSON value states: a text, or milliseconds since 1970; None for any other value.

    A negative number is no time: where JSON gives offsets, such numbers stand for keywords (-1 is `latest`).
    """
    if isinstance(leaf, str):
        return AtTime(read_time_ms(given._replace(text=leaf)))
    return AtTime(leaf) if is_integer(leaf, 0, LAST_OFFSET) else None


@dataclass(frozen=True, slots=True)
class _TreeReader:
    """A reader of JSON objects with the levels topic → broker → queue id, and an offset or time below them."""

    given: OptionText
    read_leaf: Callable[[Any], Target | None]
    accepted: str

    def read(self, tree: Any) -> QueueTree:
        return QueueTree(self.given.option, {place: self._leaf(place, leaf) for place, leaf in self._leaves(tree)})

    def _leaves(self, tree: Any) -> Iterator[tuple[QueuePlace, Any]]:
        for topic, brokers in self._object(tree, "the value").items():
            for broker_name, ids in self._object(brokers, topic).items():
                if not isinstance(ids, dict):
                    raise self._refuse(f"{topic}/{broker_name} is not an object", _name_brokers(tree))
                for queue_id, leaf in ids.items():
                    yield self._place(topic, broker_name, queue_id), leaf

    def _object(self, value: Any, what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._refuse(f"{what} is not an object", f"give {_TREE_SHAPE}")
        return value

    def _place(self, topic: str, broker_name: str, queue_id: str) -> QueuePlace:
        if queue_id != ANY and not is_queue_id(queue_id):
            raise self._refuse(f"{topic}/{broker_name}/{queue_id} is no queue", 'queue ids are "0", "1", … or "*"')
        return QueuePlace(topic, broker_name, queue_id)

    def _leaf(self, place: QueuePlace, leaf: Any) -> Target:
        target = self.read_leaf(leaf)
        if target is None:
            raise self._refuse(f"{place} is {shorten(json.dumps(leaf))}", f"give {self.accepted}")
        return target

    def _refuse(self, what: str, advice: str) -> OptionError:
        return OptionError(self.given.option, shorten(self.given.text), what, advice=advice)


def _name_brokers(tree: Mapping[str, Any]) -> str:
    """Return advice for JSON that lacks the level of brokers, as in Kafka: the user's JSON with `*` in that place."""
    named = {
        topic: below
        if isinstance(below, dict) and any(isinstance(ids, dict) for ids in below.values())
        else {ANY: below}
        for topic, below in tree.items()
    }
    return f"queue ids repeat on every broker, so name the broker, or * for all: {shorten(json.dumps(named))}"


# --- lists of queues --------------------------------------------------------------------------------------------------


def read_assignment(given: OptionText) -> ListedQueues:
    """Return the queues that the JSON object of `assign` lists."""
    return _read_assignment(parse_json(given.text, given.option), given.option)


def read_queue_lists(given: OptionText) -> tuple[ListedQueues, ...]:
    """Return one list of queues for each object in the JSON array of `messageQueueList`."""
    value = parse_json(given.text, given.option)
    if not isinstance(value, list) or not value:
        raise OptionError(given.option, shorten(given.text), "not an array", advice=f"give [{_LIST_SHAPE}, ...]")
    return tuple(_read_assignment(each, given.option) for each in value)


def _read_assignment(value: Any, option: str) -> ListedQueues:
    queues: set[MessageQueue] = set()
    whole: set[tuple[str, str | None]] = set()
    for topic, brokers in _read_object(value, option):
        if brokers == ANY:
            whole.add((topic, None))
            continue
        for broker_name, ids in _read_object(brokers, option):
            if ids == ANY:
                whole.add((topic, broker_name))
            else:
                queues.update(MessageQueue(topic, broker_name, each) for each in _read_ids(ids, option))
    return ListedQueues(option, frozenset(queues), frozenset(whole))


def _read_object(value: Any, option: str) -> ItemsView[str, Any]:
    if not isinstance(value, dict) or not value:
        raise OptionError(option, shorten(str(value)), "not an object", advice=f"give {_LIST_SHAPE}")
    return value.items()


def _read_ids(value: Any, option: str) -> list[int]:
    well_formed = isinstance(value, list) and value and all(is_integer(each, 0, LAST_QUEUE_ID) for each in value)
    if not well_formed or len(set(value)) < len(value):
        raise OptionError(option, shorten(str(value)), "not a list of distinct queue ids", advice=f"give {_LIST_SHAPE}")
    return list(value)
