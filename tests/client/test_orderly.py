"""Orderly consumption applies every result of a listener, and holds queues and locks correctly."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from broker_stub import Settings
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import (
    COMMIT,
    RECONSUME_LATER,
    ROLLBACK,
    SUCCESS,
    SUSPEND,
    Ordered,
    later,
    success_of_first,
    suspend,
    with_auto_commit,
)
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import dead_letter_topic
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, queue, until


def test_each_queue_is_consumed_in_order(group: Group) -> None:
    """If the listener fails at random, the messages of each queue succeed in the order of their offsets, each once."""
    group.stub.fill(TOPIC, 200, 10)
    done: list[tuple[int, int]] = []
    chance = random.Random(7)

    def answer(batch: Sequence[ReceivedMessage]) -> Ordered | object:
        if chance.random() < 0.2:
            return suspend(0.01)
        done.extend((message.queue.queue_id, message.offset) for message in batch)
        return SUCCESS

    group.orderly(Log(answer), batch_size=3)
    until(lambda: len(done) == 200)
    for number in range(4):
        assert [offset for queue_id, offset in done if queue_id == number] == list(range(50))


def test_one_worker_at_a_time_consumes_a_queue(group: Group) -> None:
    """The listener is never called with two batches of the same queue at the same time."""
    group.stub.fill(TOPIC, 100, 10)
    at_work: set[int] = set()
    overlaps: list[int] = []

    def answer(batch: Sequence[ReceivedMessage]) -> object:
        number = batch[0].queue.queue_id
        overlaps.extend({number} & at_work)
        at_work.add(number)
        threading.Event().wait(0.001)
        at_work.discard(number)
        return SUCCESS

    log = Log(answer)
    group.orderly(log)
    log.wait_for(100)
    assert not overlaps


def test_a_suspended_queue_goes_on_where_it_stopped(group: Group) -> None:
    """A failed message is retried before all later messages of its queue, while other queues are consumed."""
    group.put("a", "b", queue_id=0)
    group.put("other", queue_id=1)
    log = Log(lambda batch: SUSPEND if batch[0].body == b"a" and batch[0].reconsume_times < 2 else SUCCESS)
    group.orderly(log, suspend_s=0.02)

    until(lambda: group.committed().get(0) == 2 and group.committed().get(1) == 1)
    assert [body for body in log.bodies if body != b"other"] == [b"a", b"a", b"a", b"b"]


@pytest.mark.parametrize("answer", [None, "done", RECONSUME_LATER], ids=repr)
def test_nonsense_suspends(group: Group, answer: object, caplog: pytest.LogCaptureFixture) -> None:
    """If the listener returns a value that is no result, its message is retried; the value is logged."""
    group.put("a", "b", queue_id=0)
    log = Log(lambda batch: answer if len(log.messages) < 2 else SUCCESS)
    group.orderly(log, suspend_s=0.02)

    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"a", b"a", b"b"]
    assert ("which counts as failure" in caplog.text) == (answer != RECONSUME_LATER)


def test_an_exception_suspends(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If the listener raises, it gets the same message again after a pause, before any other of the queue."""
    group.put("a", "b", queue_id=0)
    log = Log(lambda batch: SUCCESS if len(log.messages) > 2 else 1 / 0)
    group.orderly(log, suspend_s=0.02)

    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"a", b"a", b"a", b"b"]
    assert "ZeroDivisionError" in caplog.text


def test_used_up_retries_end_among_the_dead_letters(group: Group) -> None:
    """After two failed retries a message becomes a dead letter with its first topic, and the next is consumed."""
    group.put("poison", "b", queue_id=0)
    log = Log(lambda batch: SUSPEND if batch[0].body == b"poison" else SUCCESS)
    group.orderly(log, max_reconsume_times=2, suspend_s=0.02)

    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"poison"] * 3 + [b"b"]
    [dead] = group.stub.messages(dead_letter_topic(GROUP))
    assert (dead.body, dead.reconsume_times) == (b"poison", 3)
    assert dead.properties["RETRY_TOPIC"] == TOPIC
    assert "ORIGIN_MESSAGE_ID" in dead.properties


def test_a_batch_comes_again_as_a_whole(group: Group) -> None:
    """As with the Java client, a dead letter comes again if another message of its batch could not be sent away."""
    group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.SEND_MESSAGE_V2, times=3)
    group.put("a", "b", queue_id=0)
    log = Log(lambda _: SUSPEND)
    group.orderly(log, max_reconsume_times=0, suspend_s=0.02, batch_size=2)

    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"a", b"b"] * 2
    assert [record.body for record in group.stub.messages(dead_letter_topic(GROUP))] == [b"b", b"a", b"b"]


def test_what_cannot_be_sent_away_is_tried_again_in_its_place(group: Group) -> None:
    """If no broker takes a message as dead letter, it is retried before all later messages of its queue."""
    group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=RequestCode.SEND_MESSAGE_V2, times=None)
    group.put("poison", "b", queue_id=0)
    log = Log(lambda batch: SUSPEND if batch[0].body == b"poison" else SUCCESS)
    group.orderly(log, max_reconsume_times=0, suspend_s=0.02)
    until(lambda: len(log.messages) >= 3)
    assert b"b" not in log.bodies

    group.stub.faults.clear()
    until(lambda: group.committed().get(0) == 2)


def test_without_auto_commit_only_a_commit_moves_the_position(group: Group) -> None:
    """Without auto-commit SUCCESS moves no position; COMMIT commits all messages that succeeded since the last one."""
    group.put("a", "b", "c", "d", queue_id=0)
    log = Log(lambda batch: COMMIT if batch[0].body == b"c" else SUCCESS)
    consumer = group.orderly(log, auto_commit=False)
    log.wait_for(4)

    until(lambda: group.committed().get(0) == 3)
    consumer.close()
    assert group.committed()[0] == 3


def test_a_rollback_brings_back_everything_since_the_last_commit(group: Group) -> None:
    """Without auto-commit ROLLBACK delivers all messages since the last COMMIT again, in order."""
    group.put("a", "b", "c", queue_id=0)
    answers = {2: COMMIT, 3: ROLLBACK}
    log = Log(lambda batch: answers.get(len(log.messages), COMMIT if len(log.messages) > 3 else SUCCESS))
    group.orderly(log, auto_commit=False, suspend_s=0.02)

    until(lambda: group.committed().get(0) == 3)
    assert log.bodies[:4] == [b"a", b"b", b"c", b"c"]


def test_queues_are_locked_at_the_broker_while_they_are_ours(group: Group) -> None:
    """A member locks its queues at the broker, and releases the locks when it closes."""
    log = Log()
    consumer = group.orderly(log)
    until(lambda: set(group.stub.locks(GROUP).values()) == {consumer.client_id})
    until(lambda: {each.topic for each in group.stub.locks(GROUP)} >= {TOPIC})

    consumer.close()
    until(lambda: not group.stub.locks(GROUP))


def test_a_lost_lock_stops_a_queue_until_it_is_ours_again(make_group: Callable[..., Group]) -> None:
    """If a queue's lock is lost, its messages are consumed after the member holds the lock again."""
    group = make_group(queues=1, settings=Settings(lock_lease_ms=400))
    cluster, log = group.cluster(), Log()
    group.put("a")
    group.orderly(log)
    log.wait_for(1)
    group.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.LOCK_BATCH_MQ, times=None)
    until(lambda: not group.stub.locks(GROUP))
    group.stub.faults.clear()
    until(lambda: cluster.groups.lock(GROUP, "thief", [queue(0)]).granted or group.stub.locks(GROUP))

    group.put("b")
    log.wait_for(2)
    assert log.bodies == [b"a", b"b"]


def test_a_lock_lost_while_the_listener_runs_stops_the_queue_behind_it(
    make_group: Callable[..., Group], caplog: pytest.LogCaptureFixture
) -> None:
    """If a lock is lost while the listener runs, its message is committed, and the next one waits for the lock."""
    group, gate = make_group(queues=1), threading.Event()
    group.put("a", "b")
    log = Log(lambda batch: SUCCESS if batch[0].body == b"b" or gate.wait(20) else SUSPEND)
    consumer = group.orderly(log)
    log.wait_for(1)
    cluster = group.cluster()

    def steal() -> object:
        cluster.groups.unlock_oneway(GROUP, consumer.client_id, [queue(0)])
        return cluster.groups.lock(GROUP, "thief", [queue(0)]).granted

    until(steal)
    until(lambda: "another client holds the lock" in caplog.text)

    gate.set()
    until(lambda: group.committed().get(0) == 1)
    assert log.bodies == [b"a"]
    cluster.groups.unlock_oneway(GROUP, "thief", [queue(0)])
    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"a", b"b"]


def test_a_queue_is_handed_over_only_when_the_listener_has_returned(group: Group) -> None:
    """If a second member takes a queue, it begins after the first one's listener has returned, in order of offsets."""
    group.stub.fill(TOPIC, 40, 10)
    order: list[tuple[int, int, str]] = []
    gate = threading.Event()

    def first(batch: Sequence[ReceivedMessage]) -> object:
        gate.wait(10)
        order.append((batch[0].queue.queue_id, batch[0].offset, "first"))
        return SUCCESS

    def second(batch: Sequence[ReceivedMessage]) -> object:
        order.append((batch[0].queue.queue_id, batch[0].offset, "second"))
        return SUCCESS

    slow = group.orderly(Log(first))
    until(lambda: len(slow.queues) >= 4)
    other = group.orderly(Log(second))
    until(lambda: len(group.stub.groups().get(GROUP, ())) == 2)
    gate.set()

    until(lambda: sum(group.committed().values()) == 40)
    for number in range(4):
        offsets = [offset for queue_id, offset, _ in order if queue_id == number]
        assert offsets == sorted(offsets)
        assert list(dict.fromkeys(offsets)) == list(range(10))
    until(lambda: len(other.queues) >= 2)


def test_a_long_run_makes_room_for_others(group: Group) -> None:
    """If one worker serves four full queues, each of them is begun before the last quarter of all messages."""
    group.stub.fill(TOPIC, 400, 10)
    log = Log(lambda _: threading.Event().wait(0.001) or SUCCESS)
    rhythm = replace(QUICK, longest_run_s=0.02)
    group.orderly(log, thread_count=1, rhythm=rhythm)
    log.wait_for(400)

    first_seen = {message.queue.queue_id: position for position, message in reversed(list(enumerate(log.messages)))}
    assert max(first_seen.values()) < 300


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_what_would_end_a_thread_is_tried_again_in_its_place(group: Group, error: type[BaseException]) -> None:
    """If the listener raises `SystemExit`, it gets the same message again from the same worker."""
    group.put("a", "b", queue_id=0)

    def answer(_: Sequence[ReceivedMessage]) -> object:
        if len(log.messages) == 1:
            raise error
        return SUCCESS

    log = Log(answer)
    group.orderly(log, thread_count=1, suspend_s=0.02)
    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"a", b"a", b"b"]


def test_locks_are_renewed_while_a_round_waits(group: Group) -> None:
    """While a round of rebalancing waits for a list of members, locks are still renewed."""
    consumer = group.orderly(Log())
    until(lambda: len(consumer.queues) == 4 + 1)
    mute = group.stub.faults.drop_reply(on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=None)
    until(lambda: mute.fired > 0)
    renewals = group.stub.faults.delay(0, on=RequestCode.LOCK_BATCH_MQ, times=None)
    before = mute.fired
    until(lambda: mute.fired > before, "the round looks at its next topic, three seconds later")
    assert renewals.fired >= 3
    group.stub.faults.clear()


# --- auto-commit of each batch ---------------------------------------------------------------------------------------


def test_a_batch_may_commit_nothing(group: Group) -> None:
    """With auto-commit, a batch that chooses otherwise is committed by the next batch that commits."""
    group.put(*"abcd", queue_id=0)
    gate = threading.Event()

    def answer(batch: Sequence[ReceivedMessage]) -> object:
        if batch[0].body == b"c":
            gate.wait(20)
            return SUCCESS
        return with_auto_commit(SUCCESS, False)

    log = Log(answer)
    consumer = group.orderly(log)
    log.wait_for(3)
    assert group.committed().get(0, 0) == 0
    gate.set()
    log.wait_for(4)
    consumer.close()
    assert group.committed()[0] == 3


def test_a_batch_may_commit_at_once(group: Group) -> None:
    """Without auto-commit, a batch that chooses it commits itself and all batches before it."""
    group.put(*"abc", queue_id=0)
    log = Log(lambda batch: with_auto_commit(SUCCESS, True) if batch[0].body == b"b" else SUCCESS)
    consumer = group.orderly(log, auto_commit=False)
    log.wait_for(3)
    consumer.close()

    assert group.committed()[0] == 2


def test_a_batch_may_roll_back_those_before_it(group: Group) -> None:
    """With auto-commit, a batch may choose ROLLBACK; all batches since the last commit come again after the pause."""
    group.put(*"abc", queue_id=0)
    answers = [SUCCESS, with_auto_commit(SUCCESS, False), with_auto_commit(ROLLBACK, False)]
    log = Log(lambda _: answers[len(log.messages) - 1] if len(log.messages) <= 3 else SUCCESS)
    group.orderly(log, suspend_s=0.02)

    until(lambda: group.committed().get(0) == 3)
    assert log.bodies == [b"a", b"b", b"c", b"b", b"c"]
    assert log.messages[-1].reconsume_times == 0


@pytest.mark.parametrize("result", [COMMIT, ROLLBACK], ids=["COMMIT", "ROLLBACK"])
def test_with_auto_commit_both_commit_and_are_logged(
    result: Ordered, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """With auto-commit, COMMIT and ROLLBACK commit the batch as in Java, and the log says what to do instead."""
    group.put("a", queue_id=0)
    log = Log(lambda _: result)
    group.orderly(log)

    until(lambda: group.committed().get(0) == 1)
    assert log.bodies == [b"a"]
    assert f"returned {result.status.name} for" in caplog.text
    assert "with_auto_commit(result, False)" in caplog.text


@pytest.mark.parametrize(("auto_commit", "position"), [(True, 1), (False, 0)])
def test_a_dead_letter_is_committed_as_its_batch_chooses(auto_commit: bool, position: int, group: Group) -> None:
    """If a message becomes a dead letter, the position passes it at once only if its batch chooses auto-commit."""
    group.put(*"ab", queue_id=0)
    choices = {b"a": with_auto_commit(SUSPEND, auto_commit), b"b": with_auto_commit(SUCCESS, False)}
    log = Log(lambda batch: choices[batch[0].body])
    consumer = group.orderly(log, max_reconsume_times=0)
    log.wait_for(2)
    consumer.close()

    assert [record.body for record in group.stub.messages(dead_letter_topic(GROUP))] == [b"a"]
    assert group.committed().get(0, 0) == position


@pytest.mark.parametrize(
    ("result", "counts"),
    [
        (SUCCESS, (2, 0)),
        (with_auto_commit(SUCCESS, False), (2, 0)),
        (COMMIT, (2, 0)),
        (with_auto_commit(COMMIT, False), (0, 0)),
        (with_auto_commit(ROLLBACK, False), (0, 0)),
        (with_auto_commit(suspend(30), False), (0, 2)),
        (suspend(30), (0, 2)),
    ],
)
def test_results_are_counted_as_in_java(result: Ordered, counts: tuple[int, int], group: Group) -> None:
    """Administrators see messages of SUCCESS and SUSPEND; COMMIT and ROLLBACK without auto-commit count none."""
    group.put("a", "b", queue_id=0)
    log = Log(lambda _: result)
    consumer = group.orderly(log, batch_size=2, suspend_s=30, await_termination_s=30)
    log.wait_for(2)
    consumer.close()

    status = consumer._member.statistics.status(TOPIC)
    assert (round(60 * status.consume_ok_tps), round(60 * status.consume_failed_tps)) == counts


@pytest.mark.parametrize("value", [None, "done", later(3), success_of_first(1)], ids=repr)
def test_only_results_in_order_have_a_choice(value: object) -> None:
    """A value that is no result of a batch in order is refused, with the results that there are."""
    with pytest.raises(OptionError, match="SUSPEND or suspend"):
        with_auto_commit(value, False)  # type: ignore[arg-type]
