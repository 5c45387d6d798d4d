"""Check that planning waits for brokers that do not answer, as tasks do."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import RequestTimeout
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import TOPIC, Run, batch_options_for, options_for, read_batch, wait_for

STATISTICS = RequestCode.GET_TOPIC_STATS_INFO
IMPATIENT = {"mqClientApiTimeout": "300", "fetchOffset.retryIntervalMs": "20"}


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue, and one message in it."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.put(TOPIC, b"a")
        yield stub


def test_planning_waits_for_a_mute_broker(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a broker does not answer eight requests, planning waits, and one warning names broker and time limit."""
    with Run(options_for(stub, **IMPATIENT)) as run:
        stub.faults.drop_reply(on=STATISTICS, times=8)
        assert len(run.trigger() or ()) == 1
    [warning] = [line for line in caplog.messages if "waiting" in line]
    assert "120 s (pollTimeoutMs or sendTimeoutMs)" in warning and stub.broker_address() in warning


def test_a_batch_read_waits_for_a_mute_broker_too(stub: StubBroker) -> None:
    """If a broker does not answer eight requests, the planning of a batch read waits, too."""
    stub.faults.drop_reply(on=STATISTICS, times=8)
    assert len(read_batch(batch_options_for(stub, **IMPATIENT))) == 1


def test_an_explicit_number_of_retries_rules(stub: StubBroker) -> None:
    """If the user sets `fetchOffset.numRetries`, planning fails after that number of retries."""
    asked = stub.faults.drop_reply(on=STATISTICS, times=None)
    with Run(options_for(stub, **IMPATIENT, **{"fetchOffset.numRetries": "3"})) as run:
        with pytest.raises(RequestTimeout):
            run.plan()
    assert asked.fired == 4


def test_planning_waits_no_longer_than_tasks_do(stub: StubBroker) -> None:
    """If a broker never answers, planning fails after `pollTimeoutMs`, and the error gives that time."""
    stub.faults.drop_reply(on=STATISTICS, times=None)
    with Run(options_for(stub, pollTimeoutMs="2s", pullTimeoutMs="1s", **IMPATIENT)) as run:
        with pytest.raises(RequestTimeout, match=r"repeated for 2 s, pollTimeoutMs.*address "):
            run.plan()


def test_waiting_for_a_broker_ends_by_sigterm(stub: StubBroker) -> None:
    """If SIGTERM comes while planning waits for a broker, the wait ends with SystemExit."""
    asked = stub.faults.drop_reply(on=STATISTICS, times=None)

    def end_query() -> None:
        wait_for(lambda: asked.fired >= 2, "the planner asks again")
        os.kill(os.getpid(), signal.SIGTERM)

    with Run(options_for(stub, **IMPATIENT)) as run:
        run.reader.initialOffset()
        ending = threading.Thread(target=end_query)
        ending.start()
        with pytest.raises(SystemExit):
            run.plan()
        ending.join()
