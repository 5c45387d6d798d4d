"""Repeat requests that may be repeated.

Errors say by their flag `retriable` whether a repetition may help; this module only counts and waits. Requests whose
repetition would do harm, such as sends, are not repeated here.

A caller that can wait gives a time instead of a number: for so long, requests are repeated to a broker that cannot be
reached, does not respond, or asks for fewer requests. Other errors of servers, and errors of routes, are counted all
the same: they seldom change by waiting.
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
"""Number of the failed attempt in a row that is logged."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A number of further attempts with pauses between them, or a time for unreachable and busy brokers."""

    retries: int
    pause: Backoff
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    wait_for_brokers_s: float | None = None
    """Seconds for which attempts at unreachable and busy brokers are repeated; None: they count as others do."""
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def run(self, attempt: Callable[[], T], deadline: Deadline | None = None) -> T:
        """Return the result of the first successful attempt, or raise the last error."""
        waiting = None if self.wait_for_brokers_s is None else Deadline.after(self.wait_for_brokers_s, self.clock)
        counted = 0
        for number in count():
            try:
                return attempt()
            except RocketMQError as error:
                pause_s = self.pause.delay_s(number)
                out_of_time = deadline is not None and deadline.remaining() <= pause_s
                if out_of_time or not error.retriable:
                    raise
                if waiting and isinstance(error, TransportError | FlowControl | SystemBusy):
                    _check_wait(error, waiting, pause_s, number + 1)
                elif counted >= self.retries:
                    raise
                else:
                    counted += 1
            self.sleep(pause_s)
        raise AssertionError("count() has no end")


def _check_wait(error: RocketMQError, waiting: Deadline, pause_s: float, failures: int) -> None:
    """Raise the error if the wait ends within the next pause; log the second failure."""
    if waiting.remaining() <= pause_s:
        error.what += f" (repeated for {waiting.seconds:g} s, pollTimeoutMs)"
        raise error
    if failures == _WARN_AT:
        _log.warning("waiting for a broker, up to %g s (pollTimeoutMs): %s", waiting.seconds, error)
