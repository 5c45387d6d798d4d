"""Convert times and durations in milliseconds to and from messages of the gRPC API."""

from __future__ import annotations

from typing import Any

from .schema import message_class

__all__ = ["from_duration", "from_timestamp", "to_duration", "to_timestamp"]

_Timestamp, _Duration = (message_class(name, "google.protobuf") for name in ("Timestamp", "Duration"))


def to_timestamp(ms: int) -> Any:
    """Return a Timestamp message, given milliseconds since 1970."""
    time = _Timestamp()
    time.FromMilliseconds(ms)
    return time


def from_timestamp(time: Any) -> int:
    """Return the milliseconds since 1970 of a Timestamp message."""
    return int(time.ToMilliseconds())


def to_duration(ms: int) -> Any:
    """Return a Duration message, given milliseconds."""
    duration = _Duration()
    duration.FromMilliseconds(ms)
    return duration


def from_duration(duration: Any) -> int:
    """Return the milliseconds of a Duration message."""
    return int(duration.ToMilliseconds())
