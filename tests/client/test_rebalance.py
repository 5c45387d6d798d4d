"""Members come and go, and every queue has one owner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import pairwise

import pytest

from pyspark_rocketmq.allocation.choice import AllocationSettings, StrategyName
from pyspark_rocketmq.client.loop import Loop
from pyspark_rocketmq.client.rebalance import Rounds
from pyspark_rocketmq.client.results import SUCCESS
from pyspark_rocketmq.client.settings import MessageModel, Rhythm
from pyspark_rocketmq.model import MessageQueue, retry_topic
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, ManualClock, queue, until


def _shares(*members: object) -> list[set[int]]:
    return [{each.queue_id for each in member.queues if each.topic == TOPIC} for member in members]  # type: ignore[attr-defined]


def test_members_share_a_topic_without_gap_or_overlap(group: Group) -> None:
    """Two members hold two queues each, and the first gets all of them back when the second leaves."""
    first = group.concurrent(Log())
    until(lambda: _shares(first) == [{0, 1, 2, 3}])
    second = group.concurrent(Log())
    until(lambda: sorted(map(sorted, _shares(first, second))) == [[0, 1], [2, 3]])

    second.close()
    until(lambda: _shares(first) == [{0, 1, 2, 3}])


def test_nothing_is_lost_while_members_come_and_go(group: Group) -> None:
    """Every message reaches a member while members change, and the group's positions end behind all of them."""
    logs = [Log(), Log(), Log()]
    first = group.concurrent(logs[0], batch_size=4)
    second = group.concurrent(logs[1], batch_size=4)
    until(lambda: [len(share) for share in _shares(first, second)] == [2, 2])
    group.stub.fill(TOPIC, 2000, 10)
    first.close()
    group.concurrent(logs[2], batch_size=4)

    until(lambda: sum(group.committed().values()) == 2000)
    second.close()
    assert {message.body for log in logs for message in log.messages} == {
        record.body for record in group.stub.messages(TOPIC)
    }


def test_the_retry_topic_is_shared_like_any_other(group: Group) -> None:
    """One of two members holds the only retry queue."""
    members = [group.concurrent(Log()), group.concurrent(Log())]

    def holders() -> int:
        return sum(each.topic == retry_topic(GROUP) for member in members for each in member.queues)

    until(lambda: holders() == 1)


def test_another_strategy_shares_otherwise(group: Group) -> None:
    """AVG_BY_CIRCLE assigns queues in turn."""
    dealing = AllocationSettings(strategy=StrategyName("AVG_BY_CIRCLE"))
    members = [group.concurrent(Log(), allocation=dealing) for _ in range(2)]

    until(lambda: sorted(map(sorted, _shares(*members))) == [[0, 2], [1, 3]])


def test_everybody_has_every_queue_in_broadcasting(group: Group) -> None:
    """Two broadcasting members both get all messages, and brokers learn of no position."""
    logs = [Log(), Log()]
    members = [
        group.concurrent(log, message_model=MessageModel.BROADCASTING, instance_name=f"member{number}")
        for number, log in enumerate(logs)
    ]
    until(lambda: _shares(*members) == [{0, 1, 2, 3}] * 2)  # From where they hold a queue on, they miss nothing.
    group.put(*"abcdefgh")

    for log in logs:
        log.wait_for(8)
    assert group.stub.offsets(GROUP) == {}


def test_the_listener_of_queues_is_told_of_changes(group: Group) -> None:
    """The queue listener gets the topic, all its queues and the member's, each time that the member's change."""
    told: list[tuple[str, int, list[MessageQueue]]] = []

    def note(topic: str, every: Collection[MessageQueue], ours: Collection[MessageQueue]) -> None:
        told.append((topic, len(every), sorted(ours)))

    group.concurrent(Log(), queue_listener=note)
    group.concurrent(Log())
    until(lambda: any(topic == TOPIC and count == 4 and len(ours) == 2 for topic, count, ours in told))


def test_a_listener_of_queues_that_fails_stops_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """The exception of a queue listener is logged, and the queues are consumed all the same."""
    log = Log()
    group.concurrent(log, queue_listener=lambda *_: 1 / 0)
    group.put("a")

    log.wait_for(1)
    assert "ZeroDivisionError" in caplog.text


def test_a_topics_limit_is_shared_out_over_all_queues(group: Group) -> None:
    """A limit of 1000 messages makes 200 for each of four queues and the retry queue."""
    consumer = group.concurrent(Log(), topic_message_count=1000, topic_body_mib=2)

    until(lambda: len(consumer.queues) == 5)
    until(lambda: consumer._member.state.limits.message_count == 200)
    assert consumer._member.state.limits.body_mib == 1


def test_an_unreachable_list_of_members_changes_nothing(group: Group) -> None:
    """While brokers refuse the list of members, every member keeps its queues."""
    consumer = group.concurrent(Log())
    until(lambda: len(consumer.queues) == 5)
    fault = group.stub.faults.answer(ResponseCode.SYSTEM_BUSY, on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=None)
    until(lambda: fault.fired >= 4)

    assert len(consumer.queues) == 5
    group.stub.faults.clear()


def test_a_new_queue_is_taken(group: Group) -> None:
    """Queues that a topic gains are taken after the next look at the route."""
    consumer = group.concurrent(Log())
    until(lambda: _shares(consumer) == [{0, 1, 2, 3}])
    cluster = group.cluster()
    [config] = cluster.admin.fetch_topic_config(TOPIC).values()
    cluster.admin.create_topic(replace(config, read_queue_nums=6, write_queue_nums=6))

    until(lambda: _shares(consumer) == [{0, 1, 2, 3, 4, 5}])


def test_a_broker_that_was_started_again_gets_to_know_us(group: Group) -> None:
    """After a restart the broker lists the member again, and new messages arrive."""
    log = Log()
    consumer = group.concurrent(log, rhythm=replace(QUICK, heartbeat_s=3600))
    until(lambda: len(consumer.queues) == 5)
    group.stub.faults.broker_down()
    group.stub.faults.broker_up()
    group.put("after")

    log.wait_for(1)
    assert group.stub.groups()[GROUP] == (consumer.client_id,)


def test_a_queue_that_nobody_pulls_is_taken_anew(group: Group) -> None:
    """After two minutes without a pull the next round takes the queue anew."""
    clock = ManualClock()
    log = Log()
    consumer = group.concurrent(log, clock=clock)
    group.put("a", queue_id=0)
    clock.advance_until(lambda: log.messages)
    stale = consumer._member.table.get(queue(0))
    clock.advance(121)

    clock.advance_until(lambda: consumer._member.table.get(queue(0)) not in (stale, None))
    assert stale is not None and stale.is_lost()


def test_a_refused_lock_leaves_a_queue_for_the_next_round(group: Group) -> None:
    """A queue that another client has locked is taken once it is unlocked."""
    cluster = group.cluster()
    cluster.groups.lock(GROUP, "other", [queue(0)])
    consumer = group.orderly(Log())
    until(lambda: _shares(consumer) == [{1, 2, 3}])

    cluster.groups.unlock(GROUP, "other", [queue(0)])
    until(lambda: _shares(consumer) == [{0, 1, 2, 3}])


def test_a_strategy_that_fails_changes_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """The nearby strategy refuses brokers without a room: the topic is left alone, and the log says why."""
    nearby = AllocationSettings(strategy=StrategyName("MACHINE_ROOM_NEARBY", "AVG"))
    with caplog.at_level(logging.WARNING):
        consumer = group.concurrent(Log(), allocation=nearby)
        until(lambda: "could not rebalance" in caplog.text)

    assert consumer.queues == ()


def test_members_who_want_different_topics_do_not_stop_each_other_for_good(
    make_group: Callable[..., Group],
) -> None:
    """Members with different subscriptions get messages of their topics, and no message is committed unseen."""
    group = make_group(queues=1)
    group.stub.put("other", b"x", queue_id=0)
    group.put("a")
    group.concurrent(Log(lambda _: SUCCESS))
    group.concurrent(Log(), subscriptions={"other": Subscription()})

    until(lambda: group.committed().get(0, 0) == 1 or group.committed("other").get(0, 0) == 1)
    for offset in (*group.committed().values(), *group.committed("other").values()):
        assert offset <= 1


# --- when rounds take place ------------------------------------------------------------------------------------------


class _Counted:
    """Rounds on a clock that stands still, all with the same outcome."""

    def __init__(self, balanced: bool = True) -> None:
        self.clock, self.at, self.balanced = ManualClock(), list[float](), balanced
        self.loop = Loop("rounds", self.clock)
        self.rounds = Rounds(self._round, self.loop, self.clock, Rhythm())
        self.loop.start()

    def _round(self) -> bool:
        self.at.append(self.clock.now_s())
        return self.balanced

    def pass_s(self, seconds: int) -> None:
        """Advance the clock second by second, each after the commands of the one before."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            done: list[bool] = []
            self.loop.call_soon(lambda done=done: done.append(True))  # type: ignore[misc]
            until(lambda done=done: done)  # type: ignore[misc]


@pytest.mark.parametrize(("balanced", "gap_s"), [(True, 20.0), (False, 1.0)])
def test_rounds_come_by_themselves(balanced: bool, gap_s: float) -> None:
    """Rounds come every 20 seconds, or after one second where something is left to do."""
    counted = _Counted(balanced)
    counted.rounds.wake()
    counted.pass_s(65)
    counted.loop.stop(5)

    assert len(counted.at) >= 3
    assert {later - earlier for earlier, later in pairwise(counted.at)} == {gap_s}


def test_wake_ups_come_no_closer_than_a_second() -> None:
    """Many wake-ups at once make one round, a second after the last."""
    counted = _Counted()
    counted.rounds.wake()
    until(lambda: len(counted.at) == 1)
    for _ in range(10):
        counted.rounds.wake()
    counted.pass_s(5)
    counted.loop.stop(5)

    assert [moment - counted.at[0] for moment in counted.at] == [0.0, 1.0]
