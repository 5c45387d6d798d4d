"""Count pulls, received messages and results of the listener.

Administrators ask for each topic's rates of the last minute. Events are counted in periods of six seconds, so that
counting does not get slower when there are more events.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ..wire.bodies import ConsumeStatus

__all__ = ["Statistics"]

_SLOT_S = 6.0
_SLOTS = 10
_HOUR_S = 3600.0


@dataclass(slots=True)
class _Slot:
    began_s: float
    pulls: int = 0
    pull_s: float = 0.0
    messages: int = 0
    runs: int = 0
    run_s: float = 0.0
    succeeded: int = 0
    failed: int = 0


class Statistics:
    """The counts of one member, by topic. Any thread may use it."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._topics: dict[str, deque[_Slot]] = {}

    def pulled(self, topic: str, seconds: float, messages: int = 0) -> None:
        """Count a pull that took `seconds` and returned this many messages."""
        with self._lock:
            slot = self._slot(topic)
            slot.pulls += 1
            slot.pull_s += seconds
            slot.messages += messages

    def consumed(self, topic: str, seconds: float, *, succeeded: int, failed: int) -> None:
        """Count one call of the listener that took `seconds`, and the messages that succeeded and failed in it."""
        with self._lock:
            slot = self._slot(topic)
            slot.runs += 1
            slot.run_s += seconds
            slot.succeeded += succeeded
            slot.failed += failed

    def status(self, topic: str) -> ConsumeStatus:
        """Return a topic's figures for administrators.

        Of the last minute: mean times of a pull and of a call of the listener (ms), and messages pulled, succeeded and
        failed per second. Of the last hour: the number of failed messages.
        """
        with self._lock:
            slots = list(self._topics.get(topic, ()))
        recent = [slot for slot in slots if slot.began_s > self._now_s() - _SLOT_S * _SLOTS]
        span_s = _SLOT_S * _SLOTS
        return ConsumeStatus(
            pull_rt=_mean_ms(sum(slot.pull_s for slot in recent), sum(slot.pulls for slot in recent)),
            pull_tps=sum(slot.messages for slot in recent) / span_s,
            consume_rt=_mean_ms(sum(slot.run_s for slot in recent), sum(slot.runs for slot in recent)),
            consume_ok_tps=sum(slot.succeeded for slot in recent) / span_s,
            consume_failed_tps=sum(slot.failed for slot in recent) / span_s,
            consume_failed_msgs=sum(slot.failed for slot in slots),
        )

    def _slot(self, topic: str) -> _Slot:
        now = self._now_s()
        slots = self._topics.get(topic)
        if slots is None:
            slots = self._topics[topic] = deque()
        if not slots or slots[-1].began_s <= now - _SLOT_S:
            slots.append(_Slot(now))
            while slots[0].began_s <= now - _HOUR_S:
                slots.popleft()
        return slots[-1]


def _mean_ms(seconds: float, count: int) -> float:
    return 1000 * seconds / count if count else 0.0
