"""Give a target random inputs for some CPU time, and stop at the first one that it handles wrongly.

A target makes an input from a `Mutator` and checks how the code under test handles it. An error of the library is a
right outcome. Any other exception, more than `MOST_CPU_S` seconds of CPU, and growth by more than `MOST_MIB` MiB of
memory are findings. Seed, target and number of an attempt determine its input, so each attempt can be repeated alone.
"""

from __future__ import annotations

import gc
import logging
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from pyspark_rocketmq.errors import RocketMQError
from tests.peak import MOST_MIB

from .mutations import Mutator

__all__ = ["MOST_CPU_S", "Finding", "Target", "fault_of", "outcome", "repeat_attempt", "run_target"]

MOST_CPU_S = 2.0
WALL_TIMEOUT_S = 30.0
"""Time after which an attempt is interrupted; long, because other programs may keep the processor busy."""
HEADROOM_BYTES = 2 * 2**30
"""Address space that the target may take, so that a finding about memory does not exhaust the machine."""
MOST_ERROR_CHARACTERS = 8_000
"""Above the sum of the limits of an error's parts."""
SHOWN_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Target:
    """Code under test: a function that makes an input, and one that raises if the input is handled wrongly."""

    name: str
    make: Callable[[Mutator], Any]
    check: Callable[[Any], object]
    share: float = 1.0
    """Share of the CPU time, relative to other targets."""


class Finding(AssertionError):
    """An input that a target handles wrongly."""

    def __init__(self, target: Target, seed: str, attempt: int, given: Any, what: str) -> None:
        again = f"FUZZ_SEED={seed} FUZZ_ATTEMPT={attempt} python -m pytest tests/fuzz -k '[{target.name}]'"
        super().__init__(f"{target.name}: {what}\ninput: {show(given)}\nrepeat: {again}")


class _Stuck(BaseException):
    """Ends an attempt that takes too long; not an Exception, so that the code under test does not catch it."""


def show(given: Any) -> str:
    """Return an input as text, bytes in hexadecimal form, cut to a readable length."""
    text = bytes(given).hex() if isinstance(given, bytes | bytearray) else repr(given)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def run_target(target: Target, seed: str, cpu_s: float) -> int:
    """Attempt one input after the other for `cpu_s` seconds of CPU; return their number. Raise `Finding` for one that
    is handled wrongly.
    """
    attempt, end = 0, time.process_time() + cpu_s
    with _limited_memory(), _interruptible(), _silent():
        memory = _Memory()
        while time.process_time() < end:
            _attempt(target, seed, attempt, memory)
            attempt += 1
    return attempt


def repeat_attempt(target: Target, seed: str, attempt: int) -> None:
    """Attempt one input again; raise `Finding` if it is handled wrongly."""
    with _limited_memory(), _interruptible(), _silent():
        _attempt(target, seed, attempt, _Memory())


def _attempt(target: Target, seed: str, attempt: int, memory: _Memory) -> None:
    given = target.make(Mutator(f"{seed} {target.name} {attempt}"))
    started = time.process_time()
    what = _wrong_outcome(target, given)
    took = time.process_time() - started
    if not what and took > MOST_CPU_S:
        what = f"it took {took:.1f} s of CPU, the limit is {MOST_CPU_S} s"
    if what := what or memory.excess():
        raise Finding(target, seed, attempt, given, what)


def _wrong_outcome(target: Target, given: Any) -> str:
    """Return what is wrong with the outcome of a check; an empty text if nothing is."""
    signal.setitimer(signal.ITIMER_REAL, WALL_TIMEOUT_S)
    try:
        target.check(given)
    except RocketMQError as error:
        return fault_of(error)
    except _Stuck as stuck:
        return f"it did not end within {WALL_TIMEOUT_S} s{_place(stuck)}"
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.500}{_place(error)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def outcome(function: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a call, or the class of the library's error that it raises."""
    try:
        return function(*given)
    except RocketMQError as error:
        fault = fault_of(error)
        assert not fault, fault
        return type(error)


def fault_of(error: RocketMQError) -> str:
    """Return what is wrong with an error's text: it must open with the code, be short, and be safe to print."""
    text = str(error)
    if not text.startswith(f"[{error.code}] "):
        return f"an error without its code: {text:.500}"
    if len(text) > MOST_ERROR_CHARACTERS:
        return f"an error of {len(text)} characters: {text:.500}"
    return "" if text.isprintable() else f"an error with control characters: {text[:2_000]!r}"


def _place(error: BaseException) -> str:
    """Return the lines of code that led to an exception, innermost last."""
    lines, trace = [], error.__traceback__
    while trace:
        code = trace.tb_frame.f_code
        lines.append(f"\n  {code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return "".join(lines[-8:])


@contextmanager
def _interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _raise_stuck)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def _raise_stuck(number: int, frame: FrameType | None) -> NoReturn:
    raise _Stuck


@contextmanager
def _silent() -> Iterator[None]:
    """Let the library log nothing during the `with` block: a warning for each input would fill the memory."""
    logger = logging.getLogger("pyspark_rocketmq")
    nowhere, propagates = logging.NullHandler(), logger.propagate
    logger.addHandler(nowhere)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(nowhere)
        logger.propagate = propagates


# --- memory ----------------------------------------------------------------------------------------------------------


class _Memory:
    """Growth of the process's peak memory since this object was made."""

    def __init__(self) -> None:
        gc.collect()
        self._start_kib = _peak_kib()

    def excess(self) -> str:
        """Return a text about the growth if it exceeds `MOST_MIB`, else an empty one."""
        grown = (_peak_kib() - self._start_kib) // 1024
        return f"memory has grown by {grown} MiB, the limit is {MOST_MIB} MiB" if grown > MOST_MIB else ""


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Limit the address space during the `with` block, so that too large a request of memory fails at once."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as opened:
        taken = int(opened.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + HEADROOM_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
