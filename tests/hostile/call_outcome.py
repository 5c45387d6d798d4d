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

MAX_LOG_LINES = 100
"""Few beside the frames of a flood; on a slow machine a call has more attempts, each of which may log a line."""
MAX_TEXT = 4000
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
    texts: list[str] = field(default_factory=list)
    """Each logged message, and the text of each logged or raised error and of its causes."""
    peak_mb: float = 0.0
    """Largest resident size of the process; 0 if it was not measured."""

    def check(self) -> None:
        """Raise unless the call ended in time, with a value or a well-formed `RocketMQError`, and short texts."""
        assert not self.foreign, self.foreign
        if self.error is not None:
            text = str(self.error)
            assert text.startswith(f"[{self.error.code}] "), text
            assert self.error.where or isinstance(self.error, OptionError), f"no place: {text}"
        for text in self.texts:
            assert len(text) < MAX_TEXT, f"a text of {len(text)} characters: {text:.200}"
            assert text.isprintable(), f"control characters: {text!r:.200}"
        assert len(self.log) <= MAX_LOG_LINES, f"{len(self.log)} lines of log: {self.log[:30]}"
        assert self.peak_mb <= MAX_PEAK_MB, f"{self.peak_mb:.0f} MB"


def run_call(call: Callable[[], Any], deadline_s: float) -> CallOutcome:
    """Run a call in the main thread, interrupt it at the deadline, and return its outcome."""
    outcome, start = CallOutcome(), time.monotonic()
    with _logged(outcome):
        try:
            with _limited(deadline_s):
                outcome.value = call()
        except RocketMQError as error:
            outcome.error = error
            outcome.texts += _texts_of(error)
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


def _texts_of(error: BaseException | None) -> Iterator[str]:
    """Yield the text of an error, and of the errors that a traceback of it shows."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__


@contextmanager
def _logged(outcome: CallOutcome) -> Iterator[None]:
    """Collect the lines that the library's loggers write from level INFO on, and the texts of all levels."""

    def emit(record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO:
            outcome.log.append(f"{record.levelname} {record.getMessage()}")
        outcome.texts += [record.getMessage(), *_texts_of(record.exc_info[1] if record.exc_info else None)]

    handler = logging.Handler()
    handler.emit = emit  # type: ignore[method-assign]
    logger = logging.getLogger("pyspark_rocketmq")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
