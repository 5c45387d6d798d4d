"""Repeat requests that may be repeated.

The errors say so themselves (`retriable`); this only counts and waits. Requests whose repetition would do harm, such
as sends, do not come here.

Who can wait has patience: a broker that cannot be reached, does not answer, or asks for fewer requests is then asked
for a time instead of a number of times. What servers answer otherwise, and what routes say, is counted all the same:
it seldom changes by waiting.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from ..broker_errors import FlowControl, SystemBusy
from ..errors import RocketMQError, TransportError
from ..net.backoff import Backoff
from ..net.deadline import Deadline

T = TypeVar("T")

_WARN_AT = 2
"""The failed attempt in a row at which the log says what is waited for."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retrying:
    """So many more attempts, with pauses between them; with patience more while brokers are out of reach or busy."""

    retries: int
    pause: Backoff
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    wait_for_brokers_s: float | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def run(self, attempt: Callable[[], T], deadline: Deadline | None = None) -> T:
        """Return what the first successful attempt returns, or raise the last error."""
        patience = None if self.wait_for_brokers_s is None else Deadline.after(self.wait_for_brokers_s, self.clock)
        counted = 0
        for number in count():
            try:
                return attempt()
            except RocketMQError as error:
                pause_s = self.pause.delay_s(number)
                out_of_time = deadline is not None and deadline.remaining() <= pause_s
                if out_of_time or not error.retriable:
                    raise
                if patience and isinstance(error, TransportError | FlowControl | SystemBusy):
                    _wait_patiently(error, patience, pause_s, number + 1)
                elif counted >= self.retries:
                    raise
                else:
                    counted += 1
            self.sleep(pause_s)
        raise AssertionError("count() has no end")


def _wait_patiently(error: RocketMQError, patience: Deadline, pause_s: float, failures: int) -> None:
    """Raise the error if patience ends within the next pause; say once what is waited for."""
    if patience.remaining() <= pause_s:
        error.what += f" (asked for {patience.seconds:g} s, pollTimeoutMs)"
        raise error
    if failures == _WARN_AT:
        _log.warning("waiting for a broker, up to %g s (pollTimeoutMs): %s", patience.seconds, error)
