"""How a call ended: with a value, with an error of ours, with a foreign one, or not at all."""

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

MOST_LOG_LINES = 20
MOST_PEAK_MB = 300


class Hang(BaseException):
    """Raised in a call that did not end in time."""


@dataclass
class Ending:
    """What became of one call."""

    value: Any = None
    error: RocketMQError | None = None
    foreign: str = ""
    """The trace of an error that is not of our tree, or of a call that did not end."""
    seconds: float = 0.0
    log: list[str] = field(default_factory=list)
    peak_mb: float = 0.0
    """The largest resident size of the process; 0 if it was not measured."""

    def check(self) -> None:
        """Raise unless the call ended as it may: in time, with a value or an error of ours, and with few words."""
        assert not self.foreign, self.foreign
        if self.error is not None:
            text = str(self.error)
            assert text.startswith(f"[{self.error.code}] "), text
            assert self.error.where or isinstance(self.error, OptionError), f"no place: {text}"
            assert len(text) < 4000, f"an error of {len(text)} characters: {text:.200}"
        assert len(self.log) <= MOST_LOG_LINES, f"{len(self.log)} lines of log: {self.log[:30]}"
        assert self.peak_mb <= MOST_PEAK_MB, f"{self.peak_mb:.0f} MB"


def ending_of(call: Callable[[], Any], deadline_s: float) -> Ending:
    """Return how a call ends, interrupting it when the deadline passes. For the main thread."""
    ending, start = Ending(), time.monotonic()
    with _logged() as ending.log:
        try:
            with _limited(deadline_s):
                ending.value = call()
        except RocketMQError as error:
            ending.error = error
        except (Exception, Hang):
            ending.foreign = traceback.format_exc()
    ending.seconds = time.monotonic() - start
    return ending


def peak_mb() -> float:
    """Return the largest resident size of this process so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@contextmanager
def _limited(deadline_s: float) -> Iterator[None]:
    def interrupt(_number: int, _frame: object) -> None:
        raise Hang(f"no end within {deadline_s:g} s")

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, deadline_s, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect what our loggers say, from INFO on."""
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
