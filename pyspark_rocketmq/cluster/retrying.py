"""Repeat requests that failed with a retriable error.

An error says by its flag `retriable` whether a repetition may help. Requests whose repetition would do harm, such as
sends, do not use this module.

A caller that can wait sets a time as well as a number of retries. While a broker cannot be reached, does not respond or
throttles, requests to it are repeated for this time, and these repetitions do not count. Repetitions after all other
retriable errors count, since waiting seldom helps.
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
"""Number of failed attempts in a row at which a warning is logged."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retrying:
    """Rules for repeating failed attempts: pauses, a number, and a time limit while brokers are unreachable or busy."""

    retries: int
    pause: Backoff
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    wait_for_brokers_s: float | None = None
    """Seconds for which attempts at unreachable or busy brokers are repeated; None: `retries` limits them, too."""
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def run(self, attempt: Callable[[], T], deadline: Deadline | None = None) -> T:
        """Call `attempt` until it succeeds, and return its result.

        Raise its error at once if that is not retriable, else when a limit or the deadline is reached.
        """
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
    """Raise the error if the time to wait ends before the next attempt; log a warning at the second failure."""
    if waiting.remaining() <= pause_s:
        error.what += f" (repeated for {waiting.seconds:g} s, pollTimeoutMs or sendTimeoutMs)"
        raise error
    if failures == _WARN_AT:
        _log.warning("waiting for a broker, up to %g s (pollTimeoutMs or sendTimeoutMs): %s", waiting.seconds, error)
