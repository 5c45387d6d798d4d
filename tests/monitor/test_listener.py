"""Test the listener that reports how far queries are behind, with Spark's events but without Spark."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from broker_stub import StubCluster
from broker_stub.faults import NAME_SERVER
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.lag.figures import Figure
from pyspark_rocketmq.monitor import Activity, LagListener, QueryReport
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.monitor.events import TOPIC, progress_event, queue_of, run_event, tell
from tests.source.driving import wait_for

OFTEN_S = 0.01
NEVER_S = 3600.0
Listen = Callable[..., LagListener]


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub of two brokers, with a topic of two queues at each."""
    with StubCluster(2, topics={TOPIC: 2}) as made:
        yield made


@pytest.fixture
def listen(stub: StubCluster) -> Iterator[Listen]:
    """A function that makes a listener of the stub; listeners are closed after the test."""
    made: list[LagListener] = []

    def make(on_report: Callable[[QueryReport], object] | None = None, **given: object) -> LagListener:
        options = {"nameServer": stub.name_server, "mqClientApiTimeout": "200"}
        made.append(LagListener(options, on_report, **{"interval_s": OFTEN_S, **given}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


def report_of(listener: LagListener, run: str = "run-1") -> QueryReport:
    """Wait for the report of a run and return it."""
    wait_for(lambda: any(each.run_id == run for each in listener.reports()), f"a report of {run}")
    return next(each for each in listener.reports() if each.run_id == run)


def monitor_threads() -> int:
    """Return the number of threads of listeners."""
    return sum(thread.name == "rocketmq-monitor" for thread in threading.enumerate())


def test_the_callback_gets_the_lag_of_each_queue(stub: StubCluster, listen: Listen) -> None:
    """A report has the lag after the last batch that Spark told, and the batches of the run."""
    minute_ago_ms = stub.clock.now_ms() - 60_000
    for _ in range(5):
        stub.put(TOPIC, b"x", queue_id=1, broker="broker-b", store_timestamp=minute_ago_ms)
    got: list[QueryReport] = []
    listener = listen(got.append, interval_s=NEVER_S)

    tell(listener, {queue_of(0): 0, queue_of(1, "broker-b"): 2}, rows=2)
    wait_for(lambda: bool(got), "a report")

    [report] = got
    assert (report.query, report.query_id, report.run_id) == ("archive", "query-1", "run-1")
    assert [(each.broker, each.messages) for each in report.lag.queues] == [
        ("broker-a", Figure(0)),
        ("broker-b", Figure(3)),
    ]
    assert 60 <= (report.lag.total.seconds.value or 0) < 120
    assert (report.activity.batches, report.activity.rows, report.activity.last_seconds) == (1, 2, 1.5)
    assert listener.reports() == (report,)


def test_it_measures_again_at_the_interval(stub: StubCluster, listen: Listen) -> None:
    """Figures follow brokers and positions, also while Spark tells nothing."""
    listener = listen()
    tell(listener, {queue_of(0): 0})
    first = report_of(listener)

    stub.put(TOPIC, b"x", queue_id=0, broker="broker-a")
    wait_for(lambda: report_of(listener).lag.total.messages.value == 1, "the new message is seen")
    tell(listener, {queue_of(0): 1}, rows=1)
    wait_for(lambda: report_of(listener).lag.total.messages.value == 0, "the new position is seen")

    assert first.lag.total.messages.value == 0
    assert report_of(listener).activity.batches == 2


def test_events_do_not_wait_for_the_callback(listen: Listen) -> None:
    """Spark's thread goes on while the listener's own thread is stuck in a callback."""
    is_stuck, release = threading.Event(), threading.Event()

    def stick(report: QueryReport) -> None:
        is_stuck.set()
        release.wait(20)

    listener = listen(stick)
    tell(listener, {queue_of(0): 0})
    assert is_stuck.wait(20)

    tell(listener, {queue_of(0): 0}, rows=7)
    listener.onQueryIdle(run_event())
    tell(listener, {queue_of(1): 0}, run="run-2", name=None)
    listener.onQueryTerminated(run_event("run-1"))
    told_while_stuck = not release.is_set()
    release.set()

    assert told_while_stuck
    assert report_of(listener, "run-2").query == "query-1"
    assert [each.run_id for each in listener.reports()] == ["run-2"]


def test_the_thread_ends_with_the_last_query(listen: Listen) -> None:
    """A query that ends has no report any more; the thread ends with the last query, and begins with the next."""
    listener = listen()
    for run in ("run-1", "run-2"):
        tell(listener, {queue_of(0): 0}, run=run)
        report_of(listener, run)
        assert monitor_threads() == 1
        listener.onQueryTerminated(run_event(run))

        assert listener.reports() == ()
        wait_for(lambda: monitor_threads() == 0, "the thread ends")


def test_a_query_has_one_run(listen: Listen) -> None:
    """A run whose end the listener missed, because it was removed for a while, ends with the next run of its query."""
    listener = listen()
    tell(listener, {queue_of(0): 0})
    tell(listener, {queue_of(0): 0}, run="run-9", query="query-2", name="other")
    for run in ("run-1", "run-9"):
        report_of(listener, run)

    tell(listener, {queue_of(0): 0}, run="run-2")
    report_of(listener, "run-2")

    assert {each.run_id for each in listener.reports()} == {"run-9", "run-2"}


def test_a_closed_listener_reports_nothing(listen: Listen) -> None:
    """After `close` events are ignored, and there is no thread."""
    listener = listen()
    tell(listener, {queue_of(0): 0})
    report_of(listener)

    listener.close()
    tell(listener, {queue_of(0): 0}, run="run-2")

    assert (listener.reports(), monitor_threads()) == ((), 0)


def test_a_broker_that_hangs_makes_only_its_queues_unknown(
    stub: StubCluster, listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """Figures of other brokers are known; the log tells once that a part is unknown, and once that it is over."""
    hanging = stub.faults.drop_reply(on=RequestCode.GET_TOPIC_STATS_INFO, at="broker-b", times=None)
    listener = listen()
    with caplog.at_level(logging.INFO, "pyspark_rocketmq.monitor"):
        tell(listener, {queue_of(0): 0, queue_of(0, "broker-b"): 0})
        first = report_of(listener)
        wait_for(lambda: hanging.fired >= 3, "it is asked again")
        stub.faults.clear()
        wait_for(lambda: report_of(listener).lag.total.unknown_queues == 0, "it answers again")

    assert first.lag.queues[0].messages == Figure(0)
    assert "[REQUEST_TIMEOUT]" in str(first.lag.queues[1].messages.unknown)
    told = [record.getMessage() for record in caplog.records if "a part of its lag is unknown" in record.getMessage()]
    assert len(told) == 2 and "broker-b" in told[0] and told[1].startswith("query archive: no longer:")


def test_ages_by_the_clock_of_this_machine_are_told(
    stub: StubCluster, listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """If a broker does not tell its time, ages depend on the clock here; the log says so, and when it is over."""
    stub.put(TOPIC, b"x", queue_id=0, broker="broker-a")
    asked = stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.GET_BROKER_RUNTIME_INFO, times=None)
    listener = listen()
    with caplog.at_level(logging.INFO, "pyspark_rocketmq.monitor"):
        tell(listener, {queue_of(0): 0})
        wait_for(lambda: asked.fired >= 2, "two rounds")
        stub.faults.clear()
        wait_for(lambda: len(caplog.records) >= 2, "the broker tells its time")

    begun, over = [record.getMessage() for record in caplog.records]
    assert "ages are by the clock of this machine" in begun and "[BROKER_NO_PERMISSION]" in begun
    assert over.startswith("query archive: no longer:")


def test_an_age_that_is_unknown_has_its_reason_in_the_log(
    stub: StubCluster, listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the reason also if the number of messages is known, and only what depends on them is not."""
    stub.put(TOPIC, b"x", queue_id=0, broker="broker-a")
    stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.PULL_MESSAGE, times=None)
    listener = listen()
    tell(listener, {queue_of(0): 0})

    total = report_of(listener).lag.total

    assert (total.messages.value, total.messages.unknown, total.seconds.value) == (1, None, None)
    assert "a part of its lag is unknown: [BROKER_NO_PERMISSION]" in caplog.text


def test_without_a_name_server_all_is_unknown(stub: StubCluster, listen: Listen) -> None:
    """If no brokers can be found, each queue is listed with its position, and with the reason for the rest."""
    stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.GET_BROKER_CLUSTER_INFO, at=NAME_SERVER, times=None)
    listener = listen()
    tell(listener, {queue_of(1): 7})

    lag = report_of(listener).lag

    assert (lag.queues[0].position, lag.total.messages.value) == (Figure(7), None)
    assert "[BROKER_NO_PERMISSION]" in str(lag.queues[0].messages.unknown)
    assert "[BROKER_NO_PERMISSION]" in str(lag.total.seconds.unknown)


def test_a_callback_that_raises_is_called_again(listen: Listen, caplog: pytest.LogCaptureFixture) -> None:
    """A failing callback is logged once with its traceback, and called with the next reports."""
    calls: list[QueryReport] = []

    def fail_twice(report: QueryReport) -> None:
        calls.append(report)
        if len(calls) < 3:
            raise ValueError("no such channel")

    listener = listen(fail_twice)
    with caplog.at_level(logging.INFO, "pyspark_rocketmq.monitor"):
        tell(listener, {queue_of(0): 0})
        wait_for(lambda: len(calls) > 3, "it is called again")

    failed, over = caplog.records
    assert "no such channel" in failed.getMessage() and failed.exc_info
    assert over.getMessage().startswith("query archive: no longer: the callback")


def test_an_event_that_cannot_be_used_leaves_no_old_report(listen: Listen, caplog: pytest.LogCaptureFixture) -> None:
    """If an event has no JSON of a progress, the query has no report until the next event, and the log says why."""
    listener = listen()
    tell(listener, {queue_of(0): 0})
    report_of(listener)

    with caplog.at_level(logging.INFO, "pyspark_rocketmq.monitor"):
        tell(listener, {}, text="no JSON")
        wait_for(lambda: listener.reports() == (), "the old report is gone")
        tell(listener, {queue_of(0): 0})
        wait_for(lambda: len(caplog.records) == 2, "the end of the trouble is logged")

    assert report_of(listener).activity.batches == 3
    begun, over = [record.getMessage() for record in caplog.records if "cannot be used" in record.getMessage()]
    assert "JSONDecodeError" in begun and over.startswith("query archive: no longer:")


def test_an_idle_query_is_alive(listen: Listen) -> None:
    """An idle query, and a trigger without a batch, are signs of life and no batches."""
    listener = listen()
    tell(listener, {queue_of(0): 0}, rows=3)
    last = report_of(listener).activity

    def await_life(after_s: float) -> Activity:
        wait_for(lambda: report_of(listener).activity.seen_at_s > after_s, "a sign of life")
        return report_of(listener).activity

    listener.onQueryIdle(run_event())
    idle = await_life(last.seen_at_s)
    tell(listener, {queue_of(0): 0}, durations={"triggerExecution": 5})
    without_batch = await_life(idle.seen_at_s)

    for each in (idle, without_batch):
        assert (each.batches, each.rows, each.last_rows) == (1, 3, 3)


def test_other_queries_are_not_reported(listen: Listen) -> None:
    """Queries that read no RocketMQ, or whose name is not asked for, have no report."""
    listener = listen(queries=["bills", "rates"])
    tell(listener, {queue_of(0): 0}, name="archive")
    tell(listener, None, name="rates", run="run-2")
    tell(listener, {queue_of(0): 0}, name="bills", run="run-3")

    assert report_of(listener, "run-3").query == "bills"
    assert len(listener.reports()) == 1


def test_a_query_without_a_position_is_reported(listen: Listen) -> None:
    """A query that waits for its first position, for locks for example, has a report, whose lag is unknown."""
    listener = listen()
    tell(listener, {}, text='{"sources": [{"endOffset": {"version": 1}}]}', durations={"triggerExecution": 5})

    total = report_of(listener).lag.total

    assert (total.queues, total.messages.value) == (0, None)
    assert total.messages.unknown == "a source of the query has no position yet"


def test_a_round_asks_each_broker_once(listen: Listen, stub: StubCluster) -> None:
    """A query without lag costs one request per broker and topic in each round, for any number of queues.

    Queues that are behind are asked for their next message, too, in one burst per broker.
    """
    rounds: list[QueryReport] = []
    asked = {code: stub.faults.delay(1, on=code, times=None) for code in RequestCode}
    listener = listen(rounds.append)
    queues = [queue_of(number, broker) for broker in ("broker-a", "broker-b") for number in range(2)]
    tell(listener, dict.fromkeys(queues, 0))
    wait_for(lambda: len(rounds) >= 3, "three rounds")
    listener.close()

    at_brokers = {code: fault.fired for code, fault in asked.items() if fault.fired}
    assert at_brokers == {RequestCode.GET_TOPIC_STATS_INFO: 2 * len(rounds)}


def test_what_costs_much_is_measured_less_often(listen: Listen) -> None:
    """The thread takes at most a fiftieth of a core: a callback that computes for long postpones the next round."""
    rounds: list[tuple[float, float]] = []

    def compute(report: QueryReport) -> None:
        began_s, used_s = time.monotonic(), time.thread_time()
        sum(range(400_000))
        rounds.append((began_s, time.thread_time() - used_s))

    listener = listen(compute)
    tell(listener, {queue_of(0): 0})
    wait_for(lambda: len(rounds) == 2, "two rounds")

    (first_s, used_s), (second_s, _) = rounds
    assert second_s - first_s > 50 * used_s > OFTEN_S


def test_an_event_that_comes_twice_counts_once(listen: Listen) -> None:
    """A listener that was added twice gets each event twice; rows and batches are not counted twice."""
    listener = listen()
    for event in (progress_event({queue_of(0): 0}, rows=3), progress_event({queue_of(0): 0}, rows=4)):
        listener.onQueryProgress(event)
        listener.onQueryProgress(event)
    wait_for(lambda: report_of(listener).activity.last_rows == 4, "the second batch is seen")

    activity = report_of(listener).activity
    assert (activity.batches, activity.rows) == (2, 7)


def test_a_callback_that_exits_ends_no_measurement(listen: Listen, caplog: pytest.LogCaptureFixture) -> None:
    """`sys.exit` in a callback cannot end the program from there; it is logged like any failure."""
    calls: list[QueryReport] = []

    def leave(report: QueryReport) -> None:
        calls.append(report)
        sys.exit("too far behind")

    listener = listen(leave)
    tell(listener, {queue_of(0): 0})
    wait_for(lambda: len(calls) >= 2, "it is called again")

    assert "SystemExit('too far behind')" in caplog.text


@pytest.mark.parametrize("interval_s", [math.inf, 1e300])
def test_an_interval_may_be_endless(listen: Listen, interval_s: float) -> None:
    """With an endless interval each run is measured once, a later one too."""
    listener = listen(interval_s=interval_s)
    for run in ("run-1", "run-2"):
        tell(listener, {queue_of(0): 0}, run=run)
        report_of(listener, run)

    assert monitor_threads() == 1


def test_a_thread_that_cannot_start_is_started_later(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the machine has no thread left for the listener, the next event starts it."""
    listener = listen()

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(threading.Thread, "start", fail)
        tell(listener, {queue_of(0): 0})
    tell(listener, {queue_of(0): 0})

    assert report_of(listener).activity.batches == 2


def test_names_of_queries_are_no_single_text(listen: Listen) -> None:
    """One name instead of a list of names would match no query, so it is refused."""
    with pytest.raises(OptionError, match="queries = 'archive'"):
        listen(queries="archive")


def test_an_interval_is_positive(listen: Listen) -> None:
    """An interval of 0 would ask brokers without pause, so it is refused."""
    with pytest.raises(OptionError, match="interval_s = '0'"):
        listen(interval_s=0)
