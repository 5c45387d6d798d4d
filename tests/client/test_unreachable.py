"""If one broker cannot be reached, work for the queues of other brokers goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from pyspark_rocketmq.allocation.by_position import AVERAGELY
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.member import Member
from pyspark_rocketmq.client.pull_connections import PullConnections
from pyspark_rocketmq.client.rebalance import Rebalancer
from pyspark_rocketmq.client.stores import RemoteStore
from pyspark_rocketmq.errors import ConnectError, RocketMQError
from pyspark_rocketmq.model import Address, MessageQueue, parse_address
from pyspark_rocketmq.net import threaded
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.pool import SharedPool
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.net.transport import Transport, connect
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, until

ATTEMPTS = 2
"""The number of attempts for one request: the first, and the one retry that the test's settings allow."""


class Road:
    """The network path to a broker. After `close`, connecting to the broker hangs until the timeout."""

    def __init__(self, deaf: Address) -> None:
        self._deaf = deaf
        self._closed: Address | None = None
        self.attempts = 0
        self._is_open = threading.Event()

    def close(self, group: Group, broker: str = "broker-b") -> None:
        """Let connecting to the broker hang from now on."""
        self._closed = parse_address(group.stub.broker_address(broker))
        self._is_open.clear()

    def open(self) -> None:
        """Let connecting succeed again, also for attempts that hang now."""
        self._is_open.set()

    def connect(self, address: Address, deadline: Deadline, settings: NetSettings) -> Transport:
        """Connect to the address; if it is the closed one, wait until `open` or the deadline."""
        if address != self._closed or self._is_open.is_set():
            return connect(address, deadline, settings)
        self.attempts += 1
        is_repaired = self._is_open.wait(deadline.remaining())
        return connect(address if is_repaired else self._deaf, deadline, settings)


@pytest.fixture
def road(deaf: Address, monkeypatch: pytest.MonkeyPatch) -> Iterator[Road]:
    """Yield the network path that all connections of a shared pool use."""
    made = Road(deaf)
    monkeypatch.setattr(threaded, "connect", made.connect)
    yield made
    made.open()


@pytest.fixture
def pair(make_group: Callable[..., Group]) -> Group:
    """Return a group with two brokers of four queues each; its clients stop connecting after 0.2 seconds."""
    group = make_group(brokers=2)
    group.cluster_settings = replace(group.cluster_settings, net=NetSettings(connect_timeout_s=0.2))
    group.cluster().admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    return group


def _four(broker: str) -> list[MessageQueue]:
    return [MessageQueue(TOPIC, broker, number) for number in range(4)]


def _committed_at(group: Group, broker: str) -> list[int]:
    return [offset for each, offset in group.stub.offsets(GROUP).items() if each.broker_name == broker]


@pytest.fixture
def make_member(pair: Group) -> Iterator[Callable[..., Member]]:
    """Yield a function that makes members, known to brokers but not started; the test runs their rounds itself."""
    with ExitStack() as stack:

        def make(*, orderly: bool = False, name: str = "one") -> Member:
            settings = pair.settings(instance_name=name)
            make_consumer = PushConsumer.orderly if orderly else PushConsumer.concurrent
            member = make_consumer(pair.cluster_settings, settings, Log())._member
            stack.callback(member.cluster.close)
            for topic in member.membership.subscriptions:
                member.membership.queues(topic)
            member.membership.heartbeat()
            return member

        yield make


# --- pulling ---------------------------------------------------------------------------------------------------------


def test_queues_of_other_brokers_are_pulled_meanwhile(make_group: Callable[..., Group], road: Road) -> None:
    """While connecting to one broker hangs, messages of the other arrive; after that, messages of both arrive."""
    group, log = make_group(brokers=2), Log()
    group.cluster_settings = replace(group.cluster_settings, net=NetSettings(connect_timeout_s=600))
    calm = replace(QUICK, rebalance_s=600, route_s=600)
    consumer = group.concurrent(log, rhythm=calm, limits=FlowLimits(message_count=1), pull_batch_size=4)
    until(lambda: {*_four("broker-a"), *_four("broker-b")} <= set(consumer.queues))
    road.close(group)
    consumer._member.pool.connection(parse_address(group.stub.broker_address("broker-b"))).close()
    until(lambda: road.attempts)
    group.stub.fill(TOPIC, 200, 10, broker="broker-a")
    log.wait_for(200)

    road.open()
    group.stub.fill(TOPIC, 8, 10, broker="broker-b")
    log.wait_for(208)


def test_one_attempt_to_connect_is_everybodys(pair: Group, road: Road) -> None:
    """If one attempt to connect fails, all waiting callbacks get its error; the next call of `open` tries again."""
    pool, told, news = SharedPool(pair.cluster_settings.net), list[RocketMQError | None](), list[bool]()
    connections = PullConnections(pool, lambda: news.append(True))
    address = parse_address(pair.stub.broker_address("broker-b"))
    road.close(pair)
    for _ in range(5):
        connections.open(address, told.append)
    until(lambda: len(told) == 5)
    assert road.attempts == 1 and all(isinstance(each, ConnectError) for each in told)

    road.open()
    connections.open(address, told.append)
    until(lambda: len(told) == 6)
    assert told[-1] is None and news == [True]
    assert connections.find(address) is pool.connection(address)
    pool.close_all()


# --- commits ---------------------------------------------------------------------------------------------------------


def test_commits_skip_a_broker_after_its_first_failure(pair: Group, road: Road) -> None:
    """If one broker cannot be reached, it is tried for one queue, and positions at the other broker are committed."""
    store, queues = RemoteStore(pair.cluster().offsets, GROUP), [*_four("broker-b"), *_four("broker-a")]
    for each in queues:
        store.progress.update(each, 7, only_forward=True)
    road.close(pair)
    store.persist_all(queues)
    until(lambda: _committed_at(pair, "broker-a") == [7] * 4)
    assert road.attempts == ATTEMPTS and _committed_at(pair, "broker-b") == []

    road.open()
    store.persist_all(queues)
    until(lambda: _committed_at(pair, "broker-b") == [7] * 4)


# --- rounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orderly", [False, True])
def test_a_round_takes_what_it_can_reach(
    pair: Group, road: Road, make_member: Callable[..., Member], orderly: bool
) -> None:
    """A round that cannot reach a broker takes the other broker's queues; a later round takes those left out."""
    road.close(pair)
    member = make_member(orderly=orderly)
    before = road.attempts
    assert not member.rebalancer.run_round()
    assert set(_four("broker-a")) <= set(member.table.queues()) and not member.table.get(_four("broker-b")[0])
    assert road.attempts - before <= ATTEMPTS

    road.open()
    until(member.rebalancer.run_round)
    assert set(_four("broker-b")) <= set(member.table.queues())


@pytest.mark.parametrize("orderly", [False, True])
def test_a_round_gives_up_what_it_cannot_reach(
    pair: Group, road: Road, make_member: Callable[..., Member], orderly: bool
) -> None:
    """If an unreachable broker's queues go to another member, they are given up, and the broker is tried only once."""
    road.close(pair)
    member = make_member(orderly=orderly, name="0")
    for each in _four("broker-b"):
        member.take(each, 0)
        member.store.progress.update(each, 7, only_forward=True)
    make_member(name="1")
    before = road.attempts
    member.rebalancer.run_round()

    assert set(member.table.queues(TOPIC)) == set(_four("broker-a"))
    assert road.attempts - before <= ATTEMPTS


def test_heartbeats_do_not_wait_for_rounds(pair: Group, road: Road) -> None:
    """While a command blocks the timer loop, heartbeats are still sent."""
    group, gate = pair, threading.Event()
    consumer = group.concurrent(Log(), rhythm=replace(QUICK, heartbeat_s=0.05))
    until(lambda: consumer.queues)
    consumer._member.timer.call_soon(lambda: gate.wait(60))
    beats = group.stub.faults.delay(0, on=RequestCode.HEART_BEAT, at="broker-a", times=None)

    until(lambda: beats.fired >= 5)
    gate.set()


# --- who belongs to the group ----------------------------------------------------------------------------------------


def test_the_group_is_asked_about_again_soon(make_group: Callable[..., Group]) -> None:
    """If no broker reports the members, the next round does not wait for the regular period of ten minutes."""
    group = make_group(queues=1)
    asked = group.stub.faults.answer(ResponseCode.SYSTEM_BUSY, on=RequestCode.GET_CONSUMER_LIST_BY_GROUP, times=24)
    consumer = group.concurrent(Log(), rhythm=replace(QUICK, rebalance_s=600))

    until(lambda: len(consumer.queues) == 2)
    assert asked.fired == 24


def test_the_group_is_asked_about_less_and_less(pair: Group, make_member: Callable[..., Member]) -> None:
    """While no broker reports the members, the pauses between rounds grow; after a success they are short again."""
    member, pauses = make_member(), list[float]()
    rounds = Rebalancer(
        membership=member.membership,
        strategy=AVERAGELY,
        table=member.table,
        handover=member.handover,
        dispatch=member.pulls.begin,
        changed=lambda *_: None,
        wake_later=pauses.append,
        rhythm=QUICK,
    )
    silence = {"on": RequestCode.GET_CONSUMER_LIST_BY_GROUP, "times": None}
    pair.stub.faults.answer(ResponseCode.NO_PERMISSION, **silence)  # type: ignore[arg-type]
    for _ in range(6):
        assert rounds.run_round()
    assert len(pauses) == 2 * 6, "one for each topic"
    assert pauses[0] <= QUICK.rebalance_soonest_s and QUICK.rebalance_s / 2 <= pauses[-1] <= QUICK.rebalance_s

    pair.stub.faults.clear()
    rounds.run_round()
    pair.stub.faults.answer(ResponseCode.NO_PERMISSION, **silence)  # type: ignore[arg-type]
    rounds.run_round()
    assert pauses[-1] <= QUICK.rebalance_soonest_s
