"""Define the values that the results of several commands have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["Moment", "Trouble", "moment", "trouble", "troubles_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in milliseconds since 1970 and in ISO 8601."""

    ms: int
    iso: str | None
    """None for a time that no calendar has."""

    def __str__(self) -> str:
        return self.iso or str(self.ms)


def moment(time_ms: int) -> Moment:
    """Return a time that is given in milliseconds since 1970."""
    try:
        then = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return Moment(time_ms, None)
    return Moment(time_ms, then.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


@dataclass(frozen=True, slots=True)
class Trouble:
    """A missing part of a result, with the reason."""

    what: str
    """The part, for example a broker."""
    code: str
    why: str


def trouble(what: str, error: Exception) -> Trouble:
    """Return the trouble of a part of a result that is missing because of an error."""
    return Trouble(what, getattr(error, "code", type(error).__name__), str(error))


def troubles_of(found: Mapping[str, object]) -> tuple[Trouble, ...]:
    """Return the brokers of a survey that did not answer, with the reasons."""
    return tuple(trouble(name, each) for name, each in found.items() if isinstance(each, Exception))
