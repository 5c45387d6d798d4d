"""Run commands in one thread at planned times, or in several threads at once.

A `Loop` is one thread that runs commands one after the other, each not before its time; commands of the same time run
in the order in which they were added. Data that only its commands use needs no lock. The threads of a `ThreadPool` run
commands as soon as one of them is free. Unlike those of Python's `ThreadPoolExecutor`, they do not keep the process
from ending, because a listener may block without limit.
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

__all__ = ["Command", "Loop", "OwnThread", "ServingThread", "ThreadPool", "carry_out"]

Command = Callable[[], object]

_log = logging.getLogger(__name__)


class OwnThread(threading.Thread):
    """A thread of a client; the client may wait for it when it closes."""


class ServingThread(OwnThread):
    """A thread whose work the client finishes when it closes, so that it must not wait for the closing itself."""


class Loop:
    """One thread that runs commands at planned times."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._clock = clock
        self._news = threading.Condition()
        self._timetable: list[tuple[float, int, Command]] = []
        self._numbers = count()
        self._stopped = False
        self.thread = OwnThread(target=self._run, name=name, daemon=True)

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "running" if self.thread.is_alive() else "not started"
        return f"<Loop {self.thread.name} {state}, {len(self._timetable)} commands waiting>"

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def call_soon(self, command: Command) -> None:
        """Plan a command to run as soon as possible."""
        self.call_later(0.0, command)

    def call_later(self, delay_s: float, command: Command) -> None:
        """Plan a command to run after a delay; a stopped loop ignores this."""
        with self._news:
            if not self._stopped:
                entry = (self._clock.now_s() + delay_s, next(self._numbers), command)
                heapq.heappush(self._timetable, entry)
                if self._timetable[0] is entry:
                    self._news.notify()

    def repeat(self, first_s: float, pause_s: float, command: Command) -> None:
        """Run a command after `first_s`, and then again and again, each time `pause_s` after its last run has ended."""

        def run_and_plan() -> None:
            try:
                command()
            finally:
                self.call_later(pause_s, run_and_plan)

        self.call_later(first_s, run_and_plan)

    def stop(self, wait_s: float) -> None:
        """Discard the planned commands, and wait at most `wait_s` for the running one."""
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


class ThreadPool:
    """A fixed number of threads; each takes the next waiting command, runs it, and goes on with another."""

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self._commands: SimpleQueue[Command | None] = SimpleQueue()
        self.submit: Callable[[Command], None] = self._commands.put
        """Adds a command, which runs as soon as a thread is free."""
        self._stopped = False
        self._threads = [OwnThread(target=self._run, name=f"{name} {number}", daemon=True) for number in range(size)]

    def __repr__(self) -> str:
        return f"<ThreadPool {self.size} threads, {self._commands.qsize()} commands waiting>"

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, wait_s: float) -> bool:
        """Start no more commands, and wait at most `wait_s` for the running ones; return True if they have ended."""
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
    """Run a command and log any exception, `SystemExit` included, so that the thread goes on."""
    try:
        command()
    except BaseException as error:
        _log_failure(error)


def _log_failure(error: BaseException) -> None:
    if isinstance(error, RocketMQError):
        _log.warning("%s", error)
    else:
        _log.error("a task in thread %r raised an exception", threading.current_thread().name, exc_info=error)
