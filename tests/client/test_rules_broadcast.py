"""Each rule of broadcasting holds: no locks, no positions at brokers, and failed messages are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import RECONSUME_LATER, SUCCESS, SUSPEND, success_of_first
from pyspark_rocketmq.client.settings import MessageModel
from pyspark_rocketmq.model import dead_letter_topic, retry_topic
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, ManualClock, queue, until
from tests.client.timeline import Timeline

BROADCASTING = MessageModel.BROADCASTING
LOCKS = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
SENDS = (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)


@pytest.fixture
def one_queue(make_group: Callable[..., Group]) -> Group:
    """Return a group whose topic has one queue."""
    return make_group(queues=1)


@pytest.mark.parametrize("result", [RECONSUME_LATER, success_of_first(1)], ids=["all", "rest"])
def test_failed_messages_are_dropped(one_queue: Group, result: object, caplog: pytest.LogCaptureFixture) -> None:
    """A failed message is logged and dropped: nothing is sent, it does not come again, and the position passes it."""
    one_queue.put("a", "b", "c")
    timeline, log = Timeline(one_queue), Log(lambda _: result)
    consumer = one_queue.concurrent(log, message_model=BROADCASTING, batch_size=3)
    log.wait_for(3)
    progress = consumer._member.store.progress
    until(lambda: progress.get(queue(0)) == 3)
    consumer.close()

    dropped = [record.message for record in caplog.records if "failed and is dropped" in record.message]
    assert len(dropped) == (3 if result == RECONSUME_LATER else 2)
    assert log.bodies == [b"a", b"b", b"c"]
    assert not [seen for code in SENDS for seen in timeline.requests(code)]
    for topic in ("SCHEDULE_TOPIC_XXXX", retry_topic(GROUP), dead_letter_topic(GROUP)):
        assert not one_queue.stub.messages(topic)


@pytest.mark.parametrize("is_refused", [False, True], ids=["granted", "refused"])
def test_in_order_no_locks_are_needed(make_group: Callable[..., Group], is_refused: bool) -> None:
    """Two members consume all queues in order at the same time, without a request for a lock; retries stay in place."""
    group = make_group(queues=2)
    if is_refused:
        group.stub.faults.answer(ResponseCode.SYSTEM_ERROR, on=RequestCode.LOCK_BATCH_MQ, times=None)
    for number in range(2):
        group.put("a", "b", "c", queue_id=number)
    timeline = Timeline(group)

    def fail_first(batch: Sequence[ReceivedMessage]) -> object:
        return SUSPEND if batch[0].body == b"b" and not batch[0].reconsume_times else SUCCESS

    logs = [Log(fail_first), Log(fail_first)]
    for number, log in enumerate(logs):
        group.orderly(log, message_model=BROADCASTING, instance_name=f"member{number}", suspend_s=0.01)
    for log in logs:
        log.wait_for(8)
        for number in range(2):
            bodies = [message.body for message in log.messages if message.queue.queue_id == number]
            assert bodies == [b"a", b"b", b"b", b"c"]
    assert not [seen for code in LOCKS for seen in timeline.requests(code)]
    assert group.stub.locks(GROUP) == {}
    group.stub.faults.clear()


def test_in_order_an_old_assignment_needs_no_lock_either(one_queue: Group) -> None:
    """A broadcasting member consumes in order for hours, although no lock of its queues is ever renewed."""
    clock, log = ManualClock(), Log()
    one_queue.orderly(log, clock=clock, message_model=BROADCASTING, rhythm=replace(QUICK, pull_max_idle_s=86400.0))
    one_queue.put("a")
    clock.advance_until(lambda: len(log.messages) == 1)
    clock.advance(4 * 3600.0)
    one_queue.put("b")

    clock.advance_until(lambda: len(log.messages) == 2)


@pytest.mark.parametrize("make", [Group.concurrent, Group.orderly], ids=["concurrent", "orderly"])
def test_no_position_reaches_a_broker(make: Callable[..., object], one_queue: Group) -> None:
    """Positions are neither committed, nor carried by pulls, nor asked for at brokers."""
    timeline, log = Timeline(one_queue), Log()
    make(one_queue, log, message_model=BROADCASTING)
    one_queue.put("a")
    log.wait_for(1)
    one_queue.put("b")
    log.wait_for(2)
    until(lambda: timeline.requests(RequestCode.PULL_MESSAGE, queueOffset=2))

    assert timeline.requests(RequestCode.UPDATE_CONSUMER_OFFSET) == []
    assert timeline.requests(RequestCode.QUERY_CONSUMER_OFFSET) == []
    pulls = timeline.requests(RequestCode.PULL_MESSAGE, topic=TOPIC)
    assert {(pull.fields["commitOffset"], int(pull.fields["sysFlag"]) & 1) for pull in pulls} == {("0", 0)}
