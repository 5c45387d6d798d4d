"""Where does the user wish to start or stop, queue by queue?

A wish is a list of layers, highest rank first. Each layer is one option and names a target for every queue or for
some. A queue takes the first target that has an answer: a queue the JSON leaves out, or one whose group never
committed, falls through to the next layer. So precedence is the order of a tuple and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from ..errors import OptionError
from ..model import MessageQueue

ANY = "*"


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


class QueuePlace(NamedTuple):
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
    targets: Mapping[QueuePlace, Target]

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


def _places(queue: MessageQueue) -> tuple[QueuePlace, QueuePlace, QueuePlace, QueuePlace]:
    topic, broker_name, number = queue
    queue_id = str(number)
    return (
        QueuePlace(topic, broker_name, queue_id),
        QueuePlace(topic, broker_name, ANY),
        QueuePlace(topic, ANY, queue_id),
        QueuePlace(topic, ANY, ANY),
    )


def _describe_unknown(place: QueuePlace, known: set[QueuePlace]) -> str:
    if QueuePlace(place.topic, ANY, ANY) not in known:
        return f"topic {place.topic} is not read here"
    if QueuePlace(place.topic, place.broker_name, ANY) not in known:
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
