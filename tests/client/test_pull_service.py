"""Queues are pulled within limits, filters and pauses, and through every response of a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from broker_stub import Settings
from pyspark_rocketmq.client.results import SUCCESS
from pyspark_rocketmq.client.settings import ConsumeFrom, Rhythm
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, queue, until
from tests.client.idle import idle_cpu_share


def test_a_full_cache_is_not_pulled(make_group: Callable[..., Group]) -> None:
    """With a limit of 50 messages and a blocked listener, the cache holds at most one pull more than that."""
    group, gate = make_group(queues=1), threading.Event()
    group.stub.fill(TOPIC, 500, 10)
    consumer = group.concurrent(Log(lambda _: gate.wait(20) and SUCCESS), limits=FlowLimits(message_count=50))
    until(lambda: consumer._member.table.get(queue(0)))
    cached = consumer._member.table.get(queue(0)).process_queue  # type: ignore[union-attr]
    until(lambda: cached.message_count > 50)

    threading.Event().wait(0.2)
    assert cached.message_count <= 50 + 32
    gate.set()
    until(lambda: group.committed().get(0) == 500)


def test_tags_are_compared_as_text_here(make_group: Callable[..., Group]) -> None:
    """The broker sends both "Aa" and "BB", which have one hash; the listener gets only the tag it wants."""
    group = make_group(queues=1)
    group.put("wanted", tags="Aa")
    group.put("unwanted", tags="BB")
    group.put("wanted, too", tags="Aa")
    log = Log()
    group.concurrent(log, tags="Aa")

    until(lambda: group.committed().get(0) == 3)
    assert sorted(log.bodies) == [b"wanted", b"wanted, too"]


def test_a_stretch_without_matches_is_passed(make_group: Callable[..., Group]) -> None:
    """Offsets that a filter leaves out count as done once no message before them is open."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 2000, 10, tags="other")
    log = Log()
    group.concurrent(log, tags="mine")

    until(lambda: group.committed().get(0) == 2000)
    assert not log.messages


def test_sql_expressions_filter_at_the_broker(make_group: Callable[..., Group]) -> None:
    """Only messages whose properties match the expression arrive."""
    group = make_group(queues=1)
    group.put("small", size="3")
    group.put("large", size="30")
    log = Log()
    group.concurrent(log, subscriptions={TOPIC: Subscription("size > 10", "SQL92")})

    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"large"]


def test_an_offset_below_the_queue_goes_on_at_its_beginning(make_group: Callable[..., Group]) -> None:
    """A committed offset that retention has passed is corrected, and the rest is consumed."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 10, 10)
    group.cluster().admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    group.cluster().offsets.commit(GROUP, {queue(0): 2})
    group.stub.expire(TOPIC, 0, 6)
    log = Log()
    group.concurrent(log)

    until(lambda: group.committed().get(0) == 10)
    assert sorted(message.offset for message in log.messages) == [6, 7, 8, 9]


def test_an_offset_beyond_the_queue_goes_on_at_its_end(make_group: Callable[..., Group]) -> None:
    """A committed offset beyond the queue's end is corrected to the end."""
    group = make_group(queues=1)
    group.put("a")
    group.cluster().admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    group.cluster().offsets.commit(GROUP, {queue(0): 5000})
    log = Log()
    group.concurrent(log)
    until(lambda: group.committed().get(0) == 1)

    group.put("b")
    log.wait_for(1)
    assert log.bodies == [b"b"]


def test_an_administrators_reset_is_obeyed(make_group: Callable[..., Group]) -> None:
    """A group that is moved back gets the messages again, from the new position on."""
    group = make_group(queues=1)
    group.put("a", "b", "c")
    log = Log()
    group.concurrent(log)
    until(lambda: group.committed().get(0) == 3)

    group.cluster().admin.reset_offset(GROUP, queue(0), 1)
    group.put("d")  # Ends the pull that the broker holds; without it that takes 15 seconds.
    log.wait_for(6)
    assert sorted(log.bodies[3:]) == [b"b", b"c", b"d"]
    until(lambda: group.committed().get(0) == 4)


def test_no_reset_is_lost_among_rounds(make_group: Callable[..., Group]) -> None:
    """With a round every few milliseconds each reset takes effect, and no commit undoes one."""
    group = make_group(queues=1)
    admin, log = group.cluster().admin, Log()
    busy = replace(QUICK, rebalance_s=0.003, rebalance_soonest_s=0.003, persist_s=0.003, dispatch_s=0.0)
    group.concurrent(log, rhythm=busy)
    for number in range(10):
        group.put("again")  # Also ends the pull that the broker holds.
        until(lambda number=number: group.committed().get(0) == 2 * number + 1)  # type: ignore[misc]
        seen = len(log.messages)
        admin.reset_offset(GROUP, queue(0), 0)
        group.put("wake")
        until(lambda seen=seen, number=number: len(log.messages) >= seen + 2 * number + 2)  # type: ignore[misc]


def test_flow_control_and_busy_brokers_are_asked_again(make_group: Callable[..., Group]) -> None:
    """Refused pulls come again, and nothing is lost."""
    group = make_group(queues=1)
    for code in (ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_BUSY, ResponseCode.SUBSCRIPTION_NOT_LATEST):
        group.stub.faults.answer(code, on=RequestCode.PULL_MESSAGE, times=2)
    group.put("a")
    log = Log()
    group.concurrent(log)

    log.wait_for(1)


def test_flow_control_slows_pulls_down(make_group: Callable[..., Group], caplog: pytest.LogCaptureFixture) -> None:
    """Pauses grow while the broker throttles, and the log says so once for each queue."""
    group, log = make_group(queues=1), Log()
    fault = group.stub.faults.flow_control(on=RequestCode.PULL_MESSAGE, times=None)
    group.concurrent(log)

    until(lambda: "pulls return no messages" in caplog.text)
    assert fault.fired < 30
    group.stub.faults.clear()
    group.put("a")
    log.wait_for(1)
    assert caplog.text.count("flow control") <= 2


def test_a_slave_that_refuses_reads_is_left_for_its_master(
    make_group: Callable[..., Group], caplog: pytest.LogCaptureFixture
) -> None:
    """A replica of 5.x refuses reads by default; the log names its setting, and the master is pulled."""
    group, log = make_group(queues=1, slaves=1, settings=Settings(slave_reads=False)), Log()
    group.concurrent(log)
    group.put("a")
    log.wait_for(1)
    group.stub.faults.broker_down("broker-a", 0)

    until(lambda: "slaveReadEnable" in caplog.text)
    group.stub.faults.broker_up("broker-a", 0)
    group.put("b")
    log.wait_for(2)


def test_a_lost_answer_is_asked_for_again(make_group: Callable[..., Group]) -> None:
    """A connection that breaks under a pull is replaced, and the pull comes again."""
    group = make_group(queues=1)
    group.stub.faults.cut_reply(on=RequestCode.PULL_MESSAGE)
    group.put("a")
    log = Log()
    group.concurrent(log)

    log.wait_for(1)


def test_a_paused_consumer_pulls_nothing(make_group: Callable[..., Group]) -> None:
    """While paused no new pull is sent; after `resume` everything arrives."""
    group = make_group(queues=1)
    log = Log()
    consumer = group.concurrent(log)
    group.put("a")
    log.wait_for(1)
    consumer.pause()
    group.put("b")
    until(lambda: len(log.messages) == 2)  # The pull that was held at the broker still brings this one.
    group.put("c")

    threading.Event().wait(0.2)
    assert log.bodies == [b"a", b"b"]
    consumer.resume()
    log.wait_for(3)


def test_where_a_new_group_begins(make_group: Callable[..., Group]) -> None:
    """A young queue is read from its first message, since brokers return 0 for groups they do not know."""
    group = make_group(queues=1)
    group.put("before")
    log = Log()
    group.concurrent(log, consume_from=ConsumeFrom.LAST_OFFSET)

    log.wait_for(1)


def test_a_new_group_begins_at_the_end_of_an_old_queue(make_group: Callable[..., Group]) -> None:
    """With LAST_OFFSET a new group skips the messages of a queue whose first message is gone."""
    group = make_group(queues=1)
    group.put("gone", "before")
    group.stub.expire(TOPIC, 0, 1)
    log = Log()
    consumer = group.concurrent(log, consume_from=ConsumeFrom.LAST_OFFSET)
    until(lambda: MessageQueue(TOPIC, "broker-a", 0) in consumer.queues)
    group.put("after")

    log.wait_for(1)
    assert log.bodies == [b"after"]


def test_a_new_group_begins_at_a_time(make_group: Callable[..., Group]) -> None:
    """With TIMESTAMP a new group begins with the first message stored since that time."""
    group = make_group(queues=1)
    for number, stored_ms in enumerate((1_000, 2_000, 3_000)):
        group.stub.put(TOPIC, b"%d" % number, queue_id=0, store_timestamp=stored_ms)
    group.stub.expire(TOPIC, 0, 1)
    log = Log()
    group.concurrent(log, consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms=2_500)

    log.wait_for(1)
    assert log.bodies == [b"2"]


def test_limits_can_be_as_small_as_one(make_group: Callable[..., Group]) -> None:
    """With every limit at one the whole topic is still consumed."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 50, 10)
    log = Log()
    group.concurrent(log, limits=FlowLimits(1, 1, 1), pull_batch_size=1)

    until(lambda: group.committed().get(0) == 50)


def test_what_is_pulled_can_be_spaced_out(make_group: Callable[..., Group]) -> None:
    """With a pull interval each pull that found messages is followed by a pause."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 10, 10)
    log = Log()
    group.concurrent(log, pull_interval_s=0.05, pull_batch_size=4)

    until(lambda: group.committed().get(0) == 10)


def test_an_idle_member_takes_less_than_a_hundredth_of_a_core(group: Group) -> None:
    """An idle member with RocketMQ's own periods costs less than a hundredth of a core, the stub included."""
    consumer = group.concurrent(Log(), rhythm=Rhythm())
    until(lambda: len(consumer.queues) == 5)

    assert idle_cpu_share(3.0) < 0.01
