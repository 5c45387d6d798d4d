"""Convert times and durations in milliseconds to and from messages of the gRPC API."""

from __future__ import annotations

from typing import Any

from ..errors import MalformedFrame
from .schema import message_class

__all__ = ["from_duration", "from_timestamp", "to_duration", "to_timestamp"]

_Timestamp, _Duration = (message_class(name, "google.protobuf") for name in ("Timestamp", "Duration"))
_LONGEST_S = 315_576_000_000


def to_timestamp(ms: int) -> Any:
    """Return a Timestamp message, given milliseconds since 1970."""
    time = _Timestamp()
    time.FromMilliseconds(ms)
    return time


def from_timestamp(time: Any) -> int:
    """Return the milliseconds since 1970 of a Timestamp message; raise `MalformedFrame` outside the years 1 to 9999."""
    try:
        return int(time.ToMilliseconds())
    except ValueError as cause:
        raise _out_of_range(time) from cause


def to_duration(ms: int) -> Any:
    """Return a Duration message, given milliseconds."""
    duration = _Duration()
    duration.FromMilliseconds(ms)
    return duration


def from_duration(duration: Any) -> int:
    """Return the milliseconds of a Duration message; raise `MalformedFrame` above protobuf's 10,000 years."""
    if abs(duration.seconds) > _LONGEST_S or abs(duration.nanos) >= 10**9:
        raise _out_of_range(duration)
    return int(duration.ToMilliseconds())


def _out_of_range(message: Any) -> MalformedFrame:
    what = f"a {message.DESCRIPTOR.name} of {message.seconds} seconds and {message.nanos} nanoseconds"
    return MalformedFrame(f"{what}, which protobuf does not allow")
