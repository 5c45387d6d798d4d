"""Test how a driver program commits a query's position by itself, with a call or with a listener."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import BrokerError, GroupInUse, OptionError
from pyspark_rocketmq.lag.figures import Figure
from pyspark_rocketmq.progress import CommitListener, commit_offsets, lag
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.source.driving import GROUP, TOPIC, join, queue_of, store_offsets, wait_for


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues."""
    with StubBroker({TOPIC: 2}) as broker:
        yield broker


def progress(*offsets: int, group: str | None = GROUP, topic: str = TOPIC, run: str = "run-1") -> Any:
    """Return Spark's progress of a query with a RocketMQ source at these offsets, and with sources of other kinds."""
    end: dict[str, Any] = {"next": {topic: {"broker-a": {str(n): at for n, at in enumerate(offsets)}}}, "version": 1}
    if group:
        end["group"] = group
    sources = [{"endOffset": offset} for offset in (end, 17, None, {"logOffset": 3})]
    return SimpleNamespace(json=json.dumps({"sources": [*sources, {}]}), id="query-1", runId=run)


def over_connect(last: Any) -> Any:
    """Return the progress as Spark Connect reports it: each offset is JSON text instead of an object."""
    sources = json.loads(last.json)["sources"]
    texts = [{name: json.dumps(offset) for name, offset in source.items()} for source in sources]
    return SimpleNamespace(json=json.dumps({"sources": texts}))


def query(last: Any) -> Any:
    """Return a stand-in for a streaming query whose last progress is `last`."""
    return SimpleNamespace(lastProgress=last)


def options(stub: StubBroker, **given: str) -> dict[str, str]:
    """Return options of a reader of the stub, including some that a commit ignores."""
    return {"nameServer": stub.name_server, "subscribe": TOPIC, "consumerGroup": GROUP, **given}


def test_exact_ends_are_published_when_asked_for(stub: StubBroker) -> None:
    """`commit_offsets` commits the end offsets of the query's last progress for all queues."""
    commit_offsets(query(progress(3, 0)), options(stub, maxOffsetsPerTrigger="10"))
    assert stub.offsets(GROUP) == {queue_of(0): 3, queue_of(1): 0}


def test_offsets_may_come_as_text(stub: StubBroker) -> None:
    """`commit_offsets` reads the offsets also if they are text, as from Spark Connect."""
    commit_offsets(query(over_connect(progress(3, 0))), options(stub))
    assert stub.offsets(GROUP) == {queue_of(0): 3, queue_of(1): 0}


def test_a_query_without_progress_has_nothing_to_publish(stub: StubBroker) -> None:
    """If a query has no progress yet, `commit_offsets` commits nothing."""
    commit_offsets(query(None), options(stub))
    assert stub.offsets(GROUP) == {}


def test_it_never_goes_back(stub: StubBroker) -> None:
    """If the broker has a larger position of a queue, `commit_offsets` leaves it."""
    store_offsets(stub, {queue_of(0): 5})
    commit_offsets(query(progress(3, 1)), options(stub))
    assert stub.offsets(GROUP) == {queue_of(0): 5, queue_of(1): 1}


@pytest.mark.parametrize("group", [None, "other"])
def test_a_query_that_does_not_publish_for_the_group_is_refused(stub: StubBroker, group: str | None) -> None:
    """If the query commits for another group or for none, `commit_offsets` fails."""
    with pytest.raises(OptionError, match="consumerGroup = 'spark-orders': no source of the query commits"):
        commit_offsets(query(progress(3, group=group)), options(stub))


def test_a_group_is_needed(stub: StubBroker) -> None:
    """If the options name no group, `commit_offsets` and `CommitListener` fail."""
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\] consumerGroup"):
        commit_offsets(query(None), {"nameServer": stub.name_server})
    with pytest.raises(OptionError, match=r"\[OPTION_MISSING\] consumerGroup"):
        CommitListener({"nameServer": stub.name_server})


def test_who_asks_learns_of_failures(stub: StubBroker) -> None:
    """If a broker refuses the commit, or the group has live members, `commit_offsets` raises an error."""
    stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.UPDATE_CONSUMER_OFFSET)
    with pytest.raises(BrokerError, match="scripted"):
        commit_offsets(query(progress(3, 1)), options(stub))
    join(stub)
    with pytest.raises(GroupInUse):
        commit_offsets(query(progress(3, 1)), options(stub))


def test_a_listener_follows_the_queries_of_its_group(stub: StubBroker) -> None:
    """A listener commits the progress of all queries of its group, and ignores other groups."""
    listener = CommitListener(options(stub, subscribe=f"{TOPIC},bills"))
    stub.state.brokers[0].topics.find_or_create("bills", 1)
    of_bills = progress(9, topic="bills", run="run-2")
    for each in (progress(1, 0), of_bills, progress(9, 9, group="other", run="run-3"), progress(2, 1)):
        listener.onQueryProgress(SimpleNamespace(progress=each))  # type: ignore[arg-type]
    for run in ("run-1", "run-2", "run-3"):
        end(listener, run)
    assert stub.offsets(GROUP) == {queue_of(0): 2, queue_of(1): 1, queue_of(0, topic="bills"): 9}


def end(listener: CommitListener, run: str = "run-1") -> None:
    """Tell a listener that a run of a query has ended."""
    listener.onQueryTerminated(SimpleNamespace(id="query-1", runId=run))  # type: ignore[arg-type]


def committing_threads() -> int:
    """Return the number of threads that commit."""
    return sum(thread.name == "rocketmq-commit" for thread in threading.enumerate())


def test_a_group_may_be_moved_after_its_query(stub: StubBroker) -> None:
    """A listener has no thread for a query that ended, so an administrator's move stays, and the next run goes on."""
    before = committing_threads()
    listener = CommitListener(options(stub))
    listener.onQueryProgress(SimpleNamespace(progress=progress(9, 9)))  # type: ignore[arg-type]
    end(listener)
    assert stub.offsets(GROUP) == {queue_of(0): 9, queue_of(1): 9}
    wait_for(lambda: committing_threads() == before, "nobody commits for the group any more")

    store_offsets(stub, {queue_of(0): 3, queue_of(1): 3})
    listener.onQueryProgress(SimpleNamespace(progress=progress(4, 3, run="run-2")))  # type: ignore[arg-type]
    end(listener, "run-2")

    assert stub.offsets(GROUP) == {queue_of(0): 4, queue_of(1): 3}


def test_a_commit_that_fails_at_the_end_is_repeated(stub: StubBroker) -> None:
    """A thread whose query has ended goes on until its positions are committed."""
    before = committing_threads()
    stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.UPDATE_CONSUMER_OFFSET, times=2)
    listener = CommitListener(options(stub))
    listener.onQueryProgress(SimpleNamespace(progress=progress(3, 1)))  # type: ignore[arg-type]
    end(listener)

    wait_for(lambda: committing_threads() == before, "the thread has ended")
    assert stub.offsets(GROUP) == {queue_of(0): 3, queue_of(1): 1}


def test_a_query_that_restarts_leaves_no_threads(stub: StubBroker) -> None:
    """The positions of a run replace those that earlier runs of the query could not commit."""
    before = committing_threads()
    stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.UPDATE_CONSUMER_OFFSET, times=None)
    listener = CommitListener(options(stub))
    for number in range(3):
        listener.onQueryProgress(SimpleNamespace(progress=progress(number, 0, run=f"run-{number}")))  # type: ignore[arg-type]
        end(listener, f"run-{number}")

    wait_for(lambda: committing_threads() == before + 1, "the threads of earlier runs end")
    stub.faults.clear()
    wait_for(lambda: stub.offsets(GROUP) == {queue_of(0): 2, queue_of(1): 0}, "the last run's positions are committed")
    wait_for(lambda: committing_threads() == before, "its thread ends")


# --- lag -------------------------------------------------------------------------------------------------------------


def test_lag_is_what_brokers_hold_after_the_last_progress(stub: StubBroker) -> None:
    """`lag` measures from the end of the last batch, whether or not the query commits, and commits nothing."""
    for number in range(6):
        stub.put(TOPIC, b"x", queue_id=number % 2)

    found = lag(query(progress(1, 3, group=None)), options(stub))
    over = lag(query(over_connect(progress(1, 3))), options(stub))

    assert [each.messages for each in found.queues] == [Figure(2), Figure(0)]
    assert (found.total.messages.value, found.total.unknown_queues) == (2, 0)
    assert over.total.messages.value == 2
    assert stub.offsets(GROUP) == {}


def test_lag_of_another_clusters_queues_is_unknown(stub: StubBroker) -> None:
    """Queues that this cluster does not have are unknown, with the reason, and not without lag."""
    found = lag(query(progress(1, topic="elsewhere")), options(stub))

    assert found.total.unknown_queues == 1 and "[TOPIC_NOT_FOUND]" in str(found.queues[0].messages.unknown)


def test_the_lag_of_a_query_without_progress_is_unknown(stub: StubBroker) -> None:
    """Before the first progress event the lag is unknown, and not 0; so it is if no source is RocketMQ's."""
    early = lag(query(None), options(stub))
    foreign = lag(query(SimpleNamespace(json='{"sources": [{"endOffset": {"logOffset": 3}}]}')), options(stub))

    assert (early.queues, early.total.messages.value, foreign.total.messages.value) == ((), None, None)
    assert "no progress event yet" in str(early.total.messages.unknown)
    assert "no source with a position of RocketMQ" in str(foreign.total.messages.unknown)


def test_a_position_that_cannot_be_read_makes_lag_a_bound(stub: StubBroker) -> None:
    """The position of a newer release is not skipped without a word: the total says that a part is missing."""
    stub.put(TOPIC, b"x", queue_id=0)
    readable = json.loads(progress(0, 0).json)["sources"]
    newer = {"endOffset": {"next": {"bills": {"broker-a": {"0": 1}}}, "version": 99}}

    last = SimpleNamespace(json=json.dumps({"sources": [*readable, newer]}))
    for each in (last, over_connect(last)):
        found = lag(query(each), options(stub))

        assert (found.total.messages.value, found.total.messages.is_bound) == (1, True)
        assert "version" in str(found.total.messages.unknown)


def test_a_source_without_a_position_makes_lag_a_bound(stub: StubBroker) -> None:
    """A source that has no position yet may have much to read, so the total is no known 0."""
    beside = json.loads(progress(0, 0).json)["sources"]
    early = {"endOffset": {"version": 1}}
    alone, both = (SimpleNamespace(json=json.dumps({"sources": sources})) for sources in ([early], [*beside, early]))

    found, nothing = (lag(query(each), options(stub)).total.messages for each in (both, alone))

    assert (found.value, found.is_bound, nothing.value) == (0, True, None)
    assert found.unknown == nothing.unknown == "a source of the query has no position yet"


def test_two_sources_of_one_queue_are_as_far_behind_as_the_slower_one(stub: StubBroker) -> None:
    """Where two sources of a query read the same queue, its lag counts from the smaller position."""
    for _ in range(6):
        stub.put(TOPIC, b"x", queue_id=0)
    sources = [source for at in (2, 5) for source in json.loads(progress(at, 0).json)["sources"]]

    for each in (sources, sources[::-1]):
        found = lag(query(SimpleNamespace(json=json.dumps({"sources": each}))), options(stub))

        assert (found.queues[0].position, found.total.messages.value) == (Figure(2), 4)
