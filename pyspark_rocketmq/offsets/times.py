"""Which moment, or how long, did the user mean?

A duration is an integer (milliseconds) with an optional unit. A time is milliseconds since 1970, ISO-8601 with a
zone, or a minus sign and a duration: so long before now.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ..errors import OptionError

__all__ = ["LAST_OFFSET", "parse_duration_ms", "parse_time_ms"]

LAST_OFFSET = 2**63 - 1
"""The largest Java long: bounds offsets and times alike."""

_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,19})\s*(ms|s|m|h|d|)", re.IGNORECASE)
_EPOCH_MS = re.compile(r"\+?[0-9]{1,19}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ACCEPTED = "give milliseconds since 1970, ISO-8601 with a zone (2026-01-31T00:00:00Z), or a time ago (-2h)"


def parse_duration_ms(text: str, option: str) -> int:
    """Read a duration such as `500`, `30s` or `2h`."""
    match = _DURATION.fullmatch(text.strip().removeprefix("+"))
    if match is None:
        raise OptionError(option, text, "no duration", advice="give milliseconds, or a number with ms, s, m, h or d")
    return int(match[1]) * _UNITS_MS[match[2].lower()]


def parse_time_ms(text: str, option: str, *, now_ms: int) -> int:
    """Read a time as milliseconds since 1970; a time before that means 1970."""
    text = text.strip()
    if text.startswith("-") and _DURATION.fullmatch(text[1:]):
        return max(0, now_ms - parse_duration_ms(text[1:], option))
    if _EPOCH_MS.fullmatch(text) and int(text) <= LAST_OFFSET:
        return int(text)
    return _parse_iso(text, option)


def _parse_iso(text: str, option: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(option, text, "no time", advice=_ACCEPTED) from error
    if moment.tzinfo is None:
        plain = moment.isoformat()
        raise OptionError(option, text, "a time without a zone", advice=f"write {plain}Z or {plain}+08:00")
    # Rounded up: brokers store whole milliseconds, and the first message at or after this time is wanted.
    return max(0, -((_EPOCH - moment) // _MILLISECOND))
