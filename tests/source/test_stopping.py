"""A query that ends commits and releases before its process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.shutdown import ShutdownHandler
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import GROUP, TOPIC, Run, options_for, queue_of
from tests.source.ended_queries import group_of

COUNT = 30
RHYTHM = PlannerRhythm(grace_s=0.05)
HANGING = """
import signal, threading
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.shutdown import ShutdownHandler

end = ShutdownHandler(PlannerRhythm(exit_s=0.2))
end.install()
try:
    signal.raise_signal(signal.SIGTERM)
finally:
    with end.stopping():
        threading.Event().wait()
"""
ORPHAN = """
import os, threading
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.shutdown import ShutdownHandler

waiting, ready = os.pipe()
if os.fork():
    os.read(waiting, 1)
    os._exit(0)
end = ShutdownHandler(PlannerRhythm(grace_s=0.05, driver_check_s=0.05))
end.install()
os.write(ready, b"!")
try:
    with end.call():
        threading.Event().wait(60)
except SystemExit:
    print("left")
"""


@pytest.fixture
def awaited() -> Iterator[ShutdownHandler]:
    """An installed handler that gives calls a moment; afterwards the earlier handler of SIGTERM is back."""
    before = signal.getsignal(signal.SIGTERM)
    made = ShutdownHandler(RHYTHM)
    made.install()
    yield made
    with made.stopping():
        pass
    signal.signal(signal.SIGTERM, before)


def test_a_slow_broker_still_gets_the_last_positions() -> None:
    """Spark does not wait for the planner's process, so the process may wait for its broker."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.put(TOPIC, b"a")
        stub.faults.delay(2000, on=RequestCode.QUERY_CONSUMER_OFFSET)
        with Run(options_for(stub, consumerGroup=GROUP), available_now=True) as run:
            assert len(run.drain()) == 1
        assert stub.offsets(GROUP) == {queue_of(0): 1}


def test_a_second_signal_cuts_nothing_short() -> None:
    """Spark sends SIGTERM twice; each of thirty queries commits its last positions and releases its locks."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.put(TOPIC, b"a")
        stub.faults.delay(60, times=None)
        command = [sys.executable, "-m", "tests.source.ended_queries", stub.name_server, str(COUNT)]
        subprocess.run(command, check=True, timeout=120)
        groups = [group_of(number) for number in range(COUNT)]
        assert [group for group in groups if stub.offsets(group) != {queue_of(0): 1}] == []
        assert [group for group in groups if stub.locks(group)] == []


def test_a_call_that_is_under_way_returns_first(awaited: ShutdownHandler) -> None:
    """The process ends after the running call has returned."""
    done: list[str] = []
    with pytest.raises(SystemExit), awaited.call():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        done.append("all of it")
    assert done == ["all of it"]


def test_a_call_that_waits_for_long_is_broken_off(awaited: ShutdownHandler) -> None:
    """Otherwise the call would keep positions and locks back for as long as it waits."""
    begun = time.monotonic()
    with pytest.raises(SystemExit), awaited.call():
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)
    assert time.monotonic() - begun < 30


def test_a_call_is_not_broken_off_where_a_lock_may_be_left_held(awaited: ShutdownHandler) -> None:
    """Foreign code finishes its work; its caller, which waits next, is interrupted."""
    done: list[str] = []

    def do_something() -> None:
        until = time.monotonic() + 10 * RHYTHM.grace_check_s
        while time.monotonic() < until:
            time.sleep(0.01)
        done.append("something")

    with pytest.raises(SystemExit), awaited.call():
        signal.raise_signal(signal.SIGTERM)
        do_something()
        threading.Event().wait(60)
    assert done == ["something"]


def test_a_process_that_hangs_at_its_end_is_ended_by_the_system() -> None:
    """SIGALRM ends a process whose `stop` does not return."""
    assert subprocess.run([sys.executable, "-c", HANGING], timeout=60).returncode == -signal.SIGALRM


def test_a_process_whose_driver_is_killed_leaves() -> None:
    """Otherwise the process would commit, and claim its queues, for as long as it waits for brokers."""
    orphan = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=120)
    assert orphan.stdout == "left\n"


def test_a_process_that_goes_on_has_its_own_answer_to_sigterm(awaited: ShutdownHandler) -> None:
    """Without a signal the earlier handler of SIGTERM is restored, so that child processes do not ignore it."""
    with awaited.stopping():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
