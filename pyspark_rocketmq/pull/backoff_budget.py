"""Bound how long a queue waits for a broker that answers its pulls without messages.

Flow control, a replica that leaves reads to its master, and answers that do not lead on are neither failures nor
losses. The queue pauses, longer each time, until the pauses add up to the limit. Only pauses count: time that a task
spends stopped, or waiting for Spark, does not. Once the queue has advanced, the budget is full again.
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
"""The beginning of the remark by which a replica leaves reads to its master."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class BackoffBudget:
    """The pauses of one queue at its present offset, up to a limit."""

    limit_s: float
    pause: Backoff = _PAUSE
    answer_count: int = 0
    """Answers without messages at this offset."""
    waited_s: float = 0.0
    """The sum of the pauses at this offset, in seconds."""
    _offset: int = -1
    _reason: RocketMQError | None = None
    _has_warned: bool = False

    def next_pause_s(self, offset: int, reason: RocketMQError) -> float:
        """Return how long to pause at this offset, and warn once; raise the reason when the limit is reached."""
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
        """Return the last reason, with the time spent on it; None if the queue has left this offset."""
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
    """Return the error to report while waiting, if a broker refused a pull only for now; None for other errors.

    The error asks for new routes if a replica left the read to its master.
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
