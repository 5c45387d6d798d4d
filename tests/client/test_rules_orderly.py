"""Each rule of consuming in order holds: under a trusted lock, by one worker at a time, while the queue is held."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_rocketmq.client.assignment import Assigned, AssignmentTable
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.locks import QueueLocks
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import SUCCESS, SUSPEND, Ordered, suspend
from pyspark_rocketmq.client.settings import MessageModel, Rhythm
from pyspark_rocketmq.cluster.groups import Locked
from pyspark_rocketmq.errors import ConnectionLost
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, TIMEOUT_S, TOPIC, Group, Log, ManualClock, queue, until
from tests.client.timeline import Timeline

LOCK = RequestCode.LOCK_BATCH_MQ
ALONE = replace(Rhythm(), pull_max_idle_s=86400.0, first_lock_s=86400.0, lock_s=86400.0)
"""RocketMQ's periods, but no lock is renewed by itself, and a queue may wait for its next pull for a day."""


@pytest.fixture
def one_queue(make_group: Callable[..., Group]) -> Group:
    """Return a group whose topic has one queue."""
    return make_group(queues=1)


def _start(group: Group, log: Log, *, thread_count: int = 1, **given: Any) -> tuple[Timeline, PushConsumer]:
    """Start a consumer, and stop the clock when its first pull is due."""
    timeline = Timeline(group)
    consumer = group.orderly(log, clock=timeline.clock, rhythm=ALONE, thread_count=thread_count, **given)
    timeline.join(consumer)
    timeline.pass_s(0.5)
    return timeline, consumer


def _held(timeline: Timeline, number: int = 0) -> Assigned:
    held: Assigned = timeline.member.table.get(queue(number))
    return held


# --- locks -----------------------------------------------------------------------------------------------------------


def test_no_run_begins_under_a_lock_that_is_not_trusted_any_more(one_queue: Group) -> None:
    """30 s after its last renewal a lock is trusted, and later no longer; it is renewed before the next message.

    That is tried after 0.1 s, and again 3.1 s later if the broker does not grant it.
    """
    log = Log()
    timeline, _ = _start(one_queue, log)
    timeline.pass_s(29.5)
    one_queue.put("a")
    log.wait_for(1)
    timeline.wait_for_threads()

    refused = one_queue.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=LOCK, times=None)
    timeline.pass_s(0.25)
    one_queue.put("b")
    until(lambda: _held(timeline).process_queue.message_count == 1)
    timeline.wait_for_threads()
    timeline.pass_s(0.0625)
    timeline.wait_for_threads()
    assert (log.bodies, refused.fired) == ([b"a"], 0)
    timeline.clock.advance_until(lambda: refused.fired or len(log.messages) > 1)
    timeline.wait_for_threads()
    timeline.pass_s(3.0, 0.25)
    timeline.wait_for_threads()
    assert (log.bodies, refused.fired) == ([b"a"], 1)

    timeline.pass_s(0.25, 0.125)
    until(lambda: refused.fired == 2)
    one_queue.stub.faults.clear()
    timeline.clock.advance_until(lambda: len(log.messages) == 2)


def test_no_batch_follows_under_a_lock_that_is_not_trusted_any_more(one_queue: Group) -> None:
    """If a lock expires while the listener runs, the next message of the same run waits until it is renewed."""
    one_queue.put("a", "b")
    timeline: Timeline

    def hold_long(batch: Sequence[ReceivedMessage]) -> object:
        if batch[0].body == b"a":
            timeline.clock.advance(30.25)
        return SUCCESS

    log = Log(hold_long)
    timeline = Timeline(one_queue)
    timeline.join(one_queue.orderly(log, clock=timeline.clock, rhythm=ALONE, thread_count=1))
    refused = one_queue.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=LOCK, times=None)
    timeline.pass_s(0.5)
    log.wait_for(1)
    timeline.clock.advance_until(lambda: refused.fired or len(log.messages) > 1)
    assert log.bodies == [b"a"]

    one_queue.stub.faults.clear()
    timeline.clock.advance_until(lambda: len(log.messages) == 2)


def test_the_lock_of_a_queue_given_up_is_not_renewed() -> None:
    """Neither a regular renewal nor one before a run prolongs the lock of a queue that the member gives up."""
    asked: list[list[MessageQueue]] = []

    def lock(_group: str, _client_id: str, queues: list[MessageQueue], _deadline: object) -> Locked:
        asked.append(queues)
        return Locked(frozenset(queues), frozenset(), {})

    clock, table = ManualClock(), AssignmentTable()
    locks = QueueLocks(cast(Any, SimpleNamespace(lock=lock)), GROUP, "me", table, clock)
    held, lost = (Assigned(queue(number), 0, orderly=True, clock=clock.now_s) for number in range(2))
    for each in (held, lost):
        table.add(each)
    lost.process_queue.dropped = True
    clock.advance(25.0)
    locks.renew_all()
    assert not locks.take(queue(1)) and locks.take(queue(0))

    assert asked == [[queue(0)], [queue(0)]]
    assert [each.process_queue.is_lock_expired(20.0) for each in (held, lost)] == [False, True]


@pytest.mark.parametrize("answer", ["refused", "unknown"])
def test_only_a_refusal_ends_a_lock_at_once(answer: str) -> None:
    """If another client has the lock, it is lost at once; if no broker answers, it is trusted until it ages."""
    refused = frozenset({queue(0)} if answer == "refused" else ())
    unknown = {"broker-a": ConnectionLost("scripted")} if answer == "unknown" else {}
    clock, table = ManualClock(), AssignmentTable()
    groups = SimpleNamespace(lock=lambda *_: Locked(frozenset(), refused, unknown))
    locks = QueueLocks(cast(Any, groups), GROUP, "me", table, clock)
    held = Assigned(queue(0), 0, orderly=True, clock=clock.now_s)
    held.process_queue.locked = True
    table.add(held)
    clock.advance(25.0)
    locks.renew_all()

    assert held.process_queue.locked == (answer == "unknown")
    assert held.process_queue.is_lock_expired(20.0)


def test_a_queue_is_handed_over_only_when_its_listener_has_returned(make_group: Callable[..., Group]) -> None:
    """A queue that is assigned to another member keeps its lock while the listener works on it."""
    group, gate = make_group(queues=2), threading.Event()
    group.put("a", queue_id=0)
    group.put("b", queue_id=1)
    log, other_log = Log(lambda _: gate.wait(TIMEOUT_S) and SUCCESS), Log()
    timeline, first = _start(group, log, thread_count=2)
    log.wait_for(2)
    second = group.orderly(other_log)
    moved = _wait_for_refused_hand_over(timeline, group, second)
    assert {group.stub.locks(GROUP)[queue(number)] for number in range(2)} == {first.client_id}
    assert timeline.member.table.get(moved.queue) is moved

    gate.set()
    timeline.clock.advance_until(lambda: group.stub.locks(GROUP).get(moved.queue) == second.client_id)
    assert other_log.wait_for(1)[0].queue == moved.queue


def test_a_listener_that_never_returns_loses_its_queue_20_s_after_the_last_renewal(
    make_group: Callable[..., Group],
) -> None:
    """A queue that is given up is handed over although its listener runs, when its lock was not renewed for 20 s."""
    group, gate = make_group(queues=2), threading.Event()
    group.put("a", queue_id=0)
    group.put("b", queue_id=1)
    log = Log(lambda _: gate.wait(10 * TIMEOUT_S) and SUCCESS)
    timeline, first = _start(group, log, thread_count=2)
    log.wait_for(2)
    second = group.orderly(Log())
    moved = _wait_for_refused_hand_over(timeline, group, second)
    attempts = moved.unlock_attempts
    timeline.clock.advance(20.0 - timeline.now_s)
    timeline.member.rounds.wake()
    until(lambda: moved.unlock_attempts > attempts)
    assert group.stub.locks(GROUP)[moved.queue] == first.client_id

    timeline.settle()
    timeline.clock.advance(1.25)
    until(lambda: group.stub.locks(GROUP).get(moved.queue) == second.client_id)
    gate.set()


def _wait_for_refused_hand_over(timeline: Timeline, group: Group, other: PushConsumer) -> Assigned:
    """Wait until the first member has tried in vain to give a queue to the other one; return what it still holds."""
    until(lambda: other.client_id in group.stub.groups()[GROUP])
    timeline.clock.advance(1.0)  # Rounds of rebalancing are a second apart.
    timeline.member.rounds.wake()

    def kept() -> list[Assigned]:
        return [each for each in timeline.member.table.all(TOPIC) if each.unlock_attempts]

    until(kept)
    timeline.settle()  # The next round is planned when this one ends.
    [moved] = kept()
    return moved


# --- one worker at a time --------------------------------------------------------------------------------------------


def test_a_queue_that_comes_back_waits_for_its_old_listener(one_queue: Group) -> None:
    """If a queue is taken again while its listener runs, no second worker consumes it before the first has returned."""
    gate = threading.Event()
    one_queue.put("a")
    log = Log(lambda _: gate.wait(TIMEOUT_S) and SUCCESS)
    timeline, _ = _start(one_queue, log, thread_count=2, message_model=MessageModel.BROADCASTING)
    log.wait_for(1)
    old = _held(timeline)
    timeline.member.reset(TOPIC, {queue(0): 0})

    def is_back() -> bool:
        new = _held(timeline)
        return new is not None and new is not old and new.process_queue.message_count == 1

    timeline.clock.advance_until(is_back)
    timeline.pass_s(1.0, 0.125)
    assert len(log.messages) == 1

    gate.set()
    timeline.clock.advance_until(lambda: len(log.messages) == 2)


@pytest.mark.parametrize(("spent_s", "run"), [(30.0, 3), (30.25, 2)])
def test_a_run_ends_after_a_minute(make_group: Callable[..., Group], spent_s: float, run: int) -> None:
    """A worker turns to the other queue when it has consumed one for more than 60 s."""
    group = make_group(queues=2)
    for number in range(2):
        group.put(*"abcdef", queue_id=number)
    timeline: Timeline

    def work(_: Sequence[ReceivedMessage]) -> object:
        until(lambda: _held(timeline, 0).next_offset == _held(timeline, 1).next_offset == 6)
        timeline.clock.advance(spent_s)
        return SUCCESS

    log = Log(work)
    timeline = Timeline(group)
    timeline.join(
        group.orderly(log, clock=timeline.clock, rhythm=ALONE, thread_count=1, message_model=MessageModel.BROADCASTING)
    )
    timeline.pass_s(0.5)
    log.wait_for(12)
    lengths = [len(list(run)) for _, run in groupby(message.queue.queue_id for message in log.messages)]
    assert lengths == [run] * (12 // run)


def _check_that_it_rests(timeline: Timeline, log: Log, rest_s: float) -> None:
    """Check that the first message comes a second time after this pause, and not before."""
    log.wait_for(1)
    timeline.wait_for_threads()
    timeline.pass_s(rest_s * 0.96)
    timeline.wait_for_threads()
    assert len(log.messages) == 1

    timeline.pass_s(rest_s * 0.05)
    log.wait_for(2)


@pytest.mark.parametrize(
    ("answer", "rest_s"),
    [(SUSPEND, 1.0), (suspend(0.0), 0.01), (suspend(5.0), 5.0), (suspend(100.0), 30.0)],
    ids=["default", "shortest", "given", "longest"],
)
def test_a_failed_message_rests_for_10_ms_to_30_s(one_queue: Group, answer: Ordered, rest_s: float) -> None:
    """A failed message comes again after the pause of settings or result, but after 10 ms at least and 30 s at most."""
    one_queue.put("a")
    log = Log(lambda _: answer if len(log.messages) == 1 else SUCCESS)
    timeline, _ = _start(one_queue, log, message_model=MessageModel.BROADCASTING)
    _check_that_it_rests(timeline, log, rest_s)


@pytest.mark.parametrize(("given_s", "rest_s"), [(0.0, 0.01), (3.0, 3.0), (60.0, 30.0)])
def test_the_pause_of_the_settings_has_the_same_bounds(one_queue: Group, given_s: float, rest_s: float) -> None:
    """`suspend_s` is kept between 10 ms and 30 s, too."""
    one_queue.put("a")
    log = Log(lambda _: SUSPEND if len(log.messages) == 1 else SUCCESS)
    timeline, _ = _start(one_queue, log, message_model=MessageModel.BROADCASTING, suspend_s=given_s)
    _check_that_it_rests(timeline, log, rest_s)


# --- queues that were given up ---------------------------------------------------------------------------------------


def test_a_queue_given_up_before_the_listener_is_not_consumed(one_queue: Group) -> None:
    """If a queue is given up while a worker waits to call the listener, the listener is not called."""
    log = Log()
    timeline, _ = _start(one_queue, log)
    held = _held(timeline)
    with held.process_queue.consume_lock:  # As a round of rebalancing holds it while it gives the queue up.
        one_queue.put("a")
        until(lambda: held.process_queue.taken_offsets == [0])
        held.process_queue.dropped = True
    timeline.wait_for_threads()

    assert log.messages == []


@pytest.mark.parametrize("model", list(MessageModel))
def test_a_queue_given_up_during_the_listener_is_consumed_and_committed_no_further(
    one_queue: Group, model: MessageModel
) -> None:
    """If a queue is given up while its listener runs, its result moves no position, and no other message follows."""
    one_queue.put("a", "b")
    timeline: Timeline

    def give_up(_: Sequence[ReceivedMessage]) -> object:
        _held(timeline).process_queue.dropped = True
        return SUCCESS

    log = Log(give_up)
    timeline = Timeline(one_queue)
    timeline.join(one_queue.orderly(log, clock=timeline.clock, rhythm=ALONE, thread_count=1, message_model=model))
    progress = timeline.member.store.progress
    before = progress.get(queue(0))
    timeline.pass_s(0.5)
    log.wait_for(1)
    timeline.wait_for_threads()

    assert log.bodies == [b"a"]
    assert progress.get(queue(0)) == before


def test_in_order_a_commit_may_move_the_position_back(one_queue: Group) -> None:
    """A batch consumed in order sets the position, even if that was further: the queue was reset meanwhile."""
    one_queue.put("a")
    timeline: Timeline

    def move(_: Sequence[ReceivedMessage]) -> object:
        timeline.member.store.progress.update(queue(0), 100, only_forward=False)
        return SUCCESS

    log = Log(move)
    timeline = Timeline(one_queue)
    timeline.join(one_queue.orderly(log, clock=timeline.clock, rhythm=ALONE, thread_count=1))
    timeline.pass_s(0.5)
    log.wait_for(1)
    timeline.wait_for_threads()

    assert timeline.member.store.progress.get(queue(0)) == 1


def test_a_pause_that_is_no_number_raises() -> None:
    """If the listener gives `suspend` text, that raises in the listener."""
    with pytest.raises(ValueError, match="could not convert string to float"):
        suspend(cast(Any, "soon"))
