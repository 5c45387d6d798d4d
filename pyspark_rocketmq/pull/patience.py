"""Wait for a broker that answers pulls of a queue, but gives nothing.

Flow control, a replica that leaves reads to its master, and answers that do not lead on are neither failures nor
losses. The queue is asked again after pauses that grow, until they add up to the limit. They are what is summed up:
time that a task spends stopped, or waiting for Spark, does not count. Once the queue has come forward, waiting begins
anew.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from ..broker_errors import FlowControl, SystemBusy
from ..errors import NoBrokerAvailable, RocketMQError
from ..net.backoff import Backoff

__all__ = ["Patience", "put_off"]

_PAUSE = Backoff(first_s=0.02, longest_s=3.0)
_WARN_AFTER_S = 1.0
_REFUSED_READ = "[REJECTREQUEST]"
"""How the remark begins by which a replica leaves reads to its master."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Patience:
    """How long one queue has been waited for."""

    limit_s: float
    pause: Backoff = _PAUSE
    answer_count: int = 0
    """Answers since the queue stands where it does."""
    waited_s: float = 0.0
    """The sum of the pauses after them."""
    _offset: int = -1
    _reason: RocketMQError | None = None
    _has_warned: bool = False

    def next_pause_s(self, offset: int, reason: RocketMQError) -> float:
        """Return how long to wait at this offset, or raise the reason when the limit is reached; warn once."""
        if offset != self._offset:
            self.answer_count, self.waited_s, self._offset = 0, 0.0, offset
        self._reason = reason
        if self.waited_s >= self.limit_s:
            raise self.verdict(offset) or reason
        pause_s = min(self.pause.delay_s(self.answer_count), self.limit_s - self.waited_s)
        self.answer_count += 1
        self.waited_s += pause_s
        self._warn()
        return pause_s

    def verdict(self, offset: int) -> RocketMQError | None:
        """Return the last reason, with how long it was waited out, if the queue still stands at this offset."""
        if self._reason is None or offset != self._offset:
            return None
        self._reason.what += f" ({self.answer_count} answers in {self.waited_s:.3g} s)"
        return self._reason

    def _warn(self) -> None:
        if self.waited_s >= _WARN_AFTER_S and not self._has_warned:
            self._has_warned = True
            until = "until they do" if math.isinf(self.limit_s) else f"for up to {self.limit_s:g} s"
            _log.warning("pulls bring nothing and are repeated %s: %s", until, self._reason)


def put_off(error: RocketMQError, *, from_master: bool) -> RocketMQError | None:
    """Return the reason to wait if a broker only put the reader off; it asks for new routes if the master is wanted."""
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
