"""Hold the lag of queues and its total, as figures that are known, or unknown with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from ..errors import RocketMQError

__all__ = ["Figure", "Lag", "QueueLag", "Total", "TotalLag"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, or the reason why it is unknown; without both, there is nothing to measure."""

    value: int | float | None = None
    unknown: str | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether there is a number that is not known."""
        return self.unknown is not None


@dataclass(frozen=True, slots=True)
class QueueLag:
    """The lag of one queue."""

    topic: str
    broker: str
    queue_id: int
    position: Figure
    """The next offset to read."""
    end: Figure
    """The offset that the next message gets."""
    messages: Figure
    """Offsets from the position to the end."""
    gone: Figure
    """Offsets after the position whose messages are deleted already; they count in `messages`, too."""
    bytes: Figure
    """An estimate: messages, times the mean stored size of the next ones of the topic at the broker."""
    seconds: Figure
    """Age of the next message by its store time and the broker's clock; 0 if none waits or is left."""
    retention_seconds: Figure
    """Seconds until the broker may delete the next message, by its age and the broker's settings.

    It is 0 if the broker has deleted the message or deletes messages of any age, because its disk is nearly full. There
    is no value if no message waits.
    """


@dataclass(frozen=True, slots=True)
class Total:
    """A figure of all queues together; with both a value and a reason, the value is a bound.

    It has no value if nothing is known, or if there is nothing to measure.
    """

    value: int | float | None = None
    unknown: str | None = None
    """The reason why a part of the figure is unknown; none if all parts are known."""
    unknown_queues: int = 0
    """Number of queues whose part is unknown."""

    @property
    def is_bound(self) -> bool:
        """Whether the true figure may be worse than the value."""
        return self.value is not None and self.unknown is not None

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known of the figure."""
        return self.value is None and self.unknown is not None


@dataclass(frozen=True, slots=True)
class TotalLag:
    """The lag of all queues."""

    queues: int
    messages: Total
    gone: Total
    bytes: Total
    seconds: Total
    """The largest of all queues."""
    retention_seconds: Total
    """The smallest of all queues."""

    @property
    def unknown_queues(self) -> int:
        """The number of queues whose messages are unknown."""
        return self.messages.unknown_queues

    @classmethod
    def of(cls, queues: Iterable[QueueLag], missing: str | None = None) -> Self:
        """Return the total of these queues; `missing` is the reason why others are missing."""
        queues = tuple(queues)
        return cls(
            queues=len(queues),
            messages=_total(sum, [each.messages for each in queues], missing),
            gone=_total(sum, [each.gone for each in queues], missing),
            bytes=_total(sum, [each.bytes for each in queues], missing),
            seconds=_total(_largest, [each.seconds for each in queues], missing),
            retention_seconds=_total(_smallest, [each.retention_seconds for each in queues], missing),
        )


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a group or a query at one moment."""

    queues: tuple[QueueLag, ...]
    total: TotalLag
    unanswered: Mapping[str, RocketMQError] = field(default_factory=dict)
    """The errors of brokers that did not answer, by name; they may have more queues than those that are known."""
    without_clock: Mapping[str, RocketMQError] = field(default_factory=dict)
    """The errors of brokers that did not tell their time, by name; ages there are by the clock of this machine."""


_Numbers = list[int | float]


def _total(combine: Callable[[_Numbers], int | float | None], figures: list[Figure], missing: str | None) -> Total:
    """Return the combination of the known figures, with the first reason why it is not complete."""
    known = [each.value for each in figures if each.value is not None]
    unknown = [each.unknown for each in figures if each.unknown is not None]
    why = next(iter(unknown), missing)
    # Without a known figure, a sum of 0 would be a lie unless there is nothing that could be unknown.
    return Total(combine(known) if known or why is None else None, why, len(unknown))


def _largest(numbers: _Numbers) -> int | float | None:
    return max(numbers, default=None)


def _smallest(numbers: _Numbers) -> int | float | None:
    return min(numbers, default=None)
