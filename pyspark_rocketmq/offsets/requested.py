"""Hold the offsets at which the user wants to start or stop, queue by queue.

The request is a list of *layers*, highest rank first. Each layer is one option; it names a target for every queue or
for some. A queue takes the first target that resolves to an offset: a queue that the JSON leaves out, or one that the
group never committed, falls through to the next layer. So precedence is the order of a tuple and nothing else.
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
    """A requested offset given as a word: `earliest`, `latest` or `group` (the group's position).

    In the user's JSON, the number of the enum is written instead of the word: -2, -1 or -3.
    """

    EARLIEST = -2
    LATEST = -1
    GROUP = -3

    def __str__(self) -> str:
        return self.name.lower()


class AtTime(NamedTuple):
    """A request for the first message stored at or after a time."""

    time_ms: int


Target = int | Keyword | AtTime
"""An offset, a keyword or a time that an option requests for a queue."""


class Layer(Protocol):
    """The targets that one option requests."""

    @property
    def option(self) -> str:
        """Name of the option."""

    def target(self, queue: MessageQueue) -> Target | None:
        """Return the target that the option requests for a queue; None if it requests none."""

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Raise `OptionError` if the option names a topic, broker or queue id that none of these queues has."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """An option that requests the same target for all queues."""

    option: str
    everywhere: Target

    def target(self, queue: MessageQueue) -> Target:
        """Return the target, which is the same for all queues."""
        return self.everywhere

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Do nothing: the option is for all queues and names none that could be unknown."""


class QueuePlace(NamedTuple):
    """A key of a `QueueTree`: topic, broker and queue id; `*` stands for brokers or ids without a key of their own."""

    topic: str
    broker_name: str
    queue_id: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class QueueTree:
    """An option that requests targets under keys of topic, broker and queue id, in which `*` stands for any.

    An exact key outranks one with `*` as id, which outranks one with `*` as broker.
    """

    option: str
    targets: Mapping[QueuePlace, Target]

    def target(self, queue: MessageQueue) -> Target | None:
        """Return the target that the option requests for a queue, by the most exact key that fits the queue.

        Return None if no key fits.
        """
        for place in _places(queue):
            if place in self.targets:
                return self.targets[place]
        return None

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Raise `OptionError` if a key names a topic, broker or queue id that none of these queues has."""
        known = {place for queue in queues for place in _places(queue)}
        for place in self.targets:
            if place not in known:
                raise OptionError(self.option, str(place), _describe_unknown(place, known), advice="leave it out")

    def uses(self, keyword: Keyword) -> bool:
        """Return whether this keyword is the target of some queue."""
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
    """The requested starts or ends: one layer for each option, highest rank first, and fallbacks.

    Fallbacks decide about queues for which no option yields an offset.
    """

    option: str
    layers: tuple[Layer, ...]
    fallback: Keyword | None = None
    """Keyword for queues that no option resolves; None: raise an error."""
    if_too_young: Keyword | None = None
    """Keyword for queues without a message at or after the requested time; None: raise an error."""
    retry_topic: str | None = None
    """The group's retry topic; its messages are skipped only if the user requests offsets for its queues by name."""

    def target(self, layer: Layer, queue: MessageQueue) -> Target | None:
        """Return the target that a layer (one option) requests for a queue; None if it requests none.

        In the retry topic, a time or "latest" for all topics does not count, since it would skip messages to retry.
        """
        target = layer.target(queue)
        is_general = queue.topic == self.retry_topic and isinstance(layer, Everywhere)
        return None if is_general and target not in (Keyword.EARLIEST, Keyword.GROUP) else target

    def require_known(self, queues: Collection[MessageQueue]) -> None:
        """Raise `OptionError` if an option names a topic, broker or queue id that none of these queues has."""
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
        """The requested starts: the group's position outranks times, and times outrank other offsets.

        Queues without any of these start as `startingOffsetsDefault` says.
        """
        offsets = _offset_layer("startingOffsets", self.offsets)
        times = _time_layers("startingTimestamp", self.time_ms, self.times)
        layers = [offsets, *times] if self.offsets is Keyword.GROUP else [*times, offsets]
        return RequestedOffsets("startingOffsets", tuple(layers), self.default, self.if_too_young, self.retry_topic)


@dataclass(frozen=True, slots=True)
class EndSettings:
    """The options that say where a batch read stops; queues that they leave out are read to their latest offset."""

    offsets: Keyword | QueueTree = Keyword.LATEST
    time_ms: int | None = None
    times: QueueTree | None = None

    @property
    def requested(self) -> RequestedOffsets:
        """The requested ends: times outrank offsets; the latest offset is the fallback."""
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
