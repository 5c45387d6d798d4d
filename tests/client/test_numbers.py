"""Every period, pause and timeout of a member is RocketMQ's, and takes effect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_rocketmq.client.assignment import AssignmentTable
from pyspark_rocketmq.client.locks import QueueLocks
from pyspark_rocketmq.client.membership import Membership
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.producer import Producer
from pyspark_rocketmq.client.redelivery import Redelivery
from pyspark_rocketmq.client.results import RECONSUME_LATER, SUCCESS
from pyspark_rocketmq.client.settings import ConsumeFrom, ConsumerSettings, ProducerSettings, Rhythm
from pyspark_rocketmq.client.stores import FirstOffsets, RemoteStore
from pyspark_rocketmq.cluster.groups import Locked
from pyspark_rocketmq.model import Message, MessageQueue
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, TOPIC, Group, Log, ManualClock, queue, until
from tests.client.timeline import Timeline

PULL = RequestCode.PULL_MESSAGE
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK
HALF_AN_HOUR_MS = 1_800_000
PATIENT = replace(Rhythm(), pull_max_idle_s=86400.0)
"""RocketMQ's periods, but a queue may wait for its next pull as long as a test's clock makes it."""


@pytest.fixture
def one_queue(make_group: Callable[..., Group]) -> Group:
    """Return a group whose topic has one queue; its clients fetch routes only when they are told to."""
    group = make_group(queues=1)
    group.cluster_settings = replace(group.cluster_settings, route_max_age_s=3600.0)
    return group


# --- periods ---------------------------------------------------------------------------------------------------------


def test_the_periods_of_a_member(one_queue: Group) -> None:
    """Heartbeats leave and routes are polled each 30 s, positions 10 s after the start and then each 5 s.

    Locks are renewed a second after the start and then each 20 s.
    """
    one_queue.put("a")  # An empty queue has no position to commit.
    timeline = Timeline(one_queue)
    timeline.join(one_queue.orderly(Log(), clock=timeline.clock, rhythm=PATIENT))
    timeline.pass_s(130.0, 0.5)

    heartbeats = timeline.times(RequestCode.HEART_BEAT)
    assert 30.0 in heartbeats and [at_s for at_s in heartbeats if at_s > 45] == [60.0, 90.0, 120.0]
    routes = timeline.times(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC)
    assert [at_s for at_s in routes if at_s > 0] == [30.0, 60.0, 90.0, 120.0]
    commits = timeline.times(COMMIT, topic=TOPIC)
    assert commits == [float(at_s) for at_s in range(10, 135, 5)]
    renewals = timeline.times(RequestCode.LOCK_BATCH_MQ)
    assert {1.0, 21.0, 41.0} <= set(renewals) and [at_s for at_s in renewals if at_s > 45] == [61, 81, 101, 121]


def test_a_queue_is_pulled_half_a_second_after_it_was_taken(one_queue: Group) -> None:
    """The first pull waits 0.5 s, in which the heartbeat with the new version of the subscription arrives."""
    timeline = Timeline(one_queue)
    consumer = one_queue.concurrent(Log(), clock=timeline.clock, rhythm=Rhythm())
    timeline.join(consumer)
    until(lambda: queue(0) in consumer.queues)
    timeline.pass_s(0.375)
    assert timeline.times(PULL) == []

    timeline.pass_s(0.125)
    until(lambda: timeline.times(PULL, topic=TOPIC) == [0.5])


def test_a_queue_that_is_not_pulled_for_two_minutes_is_taken_anew(one_queue: Group) -> None:
    """A round of rebalancing leaves a queue alone 119.5 s after its last pull, and takes it anew 139.5 s after it."""
    timeline = Timeline(one_queue)
    timeline.join(one_queue.concurrent(Log(), clock=timeline.clock, rhythm=Rhythm()))
    timeline.pass_s(0.5)
    until(lambda: timeline.times(PULL, topic=TOPIC))
    held = timeline.member.table.get(queue(0))
    timeline.pass_s(119.5, 0.5)
    timeline.member.rounds.wake()
    timeline.settle()
    assert timeline.member.table.get(queue(0)) is held

    timeline.pass_s(20.0)
    assert held.is_lost()


# --- pauses ----------------------------------------------------------------------------------------------------------


def test_what_could_not_be_sent_back_reaches_the_listener_again_after_5_s(one_queue: Group) -> None:
    """If no broker takes a failed message, the listener gets it again 5 s later."""
    for code in (SEND_BACK, RequestCode.SEND_MESSAGE_V2):
        one_queue.stub.faults.answer(ResponseCode.NO_PERMISSION, on=code, times=None)
    one_queue.put("a")
    timeline, log = Timeline(one_queue), Log(lambda _: RECONSUME_LATER)
    timeline.join(one_queue.concurrent(log, clock=timeline.clock, rhythm=PATIENT, thread_count=1))
    timeline.pass_s(0.5)
    log.wait_for(1)
    timeline.wait_for_threads()
    timeline.pass_s(4.75)
    timeline.wait_for_threads()
    assert len(log.messages) == 1

    timeline.pass_s(0.25)
    log.wait_for(2)
    one_queue.stub.faults.clear()


def test_a_reset_waits_10_s_for_listeners(one_queue: Group) -> None:
    """An administrator's reset moves the position 10 s after its request."""
    one_queue.put("a", "b", "c")
    timeline, log = Timeline(one_queue), Log()
    timeline.join(one_queue.concurrent(log, clock=timeline.clock, rhythm=PATIENT))
    timeline.pass_s(0.5)
    log.wait_for(3)
    timeline.member.reset(TOPIC, {queue(0): 1})
    timeline.settle()
    timeline.pass_s(9.75, 0.25)
    assert timeline.times(COMMIT, topic=TOPIC, commitOffset=1) == []

    timeline.pass_s(0.25)
    assert set(timeline.times(COMMIT, topic=TOPIC, commitOffset=1)) == {10.5}


@pytest.mark.parametrize(("given_ms", "wanted_ms"), [(None, None), (5, 5)], ids=["default", "given"])
def test_by_time_means_half_an_hour_before_the_start(
    one_queue: Group, given_ms: int | None, wanted_ms: int | None
) -> None:
    """With TIMESTAMP a group without a position searches for the time given, by default 30 minutes before the start."""
    one_queue.put("gone", "a")
    one_queue.stub.expire(TOPIC, 0, 1)
    timeline = Timeline(one_queue)
    started_ms = timeline.clock.wall_ms()
    timeline.join(
        one_queue.concurrent(
            Log(), clock=timeline.clock, consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms=given_ms
        )
    )

    [search] = timeline.requests(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic=TOPIC)
    assert int(search.fields["timestamp"]) == (wanted_ms or started_ms - HALF_AN_HOUR_MS)


# --- messages that a listener holds ----------------------------------------------------------------------------------


def test_what_a_listener_holds_for_15_minutes_is_sent_back_with_level_3(one_queue: Group) -> None:
    """A message that the listener got 899.5 s before a cleaning stays; the next one, 900 s later, sends it back."""
    gate = threading.Event()
    one_queue.put("a")
    timeline, log = Timeline(one_queue), Log(lambda _: gate.wait(20) and SUCCESS)
    timeline.join(one_queue.concurrent(log, clock=timeline.clock, rhythm=PATIENT))
    timeline.pass_s(0.5)
    log.wait_for(1)
    timeline.pass_s(899.5)
    assert timeline.requests(SEND_BACK) == []

    timeline.pass_s(900.0)
    [sent_back] = timeline.requests(SEND_BACK)
    assert (sent_back.fields["delayLevel"], sent_back.fields["maxReconsumeTimes"]) == ("3", "16")
    gate.set()


def test_a_failed_message_leaves_its_delay_to_the_broker(one_queue: Group) -> None:
    """A message that the listener failed is sent back with level 0, so that the broker chooses by its failures."""
    one_queue.put("a")
    timeline, log = Timeline(one_queue), Log(lambda _: RECONSUME_LATER)
    timeline.join(one_queue.concurrent(log, clock=timeline.clock, rhythm=PATIENT))
    timeline.pass_s(0.5)

    until(lambda: timeline.requests(SEND_BACK))
    assert timeline.requests(SEND_BACK)[0].fields["delayLevel"] == "0"


# --- timeouts --------------------------------------------------------------------------------------------------------


class Timeouts:
    """All requests of a cluster in one object; it notes the timeouts that callers give, and does nothing else."""

    def __init__(self) -> None:
        self.groups = self.offsets = self.messages = self
        self.noted: list[float] = []

    def lock(self, group: str, client_id: str, queues: list[MessageQueue], deadline: Deadline) -> Locked:
        """Grant all locks."""
        self.noted.append(deadline.seconds)
        return Locked(frozenset(queues), frozenset(), {})

    def unlock_oneway(self, group: str, client_id: str, queues: list[MessageQueue], deadline: Deadline) -> None:
        """Release no lock."""
        self.noted.append(deadline.seconds)

    def fetch_members(self, group: str, topic: str, deadline: Deadline) -> tuple[str, ...]:
        """Return no member."""
        self.noted.append(deadline.seconds)
        return ()

    def fetch_committed(
        self, group: str, queues: list[MessageQueue], *, zero_if_young: bool, deadline: Deadline
    ) -> dict[MessageQueue, int]:
        """Return no position."""
        self.noted.append(deadline.seconds)
        return {}

    def fetch_max(self, queues: list[MessageQueue], deadline: Deadline) -> dict[MessageQueue, int]:
        """Return an end of 9 for each queue."""
        self.noted.append(deadline.seconds)
        return dict.fromkeys(queues, 9)

    def search(self, times: dict[MessageQueue, int], *, deadline: Deadline) -> dict[MessageQueue, int]:
        """Return offset 4 for each queue."""
        self.noted.append(deadline.seconds)
        return dict.fromkeys(times, 4)

    def commit_oneway(self, group: str, offsets: dict[MessageQueue, int], deadline: Deadline) -> None:
        """Commit nothing."""
        self.noted.append(deadline.seconds)

    def send_back(self, *args: Any, deadline: Deadline, **more: Any) -> None:
        """Send nothing back."""
        self.noted.append(deadline.seconds)


@pytest.fixture
def timeouts() -> Timeouts:
    """Return requests that note their timeouts."""
    return Timeouts()


def test_locks_wait_a_second_for_a_broker(timeouts: Timeouts) -> None:
    """A request to lock or unlock queues has a timeout of 1 s."""
    locks = QueueLocks(cast(Any, timeouts), GROUP, "me", AssignmentTable(), ManualClock())
    locks.take_all([queue(0)])
    locks.release([queue(0)])

    assert timeouts.noted == [1.0, 1.0]


def test_the_list_of_members_is_waited_for_3_s(timeouts: Timeouts) -> None:
    """The request for a group's members has a timeout of 3 s."""
    settings = ConsumerSettings(group=GROUP, subscriptions=TOPIC)
    Membership(cast(Any, timeouts), settings, "me", ManualClock()).members(TOPIC)

    assert timeouts.noted == [3.0]


@pytest.mark.parametrize(("consume_from", "start"), [(ConsumeFrom.LAST_OFFSET, 9), (ConsumeFrom.TIMESTAMP, 4)])
def test_positions_wait_5_s_for_a_broker(timeouts: Timeouts, consume_from: ConsumeFrom, start: int) -> None:
    """Each request that reads or commits a position, or looks for the first one, has a timeout of 5 s."""
    offsets = cast(Any, timeouts)
    store = RemoteStore(offsets, GROUP)
    assert FirstOffsets(offsets, store, consume_from, 1).find(queue(0)) == start
    store.progress.update(queue(0), 3, only_forward=True)
    store.persist(queue(0))

    assert timeouts.noted == [5.0, 5.0, 5.0]


def test_sending_back_waits_5_s_for_a_broker(timeouts: Timeouts) -> None:
    """A request to take a message back has a timeout of 5 s."""
    message = SimpleNamespace(queue=queue(0), record=SimpleNamespace(physical_offset=7), message_id="id")
    Redelivery(cast(Any, timeouts), GROUP, 16, ManualClock()).send_back(cast(ReceivedMessage, message))

    assert timeouts.noted == [5.0]


# --- producers -------------------------------------------------------------------------------------------------------


def test_a_producer_sends_a_heartbeat_every_30_s(one_queue: Group) -> None:
    """A producer's heartbeats leave each 30 s."""
    timeline = Timeline(one_queue)
    settings = ProducerSettings(group="shop")
    with Producer(one_queue.cluster_settings, settings, clock=timeline.clock) as producer:
        producer.send(Message(TOPIC, b"a"))  # Now the producer knows a broker.
        for _ in range(3):
            for part_s in (29.75, 0.25):
                timeline.clock.advance(part_s)
                timeline.wait_for_loop(producer._timer)
        assert timeline.times(RequestCode.HEART_BEAT) == [30.0, 60.0, 90.0]
