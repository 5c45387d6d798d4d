"""Read the time of brokers from their runtime figures, and compare it with the clock of this machine.

A broker reports its start in milliseconds and its uptime in whole seconds, so its time is known to one second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .survey import number_in

__all__ = ["broker_time_ms", "describe_skew", "skew_ms", "uptime_s"]

_TOLERANCE_MS = 5000
"""Differences between clocks up to this one are not worth a word; brokers report their time to the second."""

_UPTIME = re.compile(
    r"\[ ([0-9]{1,9}) days, ([0-9]{1,9}) hours, ([0-9]{1,9}) minutes, ([0-9]{1,9}) seconds \]"
)  # fmt: skip


def uptime_s(figures: Mapping[str, str]) -> int | None:
    """Return for how many seconds a broker has been running; None if it does not report it."""
    up = _UPTIME.fullmatch(figures.get("runtime", ""))
    if up is None:
        return None
    days, hours, minutes, seconds = map(int, up.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def broker_time_ms(figures: Mapping[str, str]) -> int | None:
    """Return the time by a broker's clock to the second, from its start and uptime; None if it reports none."""
    started, up = number_in(figures, "bootTimestamp"), uptime_s(figures)
    return None if started is None or up is None else started + 1000 * up


def skew_ms(figures: Mapping[str, str], asked_ms: int, answered_ms: int) -> int | None:
    """Return by how much a broker's clock is ahead of the one here, 0 if they may agree; None if it reports no time.

    The broker made its figures at some moment between the request and the response, and up to a second after the time
    that it reports. If the clocks may agree, the one here is the better one, since it is exact.
    """
    there_ms = broker_time_ms(figures)
    if there_ms is None:
        return None
    least, most = there_ms - answered_ms, there_ms + 999 - asked_ms
    return 0 if least <= 0 <= most else (least + most) // 2


def describe_skew(skew_ms: int) -> str | None:
    """Return how far a clock is from the one here, in words; None if the difference does not matter."""
    if abs(skew_ms) <= _TOLERANCE_MS:
        return None
    return f"{abs(skew_ms) / 1000:.0f} s {'ahead of' if skew_ms > 0 else 'behind'} the one here"
