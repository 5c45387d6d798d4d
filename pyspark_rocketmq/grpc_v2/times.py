"""Convert milliseconds to and from the API's messages for times."""

from __future__ import annotations

from typing import Any

from .schema import message_class

__all__ = ["from_duration", "from_timestamp", "to_duration", "to_timestamp"]

_Timestamp, _Duration = (message_class(name, "google.protobuf") for name in ("Timestamp", "Duration"))


def to_timestamp(ms: int) -> Any:
    """Return a point in time."""
    time = _Timestamp()
    time.FromMilliseconds(ms)
    return time


def from_timestamp(time: Any) -> int:
    """Return the milliseconds of a point in time."""
    return int(time.ToMilliseconds())


def to_duration(ms: int) -> Any:
    """Return a span of time."""
    duration = _Duration()
    duration.FromMilliseconds(ms)
    return duration


def from_duration(duration: Any) -> int:
    """Return the milliseconds of a span of time."""
    return int(duration.ToMilliseconds())
