"""What does the answer of a user's function mean for its row?

An exception, or an answer that is none, counts as failure, so that nothing is lost by a slip. Each kind of slip is told
once per task, not once per row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Listener", "Result"]

_log = logging.getLogger(__name__)


class Result(StrEnum):
    """What became of a row."""

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    SUSPEND = "SUSPEND"


@dataclass(slots=True)
class Listener:
    """A user's function, with RocketMQ's meaning of its answers. Each task has its own copy."""

    function: Callable[[Any], object]
    most_retries: int = 0
    suspend_s: float = 0.0
    sleep: Callable[[float], object] = time.sleep
    told: set[str] = field(default_factory=set)

    def concurrently(self, row: Any) -> str:
        """Done, or to be delivered again later."""
        succeeds = self._succeeds(row, (Result.RECONSUME_LATER,))
        return str(Result.SUCCESS if succeeds else Result.RECONSUME_LATER)

    def in_order(self, row: Any) -> str:
        """Done, or given up: tried again in place until its retries are used up, those of earlier deliveries too."""
        times = (row["reconsumeTimes"] or 0) if "reconsumeTimes" in row else 0
        while not self._succeeds(row, (Result.SUSPEND, Result.RECONSUME_LATER)):
            if times >= self.most_retries:
                return str(Result.SUSPEND)
            self.sleep(self.suspend_s)
            times += 1
        return str(Result.SUCCESS)

    def _succeeds(self, row: Any, failures: tuple[Result, ...]) -> bool:
        """Whether the function says so; anything else is a failure, and told if it is none of those it may be."""
        try:
            answer = self.function(row)
        except Exception as error:
            if self._is_new(error):
                _log.warning("the function raised, which counts as %s", failures[0], exc_info=True)
            return False
        if not isinstance(answer, str) or answer not in (Result.SUCCESS, *failures):
            if self._is_new(answer):
                _log.warning("%.100r is no result here, it counts as %s", answer, failures[0])
            return False
        return answer == Result.SUCCESS

    def _is_new(self, slip: object) -> bool:
        kind = type(slip).__name__
        is_new = kind not in self.told
        self.told.add(kind)
        return is_new
