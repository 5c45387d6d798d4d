"""While members come and go, each queue has one owner."""

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
    """Two members hold two queues each; when the second leaves, the first holds all four again."""
    first = group.concurrent(Log())
    until(lambda: _shares(first) == [{0, 1, 2, 3}])
    second = group.concurrent(Log())
    until(lambda: sorted(map(sorted, _shares(first, second))) == [[0, 1], [2, 3]])

    second.close()
    until(lambda: _shares(first) == [{0, 1, 2, 3}])


def test_nothing_is_lost_while_members_come_and_go(group: Group) -> None:
    """If members leave and join during consumption, each message reaches a member, and every message is committed."""
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
    """The retry topic has one queue, and one of two members holds it."""
    members = [group.concurrent(Log()), group.concurrent(Log())]

    def holders() -> int:
        return sum(each.topic == retry_topic(GROUP) for member in members for each in member.queues)

    until(lambda: holders() == 1)


def test_another_strategy_shares_otherwise(group: Group) -> None:
    """With AVG_BY_CIRCLE two members hold queues 0 and 2, and queues 1 and 3."""
    dealing = AllocationSettings(strategy=StrategyName("AVG_BY_CIRCLE"))
    members = [group.concurrent(Log(), allocation=dealing) for _ in range(2)]

    until(lambda: sorted(map(sorted, _shares(*members))) == [[0, 2], [1, 3]])


def test_everybody_has_every_queue_in_broadcasting(group: Group) -> None:
    """Two broadcasting members each get all messages, and brokers store no position."""
    logs = [Log(), Log()]
    members = [
        group.concurrent(log, message_model=MessageModel.BROADCASTING, instance_name=f"member{number}")
        for number, log in enumerate(logs)
    ]
    until(lambda: _shares(*members) == [{0, 1, 2, 3}] * 2)  # Messages stored from now on reach both.
    group.put(*"abcdefgh")

    for log in logs:
        log.wait_for(8)
    assert group.stub.offsets(GROUP) == {}


def test_the_listener_of_queues_is_told_of_changes(group: Group) -> None:
    """When a member's queues change, its queue listener gets the topic, all queues and the member's queues."""
    told: list[tuple[str, int, list[MessageQueue]]] = []

    def note(topic: str, every: Collection[MessageQueue], ours: Collection[MessageQueue]) -> None:
        told.append((topic, len(every), sorted(ours)))

    group.concurrent(Log(), queue_listener=note)
    group.concurrent(Log())
    until(lambda: any(topic == TOPIC and count == 4 and len(ours) == 2 for topic, count, ours in told))


def test_a_listener_of_queues_that_fails_stops_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If a queue listener raises, the exception is logged and the queues are consumed all the same."""
    log = Log()
    group.concurrent(log, queue_listener=lambda *_: 1 / 0)
    group.put("a")

    log.wait_for(1)
    assert "ZeroDivisionError" in caplog.text


def test_a_topics_limit_is_shared_out_over_all_queues(group: Group) -> None:
    """A topic limit of 1000 messages is divided by the five held queues, the retry queue included: 200 for each."""
    consumer = group.concurrent(Log(), topic_message_count=1000, topic_body_mib=2)

    until(lambda: len(consumer.queues) == 5)
    until(lambda: consumer._member.state.limits.message_count == 200)
    assert consumer._member.state.limits.body_mib == 1


def test_an_unreachable_list_of_members_changes_nothing(group: Group) -> None:
    """While brokers refuse to list the group's members, a member keeps its queues."""
    consumer = group.concurrent(Log())
    until(lambda: len(consumer.queues) == 5)
    fault = group.stub.faults.answer(ResponseCode.SYSTEM_BUSY, on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=None)
    until(lambda: fault.fired >= 4)

    assert len(consumer.queues) == 5
    group.stub.faults.clear()


def test_a_new_queue_is_taken(group: Group) -> None:
    """If a topic gets two more queues, the member takes them once it has fetched the route again."""
    consumer = group.concurrent(Log())
    until(lambda: _shares(consumer) == [{0, 1, 2, 3}])
    cluster = group.cluster()
    [config] = cluster.admin.fetch_topic_config(TOPIC).values()
    cluster.admin.create_topic(replace(config, read_queue_nums=6, write_queue_nums=6))

    until(lambda: _shares(consumer) == [{0, 1, 2, 3, 4, 5}])


def test_a_broker_that_was_started_again_gets_to_know_us(group: Group) -> None:
    """After a broker's restart it lists the member again before the next regular heartbeat, and new messages arrive."""
    log = Log()
    consumer = group.concurrent(log, rhythm=replace(QUICK, heartbeat_s=3600))
    until(lambda: len(consumer.queues) == 5)
    group.stub.faults.broker_down()
    group.stub.faults.broker_up()
    group.put("after")

    log.wait_for(1)
    assert group.stub.groups()[GROUP] == (consumer.client_id,)


def test_a_queue_that_nobody_pulls_is_taken_anew(group: Group) -> None:
    """If a queue was not pulled for two minutes, the next round of rebalancing gives it up and takes it again."""
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
    """If another client has locked a queue, a member takes it in a round after it was unlocked."""
    cluster = group.cluster()
    cluster.groups.lock(GROUP, "other", [queue(0)])
    consumer = group.orderly(Log())
    until(lambda: _shares(consumer) == [{1, 2, 3}])

    cluster.groups.unlock(GROUP, "other", [queue(0)])
    until(lambda: _shares(consumer) == [{0, 1, 2, 3}])


def test_a_strategy_that_fails_changes_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If the strategy raises, the member takes no queue of the topic, and the reason is logged."""
    nearby = AllocationSettings(strategy=StrategyName("MACHINE_ROOM_NEARBY", "AVG"))
    with caplog.at_level(logging.WARNING):
        consumer = group.concurrent(Log(), allocation=nearby)
        until(lambda: "could not rebalance" in caplog.text)

    assert consumer.queues == ()


def test_members_who_want_different_topics_do_not_stop_each_other_for_good(
    make_group: Callable[..., Group],
) -> None:
    """If two members subscribe to different topics, at least one of the two messages is consumed and committed."""
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
    """Runs rounds on a manual clock and notes their times; each round returns the given result."""

    def __init__(self, balanced: bool = True) -> None:
        self.clock, self.at, self.balanced = ManualClock(), list[float](), balanced
        self.loop = Loop("rounds", self.clock)
        self.rounds = Rounds(self._round, self.loop, self.clock, Rhythm())
        self.loop.start()

    def _round(self) -> bool:
        self.at.append(self.clock.now_s())
        return self.balanced

    def pass_s(self, seconds: int) -> None:
        """Advance the clock by single seconds, and let the loop run all commands that are due after each."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            done: list[bool] = []
            self.loop.call_soon(lambda done=done: done.append(True))  # type: ignore[misc]
            until(lambda done=done: done)  # type: ignore[misc]


@pytest.mark.parametrize(("balanced", "gap_s"), [(True, 20.0), (False, 1.0)])
def test_rounds_come_by_themselves(balanced: bool, gap_s: float) -> None:
    """The next round comes after 20 seconds, or after one second if the last one left something to do."""
    counted = _Counted(balanced)
    counted.rounds.wake()
    counted.pass_s(65)
    counted.loop.stop(5)

    assert len(counted.at) >= 3
    assert {later - earlier for earlier, later in pairwise(counted.at)} == {gap_s}


def test_wake_ups_come_no_closer_than_a_second() -> None:
    """Ten wake-ups right after a round cause one further round, a second later."""
    counted = _Counted()
    counted.rounds.wake()
    until(lambda: len(counted.at) == 1)
    for _ in range(10):
        counted.rounds.wake()
    counted.pass_s(5)
    counted.loop.stop(5)

    assert [moment - counted.at[0] for moment in counted.at] == [0.0, 1.0]
