"""Run a user's function on rows, and turn what it returns into RocketMQ's consume results.

An exception counts as a failure, and so does a return value that is not a consume result: a programming mistake loses
no row. Each type of exception or wrong value is logged once per task, not once per row.
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
    """RocketMQ's consume results, which a user's function returns for a row."""

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    SUSPEND = "SUSPEND"


@dataclass(slots=True)
class Listener:
    """A user's function, whose return values are read as RocketMQ's consume results. Each task has its own copy."""

    function: Callable[[Any], object]
    most_retries: int = 0
    suspend_s: float = 0.0
    sleep: Callable[[float], object] = time.sleep
    warned: set[str] = field(default_factory=set)
    """The names of the types of exceptions and wrong return values that were logged."""

    def concurrently(self, row: Any) -> str:
        """Run the function on the row once; return `SUCCESS`, or `RECONSUME_LATER` for every failure."""
        succeeds = self._run(row, (Result.RECONSUME_LATER,))
        return str(Result.SUCCESS if succeeds else Result.RECONSUME_LATER)

    def in_order(self, row: Any) -> str:
        """Run the function on the row until it succeeds; return `SUCCESS`, or `SUSPEND` once all retries are used up.

        The row's earlier deliveries count as retries.
        """
        times = (row["reconsumeTimes"] or 0) if "reconsumeTimes" in row else 0
        while not self._run(row, (Result.SUSPEND, Result.RECONSUME_LATER)):
            if times >= self.most_retries:
                return str(Result.SUSPEND)
            self.sleep(self.suspend_s)
            times += 1
        return str(Result.SUCCESS)

    def _run(self, row: Any, failures: tuple[Result, ...]) -> bool:
        """Run the function and return whether it succeeded; log the first exception or wrong value of each type.

        `failures` are the consume results that mean a failure; a value is wrong if it is neither these nor `SUCCESS`.
        """
        try:
            answer = self.function(row)
        except Exception as error:
            if self._note(error):
                _log.warning("the function raised an exception, which counts as %s", failures[0], exc_info=True)
            return False
        if not isinstance(answer, str) or answer not in (Result.SUCCESS, *failures):
            if self._note(answer):
                _log.warning(
                    "the function returned %.100r, which is no result here and counts as %s", answer, failures[0]
                )
            return False
        return answer == Result.SUCCESS

    def _note(self, mistake: object) -> bool:
        """Note the type of an exception or wrong value, and return whether it is the first of this type."""
        kind = type(mistake).__name__
        is_new = kind not in self.warned
        self.warned.add(kind)
        return is_new
