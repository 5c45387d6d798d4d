"""Test that reading goes on after connections and brokers are lost, with default window and limits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from broker_stub import StubBroker, StubCluster
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.routes import AddressMap
from pyspark_rocketmq.errors import ConnectError, TopicNotFound
from pyspark_rocketmq.model import Address, MessageQueue, QueueRange, parse_address
from pyspark_rocketmq.net import connection
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.net.transport import Transport, connect
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode

from .forwarding import ForwardingProxy, proxy_to
from .reading import offsets_of, read_all, whole
from .world import patient_settings

COUNT = 3000
QUEUE = MessageQueue("T", "broker-a", 0)
EVERYTHING = {QUEUE: list(range(COUNT))}
PULL = RequestCode.PULL_MESSAGE


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with one queue, which has more messages than the first window of pulls requests."""
    with StubBroker({"T": 1}) as stub:
        stub.fill("T", COUNT, 20)
        yield stub


def client(stub: StubCluster, proxy: ForwardingProxy | None = None) -> Cluster:
    """Return a new client without connections to brokers; with a proxy it connects to all brokers through the proxy."""
    others = proxy.address if proxy else None
    return open_cluster(patient_settings(stub.name_server, address_map=AddressMap(other=others)))


def read(
    stub: StubCluster, settings: PullSettings, proxy: ForwardingProxy | None = None
) -> dict[MessageQueue, list[int]]:
    """Read the queue with a new client; return {queue: offsets in the order in which they were read}."""
    return offsets_of(read_all(client(stub, proxy), [whole(QUEUE, COUNT)], settings))


def read_with(
    cluster: Cluster, settings: PullSettings, meanwhile: Callable[[], None], count: int = COUNT
) -> dict[MessageQueue, list[int]]:
    """Read the first `count` offsets and call `meanwhile()` after three blocks; return {queue: offsets as read}."""
    blocks = iter(read_all(cluster, [whole(QUEUE, count)], settings))
    first = [next(blocks) for _ in range(3)]
    meanwhile()
    return offsets_of([*first, *blocks])


# --- a window full of pulls is lost at once --------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut_reply", "half_close"])
@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_a_lost_connection_takes_all_its_pulls_along(stub: StubBroker, fault: str, limit: int) -> None:
    """All pulls of a lost connection are sent again, even if together they exceed the queue's limits."""
    getattr(stub.faults, fault)(on=PULL)

    assert read(stub, PullSettings(limits=FlowLimits(message_count=limit), stall_timeout_s=20)) == EVERYTHING


@pytest.mark.parametrize("fault", ["busy", "flow_control", "drop_reply"])
def test_all_pulls_may_fail_at_once(stub: StubBroker, fault: str) -> None:
    """If a broker refuses all pulls in flight, or answers none of them, reading still gets every message."""
    getattr(stub.faults, fault)(on=PULL, times=32)

    assert read(stub, PullSettings(pull_timeout_s=0.5, stall_timeout_s=20)) == EVERYTHING


@pytest.mark.parametrize("depth", [None, 1])
def test_a_filter_that_finds_nothing_for_long_and_then_all(depth: int | None) -> None:
    """If a filter matches nothing and then more than one response holds, all matching messages are read."""
    with StubBroker({"T": 1}) as stub:
        stub.fill("T", 4000, 20)
        for _ in range(1500):
            stub.put("T", b"wanted", tags="wanted")
        settings = PullSettings(
            depth=depth, limits=FlowLimits(message_count=500), subscription=Subscription("wanted"), stall_timeout_s=20
        )
        read_back = offsets_of(read_all(client(stub), [whole(QUEUE, 5500)], settings))

    assert read_back == {QUEUE: list(range(4000, 5500))}


# --- a connection ends while nothing is in flight --------------------------------------------------------------------


def test_a_broker_that_restarts_between_two_pulls(stub: StubBroker) -> None:
    """If a broker restarts while no pull is in flight, all messages are read."""

    def restart() -> None:
        stub.faults.broker_down()
        stub.faults.broker_up()

    settings = PullSettings(interval_s=0.05)
    assert read_with(client(stub), settings, restart, count=320) == {QUEUE: list(range(320))}


def test_a_broker_that_shuts_down(stub: StubBroker) -> None:
    """If a broker refuses all requests and then closes its connections, all messages are read after its restart."""

    def shut_down() -> None:
        stub.faults.answer(ResponseCode.SYSTEM_ERROR, "shutting down", on=PULL, times=None)
        stub.faults.broker_down()
        stub.faults.clear()
        stub.faults.broker_up()

    assert read_with(client(stub), PullSettings(depth=8, max_retries=20), shut_down) == EVERYTHING


def test_nonsense_behind_good_answers(stub: StubBroker) -> None:
    """If garbage follows responses, they are used, and the client pulls the other messages over a new connection."""
    with proxy_to(parse_address(stub.broker_address())) as proxy:
        nonsense = (8).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"oops"
        settings = PullSettings(depth=16, stall_timeout_s=20)

        assert read_with(client(stub, proxy), settings, lambda: proxy.inject(nonsense)) == EVERYTHING
        assert proxy.connection_count == 2


# --- a connection that delivers nothing ------------------------------------------------------------------------------


def test_a_silent_connection_is_replaced(stub: StubBroker) -> None:
    """If a connection delivers nothing for its pulls in flight, the client replaces it."""
    with proxy_to(parse_address(stub.broker_address())) as proxy:
        settings = PullSettings(depth=8, pull_timeout_s=0.5, max_retries=2)

        assert read_with(client(stub, proxy), settings, proxy.discard_traffic) == EVERYTHING
        assert proxy.connection_count == 2


def test_a_connection_that_talks_is_kept(stub: StubBroker) -> None:
    """If one response of many is lost, the connection stays open."""
    with proxy_to(parse_address(stub.broker_address())) as proxy:
        stub.faults.drop_reply(on=PULL)

        assert read(stub, PullSettings(depth=8, pull_timeout_s=0.5), proxy) == EVERYTHING
        assert proxy.connection_count == 1


# --- brokers do not delay each other ---------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[StubCluster]:
    """A stub with two brokers; each has four queues of `EACH` messages."""
    with StubCluster(2, topics={"T": 4}) as pair:
        for broker in BROKERS:
            pair.fill("T", 4 * EACH, 20, broker=broker)
        yield pair


EACH = 160
BROKERS = ("broker-a", "broker-b")
BOTH = [QueueRange(MessageQueue("T", broker, number), 0, EACH) for broker in BROKERS for number in range(4)]


def test_a_slow_broker_does_not_delay_a_queue_with_an_interval(pair: StubCluster) -> None:
    """A queue with a pull interval is pulled on time although another broker has not answered a pull."""
    missing = pair.faults.drop_reply(on=PULL, at="broker-b")
    settings = PullSettings(interval_s=0.01, pull_timeout_s=2)
    blocks = list(read_all(client(pair), BOTH, settings))

    assert missing.fired == 1 and len(offsets_of(blocks)) == len(BOTH)
    assert len({block.wanted.queue for block in blocks[-EACH // 32 :]}) == 1, (
        "the blocks of other queues come before the late one"
    )


def test_an_unreachable_broker_is_tried_once_for_all_its_queues(
    pair: StubCluster, deaf: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreachable broker delays no pulls of other brokers and is tried once for all its queues, not for each."""
    attempts: list[Address] = []

    def counted(address: Address, deadline: Deadline, settings: NetSettings) -> Transport:
        attempts.append(address)
        return connect(address, deadline, settings)

    monkeypatch.setattr(connection, "connect", counted)
    asked = pair.faults.delay(0, on=PULL, at="broker-a", times=None)
    unreachable = AddressMap(((parse_address(pair.broker_address("broker-b")), deaf),))
    settings = patient_settings(pair.name_server, net=NetSettings(connect_timeout_s=1.5), address_map=unreachable)
    messages = 0
    with pytest.raises(ConnectError, match=f"address {deaf}, topic T, broker broker-b"):
        for block in read_all(open_cluster(settings), BOTH, PullSettings(pull_timeout_s=1, max_retries=1)):
            messages += block.message_count

    assert messages == len(BOTH) // 2 * EACH, "the other broker's are all there"
    assert asked.fired == len(BOTH) // 2 * -(-EACH // 32), "and were asked for once"
    assert attempts.count(deaf) <= 4


# --- brokers that are not in the route -------------------------------------------------------------------------------


def test_a_topic_without_a_route_is_waited_for(stub: StubBroker) -> None:
    """If a topic's only broker stops, so that it has no route, reading waits until the broker is back."""
    blocks = iter(read_all(client(stub), [whole(QUEUE, COUNT)], PullSettings(depth=2)))
    first = next(blocks)
    stub.faults.broker_down()
    coming_back = threading.Timer(0.3, stub.faults.broker_up)
    coming_back.start()

    assert offsets_of([first, *blocks]) == EVERYTHING
    coming_back.join()


def test_a_topic_that_stays_without_a_route_ends_reading(stub: StubBroker) -> None:
    """If a topic has no route for `stall_timeout_s`, reading fails with an error that names queue and offset."""
    blocks = iter(read_all(client(stub), [whole(QUEUE, COUNT)], PullSettings(depth=2, stall_timeout_s=0.5)))
    next(blocks)
    stub.faults.broker_down()

    with pytest.raises(TopicNotFound, match=r"topic T, broker broker-a, queue 0, offset \d+"):
        list(blocks)


def test_a_broker_that_is_away_is_no_loss(pair: StubCluster) -> None:
    """If a broker is out of the route for a while, its queues are read after its return; no loss is reported."""
    blocks = iter(read_all(client(pair), BOTH, PullSettings(max_retries=1)))
    first = next(blocks)
    pair.faults.broker_down("broker-b")
    coming_back = threading.Timer(1.0, lambda: pair.faults.broker_up("broker-b"))
    coming_back.start()

    assert offsets_of([first, *blocks]) == {wanted.queue: list(range(EACH)) for wanted in BOTH}
    coming_back.join()
