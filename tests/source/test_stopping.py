"""Check that a query that ends commits its positions and releases its locks before its process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.options import parse_reader_options
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.shutdown import ShutdownHandler
from pyspark_rocketmq.source.stream import make_stream_reader
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
    """Install a shutdown handler that interrupts a waiting call 0.05 seconds after SIGTERM.

    After the test, restore the earlier handler of SIGTERM.
    """
    before = signal.getsignal(signal.SIGTERM)
    made = ShutdownHandler(RHYTHM)
    made.install()
    yield made
    with made.stopping():
        pass
    signal.signal(signal.SIGTERM, before)


def test_a_slow_broker_still_gets_the_last_positions() -> None:
    """If a broker answers slowly when a query stops, the last positions are still committed."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.put(TOPIC, b"a")
        stub.faults.delay(2000, on=RequestCode.QUERY_CONSUMER_OFFSET)
        with Run(options_for(stub, consumerGroup=GROUP), available_now=True) as run:
            assert len(run.drain()) == 1
        assert stub.offsets(GROUP) == {queue_of(0): 1}


def test_a_second_signal_cuts_nothing_short() -> None:
    """If thirty queries each get SIGTERM twice, all commit their last positions and release their locks."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.put(TOPIC, b"a")
        stub.faults.delay(60, times=None)
        command = [sys.executable, "-m", "tests.source.ended_queries", stub.name_server, str(COUNT)]
        subprocess.run(command, check=True, timeout=120)
        groups = [group_of(number) for number in range(COUNT)]
        assert [group for group in groups if stub.offsets(group) != {queue_of(0): 1}] == []
        assert [group for group in groups if stub.locks(group)] == []


def test_a_call_that_is_under_way_returns_first(awaited: ShutdownHandler) -> None:
    """If SIGTERM comes during a call that does not wait, the call is completed before the process ends."""
    done: list[str] = []
    with pytest.raises(SystemExit), awaited.call():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        done.append("all of it")
    assert done == ["all of it"]


def test_a_call_that_waits_for_long_is_broken_off(awaited: ShutdownHandler) -> None:
    """If SIGTERM comes during a call that waits for long, the call is interrupted."""
    begun = time.monotonic()
    with pytest.raises(SystemExit), awaited.call():
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)
    assert time.monotonic() - begun < 30


def test_a_call_is_not_broken_off_where_a_lock_may_be_left_held(awaited: ShutdownHandler) -> None:
    """If SIGTERM comes while foreign code runs, that code is completed; the call is interrupted when it waits next."""
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
    """If `stop` does not return after SIGTERM, SIGALRM ends the process."""
    assert subprocess.run([sys.executable, "-c", HANGING], timeout=60).returncode == -signal.SIGALRM


def test_a_process_whose_driver_is_killed_leaves() -> None:
    """If the parent process of a planner ends, a call that waits is interrupted and the planner ends, too."""
    orphan = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=120)
    assert orphan.stdout == "left\n"


def test_a_process_that_goes_on_has_its_own_answer_to_sigterm(awaited: ShutdownHandler) -> None:
    """SIGTERM is ignored only while the reader stops; after that, the earlier handler is back."""
    with awaited.stopping():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN


def test_an_error_while_ending_does_not_hide_the_one_that_ended_the_query(caplog: pytest.LogCaptureFixture) -> None:
    """Spark calls `stop` while it handles an error, and shows the last one: so a further error is logged only."""
    with pytest.raises(OptionError, match="the first"):
        end_by_error(broken_reader())
    assert "the query could not be ended as it should" in caplog.text and "raise_defect" in caplog.text


def test_an_error_while_ending_is_raised_where_none_is_handled() -> None:
    """A program that ends a query itself gets the error."""
    with pytest.raises(KeyError, match="a defect"):
        broken_reader().stop()


def broken_reader() -> Any:
    """Return a reader whose planner cannot be ended."""
    reader: Any = make_stream_reader(parse_reader_options({"nameServer": "h:1", "subscribe": TOPIC}, stream=True))
    reader._planner = SimpleNamespace(finish=raise_defect)
    return reader


def raise_defect(_: float) -> None:
    """Raise an error that is not the library's."""
    raise KeyError("a defect")


def end_by_error(reader: Any) -> None:
    """End a query as Spark does after an error."""
    try:
        raise OptionError("startingOffsets", None, "the first")
    finally:
        reader.stop()
