"""Where does the user wish to start or stop, queue by queue?

A wish is a list of layers, highest rank first. Each layer is one option and names a target for every queue or for
some. A queue takes the first target that has an answer: a queue the JSON leaves out, or one whose group never
committed, falls through to the next layer. So precedence is the order of a tuple and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from ..errors import OptionError
from ..model import MessageQueue
from .strict_json import is_integer, is_queue_id, parse_json, shorten
from .times import LAST_OFFSET, parse_time_ms

__all__ = [
    "AtTime",
    "EndSettings",
    "Everywhere",
    "Keyword",
    "Layer",
    "QueueTree",
    "RequestedOffsets",
    "StartSettings",
    "Target",
    "parse_offsets",
    "parse_times",
]

ANY = "*"
_SHAPE = '{"topic": {"broker": {"queue id": ...}}}'


class Keyword(Enum):
    """A bound that only the cluster knows; the value is the number that stands for it in JSON."""

    EARLIEST = -2
    LATEST = -1
    GROUP = -3

    def __str__(self) -> str:
        return self.name.lower()


class AtTime(NamedTuple):
    """The first message stored at or after this time."""

    time_ms: int


Target = int | Keyword | AtTime
"""An offset, or how to find one."""


class Layer(Protocol):
    """One option's say."""

    @property
    def option(self) -> str:
        """The option's name."""

    def target(self, queue: MessageQueue) -> Target | None:
        """What the option wishes for a queue, if anything."""

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Refuse names that no queue bears."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """One target for all queues."""

    option: str
    wished: Target

    def target(self, queue: MessageQueue) -> Target:
        """The target."""
        return self.wished

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Names nothing."""


class _Place(NamedTuple):
    """A queue, or with `*` all other ids or brokers."""

    topic: str
    broker_name: str
    queue_id: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class QueueTree:
    """Targets by topic, broker and queue id; what is named exactly outranks `*` ids, these outrank `*` brokers."""

    option: str
    targets: Mapping[_Place, Target]

    def target(self, queue: MessageQueue) -> Target | None:
        """The most exact entry for a queue."""
        for place in _places(queue):
            if place in self.targets:
                return self.targets[place]
        return None

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Refuse a topic, broker or id that no queue bears."""
        known = {place for queue in queues for place in _places(queue)}
        for place in self.targets:
            if place not in known:
                raise OptionError(self.option, str(place), _describe_unknown(place, known), advice="leave it out")

    def uses(self, keyword: Keyword) -> bool:
        """Whether some queue is given this sentinel."""
        return keyword in self.targets.values()


def _places(queue: MessageQueue) -> tuple[_Place, _Place, _Place, _Place]:
    topic, broker_name, number = queue
    queue_id = str(number)
    return (
        _Place(topic, broker_name, queue_id),
        _Place(topic, broker_name, ANY),
        _Place(topic, ANY, queue_id),
        _Place(topic, ANY, ANY),
    )


def _describe_unknown(place: _Place, known: set[_Place]) -> str:
    if _Place(place.topic, ANY, ANY) not in known:
        return f"topic {place.topic} is not read here"
    if _Place(place.topic, place.broker_name, ANY) not in known:
        return f"topic {place.topic} has no queue on broker {place.broker_name}"
    return f"there is no queue {place.queue_id}"


@dataclass(frozen=True, slots=True)
class RequestedOffsets:
    """Layers by rank; then what queues get that no layer answers, or whose messages are all too old (nothing: fail)."""

    option: str
    layers: tuple[Layer, ...]
    fallback: Keyword | None = None
    if_too_young: Keyword | None = None
    retry_topic: str | None = None
    """The group's retry topic, of which nothing may be left out unless an entry of its own says so."""

    def target(self, layer: Layer, queue: MessageQueue) -> Target | None:
        """What a layer wishes for a queue; of retries, "latest" and times for all topics would lose some."""
        target = layer.target(queue)
        is_general = queue.topic == self.retry_topic and isinstance(layer, Everywhere)
        return None if is_general and target not in (Keyword.EARLIEST, Keyword.GROUP) else target

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Refuse names that no queue bears, in every layer."""
        for layer in self.layers:
            layer.require_known(queues)


@dataclass(frozen=True, slots=True)
class StartSettings:
    """The options that say where a query without checkpoint starts."""

    offsets: Keyword | QueueTree = Keyword.LATEST
    default: Keyword | None = None
    time_ms: int | None = None
    times: QueueTree | None = None
    if_too_young: Keyword | None = None
    retry_topic: str | None = None

    @property
    def requested(self) -> RequestedOffsets:
        """Committed positions, if the group is asked, outrank times; times outrank offsets; the default comes last."""
        offsets = _offset_layer("startingOffsets", self.offsets)
        times = _time_layers("startingTimestamp", self.time_ms, self.times)
        layers = [offsets, *times] if self.offsets is Keyword.GROUP else [*times, offsets]
        return RequestedOffsets("startingOffsets", tuple(layers), self.default, self.if_too_young, self.retry_topic)


@dataclass(frozen=True, slots=True)
class EndSettings:
    """The options that say where a batch read stops; queues they leave out are read to their latest offset."""

    offsets: Keyword | QueueTree = Keyword.LATEST
    time_ms: int | None = None
    times: QueueTree | None = None

    @property
    def requested(self) -> RequestedOffsets:
        """Times outrank offsets."""
        times = _time_layers("endingTimestamp", self.time_ms, self.times)
        offsets = _offset_layer("endingOffsets", self.offsets)
        return RequestedOffsets(
            "endingOffsets", (*times, offsets), fallback=Keyword.LATEST, if_too_young=Keyword.LATEST
        )


def _offset_layer(option: str, offsets: Keyword | QueueTree) -> Layer:
    return Everywhere(option, offsets) if isinstance(offsets, Keyword) else offsets


def _time_layers(option: str, time_ms: int | None, times: QueueTree | None) -> list[Layer]:
    everywhere: list[Layer] = [] if time_ms is None else [Everywhere(option, AtTime(time_ms))]
    return everywhere if times is None else [*everywhere, times]


# --- text ----------------------------------------------------------------------------------------------------------


def parse_offsets(text: str, option: str, accepted: Collection[Keyword] = tuple(Keyword)) -> Keyword | QueueTree:
    """Read a keyword, or JSON topic → broker → queue id → offset; `accepted` holds for keywords and sentinels."""
    word = text.strip()
    keywords = {str(keyword): keyword for keyword in accepted}
    if word.lower() in keywords:
        return keywords[word.lower()]
    if not word.startswith("{"):
        raise OptionError(option, shorten(text), "unknown", advice=f"give {', '.join(keywords)}, or JSON {_SHAPE}")
    sentinels = {keyword.value: keyword for keyword in accepted}
    meanings = ", ".join(f"{number} ({keyword})" for number, keyword in sentinels.items())
    reader = _TreeReader(option, word, lambda leaf: _read_offset(leaf, sentinels), f"an offset from 0, or {meanings}")
    return reader.read(parse_json(word, option))


def parse_times(text: str, option: str, *, now_ms: int) -> QueueTree:
    """Read JSON topic → time, or topic → broker → queue id → time."""
    tree = parse_json(text, option)
    if isinstance(tree, dict):
        tree = {topic: below if isinstance(below, dict) else {ANY: {ANY: below}} for topic, below in tree.items()}
    accepted = 'milliseconds since 1970, or text: "2026-01-31T00:00:00Z", "-2h"'
    return _TreeReader(option, text, lambda leaf: _read_time(leaf, option, now_ms), accepted).read(tree)


def _read_offset(leaf: Any, sentinels: Mapping[int, Keyword]) -> Target | None:
    if is_integer(leaf, 0, LAST_OFFSET):
        return int(leaf)
    return sentinels.get(leaf) if is_integer(leaf, -LAST_OFFSET, -1) else None


def _read_time(leaf: Any, option: str, now_ms: int) -> Target | None:
    """A negative number is refused: -1 and -2 are sentinels everywhere else."""
    if isinstance(leaf, str):
        return AtTime(parse_time_ms(leaf, option, now_ms=now_ms))
    return AtTime(leaf) if is_integer(leaf, 0, LAST_OFFSET) else None


@dataclass(frozen=True, slots=True)
class _TreeReader:
    """Reads topic → broker → queue id → leaf."""

    option: str
    text: str
    read_leaf: Callable[[Any], Target | None]
    accepted: str

    def read(self, tree: Any) -> QueueTree:
        return QueueTree(self.option, {place: self._leaf(place, leaf) for place, leaf in self._leaves(tree)})

    def _leaves(self, tree: Any) -> Iterator[tuple[_Place, Any]]:
        for topic, brokers in self._object(tree, "the value").items():
            for broker_name, ids in self._object(brokers, topic).items():
                if not isinstance(ids, dict):
                    raise self._refuse(f"{topic}/{broker_name} is no object", _name_brokers(tree))
                for queue_id, leaf in ids.items():
                    yield self._place(topic, broker_name, queue_id), leaf

    def _object(self, value: Any, what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._refuse(f"{what} is no object", f"give {_SHAPE}")
        return value

    def _place(self, topic: str, broker_name: str, queue_id: str) -> _Place:
        if queue_id != ANY and not is_queue_id(queue_id):
            raise self._refuse(f"{topic}/{broker_name}/{queue_id} is no queue", 'queue ids are "0", "1", … or "*"')
        return _Place(topic, broker_name, queue_id)

    def _leaf(self, place: _Place, leaf: Any) -> Target:
        target = self.read_leaf(leaf)
        if target is None:
            raise self._refuse(f"{place} is {shorten(json.dumps(leaf))}", f"give {self.accepted}")
        return target

    def _refuse(self, what: str, advice: str) -> OptionError:
        return OptionError(self.option, shorten(self.text), what, advice=advice)


def _name_brokers(tree: Mapping[str, Any]) -> str:
    """Advice for offsets in the two levels of Kafka: the same positions, for whichever broker."""
    named = {
        topic: below
        if isinstance(below, dict) and any(isinstance(ids, dict) for ids in below.values())
        else {ANY: below}
        for topic, below in tree.items()
    }
    return f"queue ids repeat on every broker, so name the broker, or * for all: {shorten(json.dumps(named))}"
