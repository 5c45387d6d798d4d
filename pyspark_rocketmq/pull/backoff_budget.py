"""Limit the time that a queue pauses because its broker answers pulls without progress.

A broker that refuses pulls under load, a replica that sends readers to its master, and a response with neither messages
nor a higher next offset are no failures and no losses. The queue pauses, longer each time, until the pauses add up to
the limit. Only pauses count, not the time in which Spark has stopped the task. When the queue advances, the sum of its
pauses begins at 0 again.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from ..broker_errors import FlowControl, SystemBusy
from ..errors import NoBrokerAvailable, RocketMQError
from ..net.backoff import Backoff

__all__ = ["BackoffBudget", "explain_refusal"]

_PAUSE = Backoff(first_s=0.02, longest_s=3.0)
_WARN_AFTER_S = 1.0
_REFUSED_READ = "[REJECTREQUEST]"
"""The beginning of the remark with which a replica refuses reads that its master would serve."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class BackoffBudget:
    """The sum of the pauses of one queue since it last advanced, which may grow up to `limit_s` seconds."""

    limit_s: float
    pause: Backoff = _PAUSE
    answer_count: int = 0
    """The number of responses without progress at the current offset."""
    waited_s: float = 0.0
    """The sum of the pauses at the current offset, in seconds."""
    _offset: int = -1
    _reason: RocketMQError | None = None
    _has_warned: bool = False

    def next_pause_s(self, offset: int, reason: RocketMQError) -> float:
        """Return the length of the next pause at `offset`, in seconds; raise `reason` when the limit is reached.

        Log one warning per queue, when its pauses have added up to a second.
        """
        if offset != self._offset:
            self.answer_count, self.waited_s, self._offset = 0, 0.0, offset
        self._reason = reason
        if self.waited_s >= self.limit_s:
            raise self.final_error(offset) or reason
        pause_s = min(self.pause.delay_s(self.answer_count), self.limit_s - self.waited_s)
        self.answer_count += 1
        self.waited_s += pause_s
        self._warn()
        return pause_s

    def final_error(self, offset: int) -> RocketMQError | None:
        """Return the error that was the reason for the last pause, if that pause was at `offset`; else None.

        Add the number of responses and the time paused to the error's text.
        """
        if self._reason is None or offset != self._offset:
            return None
        self._reason.what += f" ({self.answer_count} answers in {self.waited_s:.3g} s)"
        return self._reason

    def _warn(self) -> None:
        if self.waited_s >= _WARN_AFTER_S and not self._has_warned:
            self._has_warned = True
            until = "until they return some" if math.isinf(self.limit_s) else f"for up to {self.limit_s:g} s"
            _log.warning("pulls return no messages and are repeated %s: %s", until, self._reason)


def explain_refusal(error: RocketMQError, *, from_master: bool) -> RocketMQError | None:
    """Return the error to raise if pauses do not help; None if `error` is no temporary refusal of a pull.

    If a replica refuses reads that its master would serve, the returned error has `refresh_routes` set: the caller has
    the route requested again.
    """
    if not isinstance(error, FlowControl | SystemBusy):
        return None
    if not from_master and (error.remark or "").startswith(_REFUSED_READ):
        return NoBrokerAvailable(
            f"the replica refuses reads, and the route names no master ({error.what})",
            advice="bring the master back, set slaveReadEnable=true at the replica, or raise pollTimeoutMs",
            **error.where,
        )
    error.advice = "lower the load, add brokers, or raise pollTimeoutMs"
    return error
