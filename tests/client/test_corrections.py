"""Positions are moved while listeners are running: every reset takes effect, and no position stays frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark_rocketmq.model import MessageQueue
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, ManualClock, queue, until

UNHURRIED = replace(QUICK, reset_pause_s=5.0, pull_max_idle_s=3600)
"""Periods with many rounds of rebalancing during the pause of a reset."""


def test_resets_that_overlap_are_all_obeyed(make_group: Callable[..., Group]) -> None:
    """If a second broker resets its queue during the pause of the first reset, both queues are consumed again."""
    group, clock, log = make_group(brokers=2, queues=1), ManualClock(), Log()
    queues = [MessageQueue(TOPIC, name, 0) for name in ("broker-a", "broker-b")]
    for each in queues * 2:
        group.stub.put(TOPIC, b"old", broker=each.broker_name)
    member = group.concurrent(log, clock=clock, rhythm=UNHURRIED)._member
    clock.advance_until(lambda: len(log.messages) == 4)

    for each in queues:
        assigned = member.table.get(each)
        assert assigned
        member.reset(TOPIC, {each: 1})
        until(assigned.is_lost)
        clock.advance(3.0)
    clock.advance_until(lambda: len(log.messages) == 6)
    assert sorted(message.queue for message in log.messages[4:]) == queues
    clock.advance_until(lambda: all(group.stub.offsets(GROUP).get(each) == 2 for each in queues))


def test_of_two_resets_of_a_queue_the_later_counts(make_group: Callable[..., Group]) -> None:
    """If a queue is reset twice within one pause, it is consumed from the second offset on."""
    group, clock, log = make_group(queues=1), ManualClock(), Log()
    group.put("a", "b", "c", "d")
    member = group.concurrent(log, clock=clock, rhythm=UNHURRIED)._member
    clock.advance_until(lambda: len(log.messages) == 4)
    assigned = member.table.get(queue(0))
    assert assigned

    member.reset(TOPIC, {queue(0): 3})
    until(assigned.is_lost)
    clock.advance(3.0)
    member.reset(TOPIC, {queue(0): 1})
    clock.advance_until(lambda: len(log.messages) >= 7)
    assert sorted(log.bodies[4:]) == [b"b", b"c", b"d"]


def test_a_reset_leaves_a_pause_of_its_user(make_group: Callable[..., Group]) -> None:
    """If a paused consumer is reset, it gets the messages again after `resume`, not before."""
    group, log = make_group(queues=1), Log()
    group.put("a", "b")
    consumer = group.concurrent(log)
    until(lambda: group.committed().get(0) == 2)
    consumer.pause()
    consumer._member.reset(TOPIC, {queue(0): 1})
    until(lambda: consumer._member.table.get(queue(0)) is None)

    assert consumer._member.state.is_paused
    consumer.resume()
    assert log.wait_for(3)[2].body == b"b"


def test_a_correction_that_comes_too_late_freezes_nothing(make_group: Callable[..., Group]) -> None:
    """If a late response corrects a queue that the user has moved with `seek`, later messages are still committed."""
    group = make_group(queues=1)
    group.stub.fill(TOPIC, 100, 10)
    consumer = group.pulling()
    until(lambda: queue(0) in consumer.queues)
    old = consumer._member.table.get(queue(0))
    assert old
    consumer.seek(queue(0), 50)
    consumer._member.corrections.correct(old, 7)

    until(lambda: consumer.poll(0.05) or group.committed().get(0) == 100)
    until(lambda: not consumer.poll(0.05) and group.committed().get(0) == 100)
