"""Test queries with `lockQueues=true`, which hold the brokers' locks of the queues that they read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from broker_stub import StubBroker
from broker_stub.settings import Settings
from pyspark_rocketmq.client.membership import make_client_id
from pyspark_rocketmq.errors import LockRefused, OptionError
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.stream import require_plain
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.source.driving import GROUP, TOPIC, Checkpoint, Run, admin_of, options_for, queue_of, wait_for

LOCKING = {"ordering": "queue", "lockQueues": "true", "consumerGroup": GROUP}
QUICK = {**LOCKING, "lockInterval": "1s", "lockMaxLiveTime": "2s"}
LEASE_MS = 5000
SOON = PlannerRhythm(lock_retry_s=0.05)
"""A lock that another client holds is asked for again after 0.05 seconds."""
IMPATIENT = replace(SOON, lock_timeout_s=0.2)
OTHER = "10.0.0.9@other"
FIRST, SECOND = queue_of(0), queue_of(1)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of two queues, and a message in each; a lock's lease is five seconds."""
    with StubBroker({TOPIC: 2}, settings=Settings(lock_lease_ms=LEASE_MS)) as broker:
        fill(broker)
        yield broker


locking_run = partial(Run, rhythm=SOON)


def fill(stub: StubBroker) -> None:
    """Add one message to each queue."""
    for number in range(2):
        stub.put(TOPIC, b"x", queue_id=number)


def take(stub: StubBroker, *numbers: int) -> bool:
    """Lock the queues as another client, and return whether all of them were locked."""
    queues = {queue_of(number) for number in numbers}
    return admin_of(stub).groups.lock(GROUP, OTHER, queues).granted == queues


def give_back(stub: StubBroker, client_id: str, *numbers: int) -> None:
    """Release the locks of these queues that a client holds."""
    admin_of(stub).groups.unlock(GROUP, client_id, [queue_of(number) for number in numbers])


def test_queues_are_locked_before_they_are_read_and_freed_at_the_end(stub: StubBroker) -> None:
    """A query locks its queues under its client id, and releases them when it stops."""
    with locking_run(options_for(stub, **LOCKING, instanceName="one")) as run:
        assert len(run.trigger() or ()) == 2
        assert stub.locks(GROUP) == dict.fromkeys((FIRST, SECOND), make_client_id("one"))
    wait_for(lambda: stub.locks(GROUP) == {}, "all locks are free")


def test_a_queue_that_is_locked_elsewhere_waits_in_its_place(
    stub: StubBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """If another client locks a queue, the others are read, and it is read from its position once it is free."""
    assert take(stub, 1)
    with locking_run(options_for(stub, **LOCKING)) as run:
        assert [row.queue for row in run.trigger() or ()] == [FIRST]
        fill(stub)
        assert [row.queue for row in run.read_until(1)] == [FIRST]
        assert run.checkpoint.last["next"][TOPIC]["broker-a"] == {"0": 2, "1": 0}
        give_back(stub, OTHER, 1)
        assert [(row.queue, row.offset) for row in run.read_until(2)] == [(SECOND, 0), (SECOND, 1)]
    assert caplog.text.count("1 queues wait for their locks") == 1


def test_locks_are_renewed_while_nothing_is_planned(stub: StubBroker) -> None:
    """During a batch that takes longer than a lease, the locks are renewed and nobody else gets them."""
    with locking_run(options_for(stub, **QUICK)) as run:
        run.plan()
        after_the_lease = time.monotonic() + 1.2 * LEASE_MS / 1000
        wait_for(lambda: take(stub, 0) or time.monotonic() > after_the_lease, "the lease is over")
        assert not take(stub, 0) and not take(stub, 1)


def test_a_lost_lock_stops_its_queue(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If a renewal shows that another client has a lock, its queue is not read any more; the others are."""
    with locking_run(options_for(stub, **QUICK, instanceName="one")) as run:
        run.trigger()
        give_back(stub, make_client_id("one"), 0)
        assert take(stub, 0)
        wait_for(lambda: "another client holds the lock" in caplog.text, "the loss is noticed")
        fill(stub)
        assert [row.queue for row in run.read_until(1)] == [SECOND]


def test_a_lock_that_cannot_be_renewed_is_trusted_no_more(stub: StubBroker) -> None:
    """If locks are not renewed for `lockMaxLiveTime`, their queues are not read until they are locked again."""
    options = options_for(stub, **QUICK)
    with locking_run(options) as run:
        run.trigger()
        keeper = run.reader.planner.role.locks
        stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.LOCK_BATCH_MQ, times=None)
        wait_for(lambda: keeper.hold([FIRST, SECOND]) == set(), "no lock is trusted")
        fill(stub)
        assert run.trigger() is None
        stub.faults.clear()
        assert len(run.read_until(2)) == 2


def test_a_planned_batch_waits_for_its_locks(stub: StubBroker) -> None:
    """If another client locks the queues of a planned batch, a restart waits until the leases end, then reads it."""
    options, checkpoint = options_for(stub, **LOCKING), Checkpoint()
    with locking_run(options, checkpoint) as run:
        run.plan()
    wait_for(lambda: stub.locks(GROUP) == {}, "all locks are free")
    assert take(stub, 0, 1)
    with locking_run(options, checkpoint) as run:
        assert len(run.trigger() or ()) == 2


def test_a_planned_batch_does_not_wait_for_ever(stub: StubBroker) -> None:
    """If a planned batch does not get its locks in time, the query fails and advises `lockQueues=false`."""
    options, checkpoint = options_for(stub, **LOCKING), Checkpoint()
    with locking_run(options, checkpoint) as run:
        run.plan()
    wait_for(lambda: stub.locks(GROUP) == {}, "all locks are free")
    assert take(stub, 1)
    with (
        locking_run(options, checkpoint, rhythm=IMPATIENT) as run,
        pytest.raises(LockRefused, match=r"LOCK_REFUSED.*lockQueues=false"),
    ):
        run.trigger()


def test_a_stable_instance_takes_its_own_locks_back(stub: StubBroker) -> None:
    """A query with a given `instanceName` gets the locks that its earlier run left behind at once."""
    admin_of(stub).groups.lock(GROUP, make_client_id("one"), [FIRST, SECOND])
    with locking_run(options_for(stub, **LOCKING, instanceName="one")) as run:
        assert len(run.trigger() or ()) == 2


def test_two_queries_that_lock_keep_each_other_out(stub: StubBroker) -> None:
    """If two queries lock the same queues, the second reads nothing until the first has stopped."""
    with locking_run(options_for(stub, **LOCKING)) as first, locking_run(options_for(stub, **LOCKING)) as second:
        assert len(first.trigger() or ()) == 2
        assert second.trigger() == []
        first.reader.stop()
        assert len(second.read_until(2)) == 2


def test_queues_that_are_read_no_more_are_given_back(stub: StubBroker) -> None:
    """If a query no longer needs a queue, it releases the lock of that queue only."""
    with locking_run(options_for(stub, **LOCKING)) as run:
        run.trigger()
        assert run.reader.planner.role.locks.hold([FIRST]) == {FIRST}
        wait_for(lambda: take(stub, 1), "the other queue is free")
        assert not take(stub, 0)


def test_locks_need_pyspark_4_2(stub: StubBroker) -> None:
    """Before PySpark 4.2, `lockQueues=true` is refused with an error that names the needed version."""
    with pytest.raises(OptionError, match=r"OPTION_CONFLICT.*needs PySpark 4\.2"):
        require_plain(options_for(stub, **LOCKING))


# --- the trigger availableNow ----------------------------------------------------------------------------------------


def test_available_now_waits_for_an_answer_about_its_locks(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If responses to lock requests are lost, an availableNow run waits, and its warning blames no other client."""
    stub.faults.drop_reply(on=RequestCode.LOCK_BATCH_MQ, times=2)
    with locking_run(options_for(stub, **LOCKING), available_now=True) as run:
        assert len(run.drain()) == 2
    assert "2 queues wait for their locks, which brokers neither gave nor refused (REQUEST_TIMEOUT)" in caplog.text
    assert "others" not in caplog.text


def test_available_now_reads_what_others_give_back_in_time(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """If another client's lock ends in time, an availableNow run reads the free queues first and then that queue."""
    assert take(stub, 1)
    with locking_run(options_for(stub, **LOCKING), available_now=True) as run:
        assert [row.queue for row in run.drain()] == [FIRST, SECOND]
    assert f"1 queues wait for their locks, which others of group {GROUP} hold" in caplog.text


def test_available_now_does_not_end_short_of_its_target(stub: StubBroker) -> None:
    """If another client keeps a lock, an availableNow run reads the free queues and then fails."""
    assert take(stub, 1)
    with locking_run(options_for(stub, **LOCKING), available_now=True, rhythm=IMPATIENT) as run:
        assert [row.queue for row in run.trigger() or ()] == [FIRST]
        with pytest.raises(LockRefused, match=r"LOCK_REFUSED.*others of group.*lockQueues=false"):
            run.trigger()


def test_available_now_says_that_nobody_answered(stub: StubBroker) -> None:
    """If brokers fail all lock requests, an availableNow run fails, and the error blames no other client."""
    stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.LOCK_BATCH_MQ, times=None)
    with locking_run(options_for(stub, **LOCKING), available_now=True, rhythm=IMPATIENT) as run:
        with pytest.raises(LockRefused, match=r"neither gave nor refused \(BROKER_SYSTEM_ERROR\).*warnings") as told:
            run.drain()
        assert told.value.__cause__ is not None and "others" not in str(told.value)


def test_available_now_waits_for_no_queue_without_news(stub: StubBroker) -> None:
    """An availableNow run needs no lock of a queue that had nothing new when the run started."""
    options, checkpoint = options_for(stub, **LOCKING), Checkpoint()
    with locking_run(options, checkpoint, available_now=True) as run:
        run.drain()
    wait_for(lambda: take(stub, 0, 1), "all locks are free")
    with locking_run(options, checkpoint, available_now=True, rhythm=replace(SOON, lock_timeout_s=0.0)) as run:
        fill(stub)
        assert run.drain() == []
