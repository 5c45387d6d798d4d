"""How are milliseconds written?"""

from __future__ import annotations

from typing import Any

from .schema import message_class

__all__ = ["from_duration", "from_timestamp", "to_duration", "to_timestamp"]

_Timestamp, _Duration = (message_class(name, "google.protobuf") for name in ("Timestamp", "Duration"))


def to_timestamp(ms: int) -> Any:
    """A point in time."""
    time = _Timestamp()
    time.FromMilliseconds(ms)
    return time


def from_timestamp(time: Any) -> int:
    """Milliseconds of a point in time."""
    return int(time.ToMilliseconds())


def to_duration(ms: int) -> Any:
    """A length of time."""
    duration = _Duration()
    duration.FromMilliseconds(ms)
    return duration


def from_duration(duration: Any) -> int:
    """Milliseconds of a length of time."""
    return int(duration.ToMilliseconds())
