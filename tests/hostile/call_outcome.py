"""Run a call and record its outcome: a value, an error of the library, an unexpected error, or a timeout."""

from __future__ import annotations

import logging
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark_rocketmq.errors import OptionError, RocketMQError

MAX_LOG_LINES = 20
MAX_PEAK_MB = 300


class CallTimeout(BaseException):
    """Raised inside a call that runs longer than its deadline."""


@dataclass
class CallOutcome:
    """The outcome of one call: its value or error, its duration, log lines and memory."""

    value: Any = None
    error: RocketMQError | None = None
    foreign: str = ""
    """Traceback of an error that is no `RocketMQError`, or of a call that exceeded its deadline."""
    seconds: float = 0.0
    log: list[str] = field(default_factory=list)
    peak_mb: float = 0.0
    """Largest resident size of the process; 0 if it was not measured."""

    def check(self) -> None:
        """Raise unless the call ended in time, with a value or a well-formed `RocketMQError` and few log lines."""
        assert not self.foreign, self.foreign
        if self.error is not None:
            text = str(self.error)
            assert text.startswith(f"[{self.error.code}] "), text
            assert self.error.where or isinstance(self.error, OptionError), f"no place: {text}"
            assert len(text) < 4000, f"an error of {len(text)} characters: {text:.200}"
        assert len(self.log) <= MAX_LOG_LINES, f"{len(self.log)} lines of log: {self.log[:30]}"
        assert self.peak_mb <= MAX_PEAK_MB, f"{self.peak_mb:.0f} MB"


def run_call(call: Callable[[], Any], deadline_s: float) -> CallOutcome:
    """Run a call in the main thread, interrupt it at the deadline, and return its outcome."""
    outcome, start = CallOutcome(), time.monotonic()
    with _logged() as outcome.log:
        try:
            with _limited(deadline_s):
                outcome.value = call()
        except RocketMQError as error:
            outcome.error = error
        except (Exception, CallTimeout):
            outcome.foreign = traceback.format_exc()
    outcome.seconds = time.monotonic() - start
    return outcome


def peak_mb() -> float:
    """Return the largest resident size of this process so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@contextmanager
def _limited(deadline_s: float) -> Iterator[None]:
    def interrupt(_number: int, _frame: object) -> None:
        raise CallTimeout(f"no end within {deadline_s:g} s")

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, deadline_s, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect the lines that the library's loggers write, from level INFO on."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    logger = logging.getLogger("pyspark_rocketmq")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
