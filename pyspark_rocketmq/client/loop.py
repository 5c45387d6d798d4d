"""Run commands at their time in one thread, or at once in several.

A `Loop` is one thread that runs commands one after the other, each not before its time; commands due at one moment run
in the order in which they were given. Data that only its commands touch needs no lock. `Workers` are threads that run
commands at once and side by side; unlike an executor's they never keep a process from ending, because a listener may
block for any time.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue

from ..errors import RocketMQError
from ..net.deadline import Deadline
from .clock import Clock

__all__ = ["Command", "Loop", "Workers", "carry_out"]

Command = Callable[[], object]

_log = logging.getLogger(__name__)


class Loop:
    """A thread that runs commands at their time."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._clock = clock
        self._news = threading.Condition()
        self._timetable: list[tuple[float, int, Command]] = []
        self._numbers = count()
        self._stopped = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "running" if self.thread.is_alive() else "not started"
        return f"<Loop {self.thread.name} {state}, {len(self._timetable)} commands waiting>"

    def start(self) -> None:
        """Start."""
        self.thread.start()

    def call_soon(self, command: Command) -> None:
        """Run a command as soon as possible."""
        self.call_later(0.0, command)

    def call_later(self, delay_s: float, command: Command) -> None:
        """Run a command after a delay; a stopped loop forgets it."""
        with self._news:
            if not self._stopped:
                entry = (self._clock.now_s() + delay_s, next(self._numbers), command)
                heapq.heappush(self._timetable, entry)
                if self._timetable[0] is entry:
                    self._news.notify()

    def repeat(self, first_s: float, pause_s: float, command: Command) -> None:
        """Run a command after a delay, and again and again with a pause between."""

        def run_and_plan() -> None:
            try:
                command()
            finally:
                self.call_later(pause_s, run_and_plan)

        self.call_later(first_s, run_and_plan)

    def stop(self, wait_s: float) -> None:
        """Forget the planned commands, and wait at most `wait_s` for the running one."""
        with self._news:
            self._stopped = True
            self._timetable.clear()
            self._news.notify()
        if self.thread.is_alive() and threading.current_thread() is not self.thread:
            self.thread.join(wait_s)

    def _run(self) -> None:
        while command := self._next():
            carry_out(command)

    def _next(self) -> Command | None:
        with self._news:
            while not self._stopped:
                wait_s = self._timetable[0][0] - self._clock.now_s() if self._timetable else None
                if wait_s is not None and wait_s <= 0:
                    return heapq.heappop(self._timetable)[2]
                self._clock.wait(self._news, wait_s)
        return None


class Workers:
    """A fixed number of threads that take commands from one queue."""

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self._commands: SimpleQueue[Command | None] = SimpleQueue()
        self.submit: Callable[[Command], None] = self._commands.put
        """Runs a command as soon as a thread is free."""
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name} {number}", daemon=True) for number in range(size)
        ]

    def __repr__(self) -> str:
        return f"<Workers {self.size} threads, {self._commands.qsize()} commands waiting>"

    def start(self) -> None:
        """Start."""
        for thread in self._threads:
            thread.start()

    def stop(self, wait_s: float) -> bool:
        """Take no more commands, wait at most `wait_s` for the running ones, and return whether they ended."""
        self._stopped = True
        for _ in self._threads:
            self._commands.put(None)
        until = Deadline.after(wait_s)
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(until.remaining())
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (command := self._commands.get()) and not self._stopped:
            try:
                command()
            except BaseException as error:
                _log_failure(error)


def carry_out(command: Command) -> None:
    """Run a command and log what it raises, `sys.exit()` included, so that it ends nothing else."""
    try:
        command()
    except BaseException as error:
        _log_failure(error)


def _log_failure(error: BaseException) -> None:
    if isinstance(error, RocketMQError):
        _log.warning("%s", error)
    else:
        _log.error("a task in thread %r raised an exception", threading.current_thread().name, exc_info=error)
