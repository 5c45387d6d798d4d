"""Concurrent consumption applies every result of a listener."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import DEAD_LETTER, RECONSUME_LATER, SUCCESS, Consumed, later, success_of_first
from pyspark_rocketmq.model import dead_letter_topic, retry_topic
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, ManualClock, until

RETRY, DEAD = retry_topic(GROUP), dead_letter_topic(GROUP)
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
SECONDS_MS, MINUTES_MS = 1_000, 60_000
DELAYS_MS = [
    *(number * SECONDS_MS for number in (1, 5, 10, 30)),
    *(number * MINUTES_MS for number in (*range(1, 11), 20, 30, 60, 120)),
]
"""The delays of levels 1 to 18 in a broker's default configuration, in milliseconds."""


def test_every_message_is_consumed_and_committed(group: Group) -> None:
    """All messages of all queues reach the listener, and the group's positions reach the ends of the queues."""
    group.stub.fill(TOPIC, 400, 10)
    log = Log()
    group.concurrent(log, batch_size=8)

    assert len({message.body for message in log.wait_for(400)}) == 400
    until(lambda: group.committed() == {0: 100, 1: 100, 2: 100, 3: 100})


def test_batches_hold_as_many_as_set_of_one_queue(group: Group) -> None:
    """One call of the listener gets at most `batch_size` messages, all of one queue."""
    group.stub.fill(TOPIC, 200, 10)
    batches: list[list[int]] = []

    def answer(batch: Sequence[ReceivedMessage]) -> Consumed:
        batches.append([message.queue.queue_id for message in batch])
        return SUCCESS

    log = Log(answer)
    group.concurrent(log, batch_size=7)
    log.wait_for(200)

    assert max(map(len, batches)) == 7
    assert all(len(set(batch)) == 1 for batch in batches)


def test_failed_messages_are_sent_back_and_done(group: Group) -> None:
    """A failed message is stored for later delivery at its broker, and the group's position passes it."""
    group.put("a", "b", "c", queue_id=0)
    log = Log(lambda batch: RECONSUME_LATER if batch[0].body == b"b" else SUCCESS)
    group.concurrent(log)
    log.wait_for(3)

    until(lambda: group.committed().get(0) == 3)
    [waiting] = group.stub.messages(SCHEDULE)
    assert (waiting.body, waiting.reconsume_times) == (b"b", 1)
    assert waiting.properties["DELAY"] == "3"
    assert waiting.properties["RETRY_TOPIC"] == TOPIC


def test_only_what_follows_the_first_successes_is_sent_back(group: Group) -> None:
    """If the listener returns `success_of_first(2)` for four messages, the last two are sent back."""
    group.stub.fill(TOPIC, 16, 10)
    log = Log(lambda batch: success_of_first(2) if batch[0].queue.queue_id == 1 else SUCCESS)
    group.concurrent(log, batch_size=4)
    log.wait_for(16)

    until(lambda: group.committed().get(1) == 4)
    assert len(group.stub.messages(SCHEDULE)) == 2


def test_the_listener_chooses_the_delay(group: Group) -> None:
    """The broker uses the delay level that the listener returns; for -1 it stores a dead letter at once."""
    group.put("slow", "never", queue_id=0)
    log = Log(lambda batch: later(5) if batch[0].body == b"slow" else later(DEAD_LETTER))
    group.concurrent(log)
    log.wait_for(2)

    until(lambda: group.stub.messages(SCHEDULE) and group.stub.messages(DEAD))
    assert [record.properties["DELAY"] for record in group.stub.messages(SCHEDULE)] == ["5"]
    assert [record.body for record in group.stub.messages(DEAD)] == [b"never"]


@pytest.mark.parametrize("make", [success_of_first, partial(success_of_first, 1), later], ids=["count", "rest", "all"])
def test_a_result_of_text_counts_as_failure(
    group: Group, make: Callable[[Any], Consumed], caplog: pytest.LogCaptureFixture
) -> None:
    """If the listener gives text for a number of a result, that raises in the listener, and the message comes again."""
    group.put("a", queue_id=0)
    group.concurrent(Log(lambda _: make("3")))

    until(lambda: group.stub.messages(SCHEDULE))
    assert "the listener failed on" in caplog.text and "cannot be interpreted as an integer" in caplog.text


@pytest.mark.parametrize("answer", [None, "done", 0, True], ids=repr)
def test_nonsense_counts_as_failure(group: Group, answer: object, caplog: pytest.LogCaptureFixture) -> None:
    """If the listener returns a value that is no result, the message is sent back, and the log says what to return."""
    group.put("a", queue_id=0)
    group.concurrent(Log(lambda _: answer))

    until(lambda: group.stub.messages(SCHEDULE))
    assert "which counts as failure; return SUCCESS" in caplog.text


def test_an_exception_counts_as_failure(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If the listener raises, its message is sent back, the error is logged, and the next message is consumed."""
    group.put("bad", "good", queue_id=0)
    log = Log(lambda batch: SUCCESS if batch[0].body == b"good" else 1 / 0)
    group.concurrent(log)

    until(lambda: group.committed().get(0) == 2)
    assert [record.body for record in group.stub.messages(SCHEDULE)] == [b"bad"]
    assert "ZeroDivisionError" in caplog.text


def test_a_retry_arrives_with_its_origin(make_group: Callable[..., Group]) -> None:
    """A message that was sent back comes again after its delay, with its first topic and its number of failures."""
    group = make_group(frozen_clock=True)
    group.put("a", queue_id=0)
    log = Log(lambda batch: RECONSUME_LATER if batch[0].reconsume_times == 0 else SUCCESS)
    consumer = group.concurrent(log)
    until(lambda: any(queue.topic == RETRY for queue in consumer.queues))
    until(lambda: group.stub.messages(SCHEDULE))

    group.stub.clock.advance(9_000)
    assert len(log.messages) == 1
    group.stub.clock.advance(2_000)
    first, second = log.wait_for(2)
    assert (second.topic, second.queue.topic, second.reconsume_times) == (TOPIC, RETRY, 1)
    assert second.message_id == first.message_id


def test_what_cannot_be_sent_back_stays_and_is_tried_again(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If a message can be neither sent back nor copied, the position stays, and the listener gets it again."""
    for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
        group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=code, times=None)
    group.put("a", "b", "c", queue_id=0)
    counts: list[int] = []

    def answer(batch: Sequence[ReceivedMessage]) -> Consumed:
        counts.append(batch[0].reconsume_times)
        return RECONSUME_LATER

    log = Log(answer)
    group.concurrent(log, batch_size=1)
    until(lambda: len(counts) >= 9)

    assert {0, 1, 2} <= set(counts)
    assert group.committed().get(0, 0) == 0
    assert "could not be sent back and reaches the listener again" in caplog.text
    group.stub.faults.clear()
    until(lambda: group.committed().get(0) == 3)


def test_the_position_stands_at_the_first_message_that_stays(group: Group) -> None:
    """If half of a batch succeeds and the rest cannot be sent back, the position moves past the first half only."""
    for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
        group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=code, times=None)
    group.put(*"abcd", queue_id=0)
    batches: list[list[bytes]] = []
    gate = threading.Event()

    def answer(batch: Sequence[ReceivedMessage]) -> Consumed:
        batches.append([message.body for message in batch])
        return success_of_first(2) if len(batch) == 4 else success_of_first(int(gate.wait(20)))

    group.concurrent(answer, batch_size=4)
    until(lambda: group.committed().get(0) == 2)
    gate.set()
    until(lambda: group.committed().get(0) == 4)
    assert batches == [[b"a", b"b", b"c", b"d"], [b"c", b"d"], [b"d"]]


def test_a_copy_is_sent_where_sending_back_is_refused(group: Group) -> None:
    """If the broker refuses to take a message back, a copy is sent and scheduled for the same delay."""
    group.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.CONSUMER_SEND_MSG_BACK)
    group.put("a", queue_id=0, colour="red")
    group.concurrent(Log(lambda _: RECONSUME_LATER))

    until(lambda: group.stub.messages(SCHEDULE))
    [copy] = group.stub.messages(SCHEDULE)
    assert (copy.body, copy.reconsume_times, copy.properties["colour"]) == (b"a", 1, "red")
    assert copy.properties["RETRY_TOPIC"] == TOPIC
    assert copy.properties["DELAY"] == "3"


def test_messages_held_too_long_are_sent_back(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If a listener holds a message for 15 minutes, it is sent back once; the late result has no effect."""
    clock, gate = ManualClock(), threading.Event()
    group.put("a", queue_id=0)
    log = Log(lambda _: gate.wait(20) and RECONSUME_LATER)
    consumer = group.concurrent(log, clock=clock, rhythm=replace(QUICK, pull_max_idle_s=3600))
    clock.advance_until(lambda: log.messages)

    clock.advance(15 * 60 + 1)
    until(lambda: len(group.stub.messages(SCHEDULE)) == 1)
    until(lambda: "for too long; the messages were sent back" in caplog.text)
    gate.set()
    consumer.close()
    assert len(group.stub.messages(SCHEDULE)) == 1


def test_what_was_not_sent_back_in_one_cleaning_is_in_the_next(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If a broker refuses one message of a batch held too long, that message is sent back after the next 15 minutes."""
    clock, gate = ManualClock(), threading.Event()
    group.put("a", "b", queue_id=0)
    log = Log(lambda _: gate.wait(20) and RECONSUME_LATER)
    group.concurrent(log, clock=clock, batch_size=2, rhythm=replace(QUICK, pull_max_idle_s=3600))
    clock.advance_until(lambda: log.messages)
    send_back, refused = RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.NO_PERMISSION
    group.stub.faults.answer(ResponseCode.SUCCESS, on=send_back)
    group.stub.faults.answer(refused, on=send_back, times=None)
    group.stub.faults.answer(refused, on=RequestCode.SEND_MESSAGE_V2, times=None)

    clock.advance(15 * 60 + 1)
    until(lambda: "was not sent back" in caplog.text)
    group.stub.faults.clear()
    clock.advance(15 * 60 + 1)
    until(lambda: group.stub.messages(SCHEDULE))
    assert [record.body for record in group.stub.messages(SCHEDULE)] == [b"b"]
    gate.set()


def test_closing_waits_for_the_listener_if_asked_to(group: Group) -> None:
    """With `await_termination_s` closing waits for a running listener, and its message is committed."""
    gate = threading.Event()
    group.put("a", queue_id=0)
    log = Log(lambda _: gate.wait(10) and SUCCESS)
    consumer = group.concurrent(log, await_termination_s=10.0)
    log.wait_for(1)

    threading.Timer(0.05, gate.set).start()
    consumer.close()
    until(lambda: group.committed().get(0) == 1)


def test_closing_does_not_wait_for_a_listener_that_blocks(group: Group) -> None:
    """By default closing does not wait for a running listener; its message goes to another member."""
    gate = threading.Event()
    group.put("a", queue_id=0)
    blocked = Log(lambda _: gate.wait(10) and SUCCESS)
    consumer = group.concurrent(blocked)
    blocked.wait_for(1)

    consumer.close()
    assert group.stub.groups() == {}
    assert group.committed().get(0, 0) == 0
    gate.set()
    log = Log()
    group.concurrent(log)
    log.wait_for(1)


def test_every_failure_waits_longer_until_the_message_is_given_up(make_group: Callable[..., Group]) -> None:
    """The first failure delays a message by level 3, each further one by the next level; the 17th ends its retries."""
    group = make_group(frozen_clock=True)
    group.put("a", queue_id=0)
    log = Log(lambda _: RECONSUME_LATER)
    group.concurrent(log)

    for times, wait_ms in enumerate(DELAYS_MS[2:]):
        until(lambda times=times: len(group.stub.messages(SCHEDULE)) == times + 1)  # type: ignore[misc]
        assert group.stub.messages(SCHEDULE)[-1].properties["DELAY"] == str(3 + times)
        group.stub.clock.advance(wait_ms - 1)
        assert len(group.stub.messages(RETRY)) == times
        group.stub.clock.advance(1)
        assert len(group.stub.messages(RETRY)) == times + 1
    until(lambda: group.stub.messages(DEAD))
    assert [message.reconsume_times for message in log.messages] == list(range(17))


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_what_would_end_a_thread_counts_as_failure(group: Group, error: type[BaseException]) -> None:
    """If the listener raises `SystemExit`, its message is sent back, and the only worker consumes the next one."""
    group.put("bad", "good", queue_id=0)

    def answer(batch: Sequence[ReceivedMessage]) -> Consumed:
        if batch[0].body == b"bad":
            raise error
        return SUCCESS

    log = Log(answer)
    group.concurrent(log, thread_count=1)
    until(lambda: group.committed().get(0) == 2)
    assert [record.body for record in group.stub.messages(SCHEDULE)] == [b"bad"]


def test_a_listener_sees_when_it_got_a_message(group: Group) -> None:
    """The property CONSUME_START_TIME is the time of the call in ms; a message that comes again has a new one."""
    for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
        group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=code, times=None)
    group.put("a", queue_id=0)
    clock, starts = ManualClock(), list[tuple[str, int]]()

    def answer(batch: Sequence[ReceivedMessage]) -> Consumed:
        starts.append((batch[0].properties["CONSUME_START_TIME"], clock.wall_ms()))
        return RECONSUME_LATER

    group.concurrent(answer, clock=clock)
    clock.advance_until(lambda: len(starts) >= 3)
    times = [int(text) for text, _ in starts]
    assert times == sorted(set(times))
    assert all(now - 60_000 <= time <= now for time, (_, now) in zip(times, starts, strict=True))
    group.stub.faults.clear()


@pytest.mark.parametrize("refused", [False, True], ids=["sent back", "copied"])
def test_only_a_copy_keeps_the_time_of_its_failure(refused: bool, group: Group) -> None:
    """As with the Java client, CONSUME_START_TIME is stored with a copy, but not with a message that was sent back."""
    if refused:
        group.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.CONSUMER_SEND_MSG_BACK)
    group.put("a", queue_id=0)
    group.concurrent(Log(lambda _: RECONSUME_LATER))

    until(lambda: group.stub.messages(SCHEDULE))
    [stored] = group.stub.messages(SCHEDULE)
    assert ("CONSUME_START_TIME" in stored.properties) == refused
