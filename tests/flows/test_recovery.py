"""Does reading go on after whatever happens to connections, at the depth that users have, and with what limits?"""

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
from pyspark_rocketmq.net.settings import NetSettings, TlsSettings
from pyspark_rocketmq.net.transport import Transport, connect
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode

from .forwarding import Way, way_to
from .reading import offsets_of, read_all, whole
from .world import patient_settings

COUNT = 3000
QUEUE = MessageQueue("T", "broker-a", 0)
EVERYTHING = {QUEUE: list(range(COUNT))}
PULL = RequestCode.PULL_MESSAGE


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """More messages in one queue than pulls of the window's first depth cover."""
    with StubBroker({"T": 1}) as stub:
        stub.fill("T", COUNT, 20)
        yield stub


def client(stub: StubCluster, way: Way | None = None) -> Cluster:
    """A client that has met no broker yet; a way leads it to all of them."""
    others = way.address if way else None
    return open_cluster(patient_settings(stub.name_server, address_map=AddressMap(other=others)))


def read(stub: StubCluster, settings: PullSettings, way: Way | None = None) -> dict[MessageQueue, list[int]]:
    """All offsets of the queue as they are handed out."""
    return offsets_of(read_all(client(stub, way), [whole(QUEUE, COUNT)], settings))


def read_with(
    cluster: Cluster, settings: PullSettings, meanwhile: Callable[[], None], count: int = COUNT
) -> dict[MessageQueue, list[int]]:
    """The first so many; something happens after some of the blocks."""
    blocks = iter(read_all(cluster, [whole(QUEUE, count)], settings))
    first = [next(blocks) for _ in range(3)]
    meanwhile()
    return offsets_of([*first, *blocks])


# --- a window full of pulls is lost at once --------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut_reply", "half_close"])
@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_a_lost_connection_takes_all_its_pulls_along(stub: StubBroker, fault: str, limit: int) -> None:
    """What they were to bring is more than a queue may hold; it is asked for again all the same."""
    getattr(stub.faults, fault)(on=PULL)

    assert read(stub, PullSettings(limits=FlowLimits(message_count=limit), stall_timeout_s=20)) == EVERYTHING


@pytest.mark.parametrize("fault", ["busy", "flow_control", "drop_reply"])
def test_all_pulls_may_fail_at_once(stub: StubBroker, fault: str) -> None:
    """A broker under load refuses the whole window, or answers none of it."""
    getattr(stub.faults, fault)(on=PULL, times=32)

    assert read(stub, PullSettings(pull_timeout_s=0.5, stall_timeout_s=20)) == EVERYTHING


@pytest.mark.parametrize("depth", [None, 1])
def test_a_filter_that_finds_nothing_for_long_and_then_all(depth: int | None) -> None:
    """Pulls grow to what a filter passes over; where it passes over nothing, most of one is left to be asked for."""
    with StubBroker({"T": 1}) as stub:
        stub.fill("T", 4000, 20)
        for _ in range(1500):
            stub.put("T", b"wanted", tags="wanted")
        settings = PullSettings(
            depth=depth, limits=FlowLimits(message_count=500), subscription=Subscription("wanted"), stall_timeout_s=20
        )
        read_back = offsets_of(read_all(client(stub), [whole(QUEUE, 5500)], settings))

    assert read_back == {QUEUE: list(range(4000, 5500))}


# --- a connection ends while nothing is asked ------------------------------------------------------------------------


def test_a_broker_that_restarts_between_two_pulls(stub: StubBroker) -> None:
    """With an interval between pulls most of the time nothing is in flight."""

    def restart() -> None:
        stub.faults.broker_down()
        stub.faults.broker_up()

    settings = PullSettings(interval_s=0.05)
    assert read_with(client(stub), settings, restart, count=320) == {QUEUE: list(range(320))}


def test_a_broker_that_says_goodbye(stub: StubBroker) -> None:
    """On shutting down it first refuses everything, then ends its connections."""

    def shut_down() -> None:
        stub.faults.answer(ResponseCode.SYSTEM_ERROR, "shutting down", on=PULL, times=None)
        stub.faults.broker_down()
        stub.faults.clear()
        stub.faults.broker_up()

    assert read_with(client(stub), PullSettings(depth=8, max_retries=20), shut_down) == EVERYTHING


def test_nonsense_behind_good_answers(stub: StubBroker) -> None:
    """The answers count, the connection is given up, and the rest is asked for over a new one."""
    with way_to(parse_address(stub.broker_address())) as way:
        nonsense = (8).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"oops"
        settings = PullSettings(depth=16, stall_timeout_s=20)

        assert read_with(client(stub, way), settings, lambda: way.say(nonsense)) == EVERYTHING
        assert way.connection_count == 2


# --- a way that broke without a word ---------------------------------------------------------------------------------


def test_a_silent_connection_is_replaced(stub: StubBroker) -> None:
    """In the middle of a reading: nothing came on it since the pulls were sent."""
    with way_to(parse_address(stub.broker_address())) as way:
        settings = PullSettings(depth=8, pull_timeout_s=0.5, max_retries=2)

        assert read_with(client(stub, way), settings, way.swallow) == EVERYTHING
        assert way.connection_count == 2


def test_a_connection_that_talks_is_kept(stub: StubBroker) -> None:
    """Though one of its answers never comes."""
    with way_to(parse_address(stub.broker_address())) as way:
        stub.faults.drop_reply(on=PULL)

        assert read(stub, PullSettings(depth=8, pull_timeout_s=0.5), way) == EVERYTHING
        assert way.connection_count == 1


# --- brokers do not hold up each other -------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[StubCluster]:
    """Two brokers with some messages in each of four queues."""
    with StubCluster(2, topics={"T": 4}) as pair:
        for broker in BROKERS:
            pair.fill("T", 4 * EACH, 20, broker=broker)
        yield pair


EACH = 160
BROKERS = ("broker-a", "broker-b")
BOTH = [QueueRange(MessageQueue("T", broker, number), 0, EACH) for broker in BROKERS for number in range(4)]


def test_a_slow_broker_does_not_hold_up_who_pauses(pair: StubCluster) -> None:
    """A queue with an interval is asked again when that is over, though an answer of the other broker is missing."""
    missing = pair.faults.drop_reply(on=PULL, at="broker-b")
    settings = PullSettings(interval_s=0.01, pull_timeout_s=2)
    told = list(read_all(client(pair), BOTH, settings))

    assert missing.fired == 1 and len(offsets_of(told)) == len(BOTH)
    assert len({block.wanted.queue for block in told[-EACH // 32 :]}) == 1, "all others' came before the late one's"


def test_an_unreachable_broker_holds_up_nobody_for_each_of_its_queues(
    pair: StubCluster, deaf: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried for all of them together, after what others are asked has left, which is not late then."""
    attempts: list[Address] = []

    def counted(address: Address, deadline: Deadline, tls: TlsSettings | None) -> Transport:
        attempts.append(address)
        return connect(address, deadline, tls)

    monkeypatch.setattr(connection, "connect", counted)
    asked = pair.faults.delay(0, on=PULL, at="broker-a", times=None)
    unreachable = AddressMap(((parse_address(pair.broker_address("broker-b")), deaf),))
    settings = patient_settings(pair.name_server, net=NetSettings(connect_timeout_s=1), address_map=unreachable)
    messages = 0
    with pytest.raises(ConnectError, match=f"address {deaf}, topic T, broker broker-b"):
        for block in read_all(open_cluster(settings), BOTH, PullSettings(pull_timeout_s=0.5, max_retries=1)):
            messages += block.message_count

    assert messages == len(BOTH) // 2 * EACH, "the other broker's are all there"
    assert asked.fired == len(BOTH) // 2 * -(-EACH // 32), "and were asked for once"
    assert attempts.count(deaf) <= 4


# --- brokers that are not in the route -------------------------------------------------------------------------------


def test_a_topic_without_a_route_is_waited_for(stub: StubBroker) -> None:
    """Its only broker is away, and takes its routes along; then it is back."""
    blocks = iter(read_all(client(stub), [whole(QUEUE, COUNT)], PullSettings(depth=2)))
    first = next(blocks)
    stub.faults.broker_down()
    coming_back = threading.Timer(0.3, stub.faults.broker_up)
    coming_back.start()

    assert offsets_of([first, *blocks]) == EVERYTHING
    coming_back.join()


def test_a_topic_that_stays_without_a_route_ends_reading(stub: StubBroker) -> None:
    """It may be deleted: after as long as reading may stand still the error says where it stood."""
    blocks = iter(read_all(client(stub), [whole(QUEUE, COUNT)], PullSettings(depth=2, stall_timeout_s=0.5)))
    next(blocks)
    stub.faults.broker_down()

    with pytest.raises(TopicNotFound, match=r"topic T, broker broker-a, queue 0, offset \d+"):
        list(blocks)


def test_a_broker_that_is_away_is_no_loss(pair: StubCluster) -> None:
    """It takes its routes along, others keep the topic; what it holds is waited for, while the others are read."""
    blocks = iter(read_all(client(pair), BOTH, PullSettings(max_retries=1)))
    first = next(blocks)
    pair.faults.broker_down("broker-b")
    coming_back = threading.Timer(1.0, lambda: pair.faults.broker_up("broker-b"))
    coming_back.start()

    assert offsets_of([first, *blocks]) == {wanted.queue: list(range(EACH)) for wanted in BOTH}
    coming_back.join()
