"""Hold the lag of queues and its total, as figures that are known, or unknown with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

__all__ = ["Figure", "Lag", "QueueLag", "TotalLag"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, or the reason why it is unknown; without both, there is nothing to measure."""

    value: int | float | None = None
    unknown: str | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether there is a number that could not be had."""
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
    """Age of the next message by its store time and the clock of this machine; 0 if none waits."""
    retention_seconds: Figure
    """Seconds until the broker may delete the next message because of its age; no value if none waits."""


@dataclass(frozen=True, slots=True)
class TotalLag:
    """The lag of all queues whose figures are known; `unknown_queues` says how many are left out of `messages`."""

    queues: int
    unknown_queues: int
    messages: int
    gone: int
    bytes: int
    seconds: Figure
    """The largest of all queues."""
    retention_seconds: Figure
    """The smallest of all queues."""

    @classmethod
    def of(cls, queues: Iterable[QueueLag]) -> Self:
        """Return the total of these queues."""
        queues = tuple(queues)
        return cls(
            queues=len(queues),
            unknown_queues=sum(each.messages.is_unknown for each in queues),
            messages=int(sum(each.messages.value or 0 for each in queues)),
            gone=int(sum(each.gone.value or 0 for each in queues)),
            bytes=int(sum(each.bytes.value or 0 for each in queues)),
            seconds=_extreme(max, [each.seconds for each in queues]),
            retention_seconds=_extreme(min, [each.retention_seconds for each in queues]),
        )


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a group or a query at one moment."""

    queues: tuple[QueueLag, ...]
    total: TotalLag


def _extreme(choose: Callable[[list[int | float]], int | float], figures: list[Figure]) -> Figure:
    """Return the largest or smallest known figure; unknown if none is known and one is unknown."""
    if known := [each.value for each in figures if each.value is not None]:
        return Figure(choose(known))
    return Figure(unknown=next((each.unknown for each in figures if each.is_unknown), None))
