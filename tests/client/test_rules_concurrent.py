"""Each rule of consuming concurrently holds: positions only grow, and results for queues given up are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_rocketmq.client.results import RECONSUME_LATER, SUCCESS, Consumed
from pyspark_rocketmq.wire.codes import RequestCode
from tests.client.fixtures import Group, Log, queue, until
from tests.client.test_numbers import PATIENT
from tests.client.timeline import Timeline

SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK


@pytest.fixture
def one_queue(make_group: Callable[..., Group]) -> Group:
    """Return a group whose topic has one queue."""
    return make_group(queues=1)


def _consume(group: Group, answer: Callable[[Timeline], Consumed], **given: Any) -> tuple[Timeline, Log]:
    """Start a consumer whose listener returns what `answer` returns, and wait until it has returned."""
    timeline = Timeline(group)
    log = Log(lambda _: answer(timeline))
    timeline.join(group.concurrent(log, clock=timeline.clock, rhythm=PATIENT, thread_count=1, **given))
    timeline.pass_s(0.5)
    log.wait_for(1)
    timeline.wait_for_threads()
    timeline.settle()
    return timeline, log


def _give_up(timeline: Timeline) -> None:
    timeline.member.table.get(queue(0)).process_queue.dropped = True


@pytest.mark.parametrize("result", [SUCCESS, RECONSUME_LATER])
def test_a_queue_given_up_during_the_listener_is_not_settled(one_queue: Group, result: Consumed) -> None:
    """If a queue is given up while its listener runs, the result moves no position and sends nothing back.

    The next message, which waits for the worker, does not reach the listener.
    """
    one_queue.put("a", "b")

    def answer(timeline: Timeline) -> Consumed:
        _give_up(timeline)
        return result

    timeline, log = _consume(one_queue, answer)
    assert log.bodies == [b"a"]
    assert timeline.member.store.progress.get(queue(0)) == 0
    assert timeline.requests(SEND_BACK) == []


def test_a_queue_given_up_while_a_message_is_sent_back_keeps_its_position(one_queue: Group) -> None:
    """If a queue is given up while its failed message is being sent back, the result moves no position."""
    one_queue.put("a")
    late = one_queue.stub.faults.delay(200, on=SEND_BACK)
    timeline = Timeline(one_queue)
    log = Log(lambda _: RECONSUME_LATER)
    timeline.join(one_queue.concurrent(log, clock=timeline.clock, rhythm=PATIENT, thread_count=1))
    timeline.pass_s(0.5)
    until(lambda: late.fired)
    _give_up(timeline)
    timeline.wait_for_threads()

    assert timeline.member.store.progress.get(queue(0)) == 0


def test_a_late_result_does_not_move_the_position_back(one_queue: Group) -> None:
    """If the position is already further when a message is done, it stays there."""
    one_queue.put("a")

    def answer(timeline: Timeline) -> Consumed:
        timeline.member.store.progress.update(queue(0), 100, only_forward=False)
        return SUCCESS

    timeline, _ = _consume(one_queue, answer)
    assert timeline.member.store.progress.get(queue(0)) == 100


@pytest.mark.parametrize("make", [Group.concurrent, Group.orderly, Group.pulling])
def test_a_filtered_stretch_never_moves_the_position_back(one_queue: Group, make: Callable[..., Any]) -> None:
    """If the position is already further than the end of a stretch without matches, it stays there."""
    consumer = make(one_queue, Log()) if make is not Group.pulling else make(one_queue)
    until(lambda: queue(0) in consumer.queues)
    member = consumer._member
    held = member.table.get(queue(0))
    member.store.progress.update(queue(0), 100, only_forward=False)
    for offset in (7, 101):
        member.sink.skip(held, offset)
        assert member.store.progress.get(queue(0)) == max(offset, 100)


def test_messages_that_were_polled_never_move_the_position_back(one_queue: Group) -> None:
    """If the position of a pull consumer is already further when its messages are done, it stays there."""
    one_queue.put("a")
    consumer = one_queue.pulling()
    until(lambda: consumer.poll(0.05))
    progress = consumer._member.store.progress
    progress.update(queue(0), 100, only_forward=False)
    consumer.poll(0.0)

    assert progress.get(queue(0)) == 100


def test_the_position_reaches_the_broker_with_the_next_pull(one_queue: Group) -> None:
    """The first pull after a message is done commits its position, long before positions are committed regularly."""
    one_queue.put("a")
    timeline, _ = _consume(one_queue, lambda _: SUCCESS)
    assert one_queue.committed().get(0, 0) == 0
    one_queue.put("b")

    until(lambda: one_queue.committed().get(0) == 1)
    assert timeline.requests(RequestCode.UPDATE_CONSUMER_OFFSET) == []
