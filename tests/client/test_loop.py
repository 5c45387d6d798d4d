"""A loop runs commands at their times, one after the other, and goes on after an exception."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from pyspark_rocketmq.client.clock import SystemClock
from pyspark_rocketmq.client.loop import Loop, ThreadPool
from tests.client.fixtures import ManualClock, until


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that tests advance."""
    return ManualClock()


@pytest.fixture
def loop(clock: ManualClock) -> Iterator[Loop]:
    """Yield a running loop that uses the manual clock."""
    loop = Loop("test", clock)
    loop.start()
    yield loop
    loop.stop(5.0)


def test_commands_run_in_order_of_their_times(loop: Loop, clock: ManualClock) -> None:
    """Commands run in the order of their times; commands of the same time run in the order of the calls."""
    ran: list[str] = []
    loop.call_later(20, lambda: ran.append("late"))
    loop.call_later(10, lambda: ran.append("early"))
    loop.call_later(10, lambda: ran.append("early, too"))

    clock.advance(15)
    until(lambda: len(ran) == 2)
    assert ran == ["early", "early, too"]

    clock.advance(5)
    until(lambda: ran[-1] == "late")


@pytest.mark.filterwarnings("ignore")
def test_a_failing_command_ends_nothing(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """If a command raises, the error is logged and the next command runs."""
    done = threading.Event()
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(done.set)

    assert done.wait(5)
    assert "ZeroDivisionError" in caplog.text


def test_repetition_goes_on_after_a_failure(loop: Loop, clock: ManualClock) -> None:
    """A repeated command that raises is repeated all the same."""
    turns: list[float] = []

    def fail() -> None:
        turns.append(clock.now_s())
        raise ValueError("every time")

    loop.repeat(1, 10, fail)
    for expected in (1, 2, 3):
        clock.advance(10)
        until(lambda expected=expected: len(turns) == expected)  # type: ignore[misc]


def test_a_stopped_loop_forgets_what_is_planned(clock: ManualClock) -> None:
    """A stopped loop runs neither commands planned before nor commands added later."""
    loop, ran = Loop("test", clock), []
    loop.start()
    loop.call_later(10, lambda: ran.append("planned"))
    loop.stop(5.0)
    loop.call_soon(lambda: ran.append("after"))

    clock.advance(20)
    assert not ran
    assert "stopped, 0 commands waiting" in repr(loop)


def test_the_system_clock_lets_commands_wait() -> None:
    """With the system clock a command runs after its delay and not before."""
    clock, ran = SystemClock(), threading.Event()
    loop = Loop("test", clock)
    loop.start()
    began_s = clock.now_s()
    loop.call_later(0.05, ran.set)

    assert ran.wait(5)
    assert clock.now_s() - began_s >= 0.05
    loop.stop(5.0)


def test_threads_of_a_pool_run_side_by_side() -> None:
    """Two commands that wait for each other both end, because two threads run them at the same time."""
    pool, meeting = ThreadPool("test", 2), threading.Barrier(2, timeout=5)
    met: list[int] = []
    pool.start()
    for _ in range(2):
        pool.submit(lambda: met.append(meeting.wait()))

    until(lambda: len(met) == 2)
    assert pool.stop(5.0)


def test_stopping_waits_no_longer_than_told() -> None:
    """If a command blocks, `stop` returns at its timeout, and the commands after it never run."""
    pool, blocking, ran = ThreadPool("test", 1), threading.Event(), []
    pool.start()
    pool.submit(lambda: blocking.wait(10))
    pool.submit(lambda: ran.append("never"))

    assert not pool.stop(0.0)
    blocking.set()
    assert pool.stop(5.0)
    assert not ran


def test_a_command_that_would_exit_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    """If a command calls `sys.exit()`, the only thread runs the next command."""
    pool, done = ThreadPool("test", 1), threading.Event()
    pool.start()
    pool.submit(sys.exit)
    pool.submit(done.set)

    assert done.wait(5)
    assert "SystemExit" in caplog.text
    assert pool.stop(5.0)
