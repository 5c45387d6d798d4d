"""Test that the pull engine reads each message of a range once and in order, whatever faults brokers have meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from broker_stub import PullLimits, Settings, StubBroker, StubCluster
from broker_stub.queue_scan import GetResult
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.errors import NoBrokerAvailable, QueueVanished, RequestTimeout
from pyspark_rocketmq.model import Finding, MessageQueue, QueueRange
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.offsets.loss import judge
from pyspark_rocketmq.pull.loop import Window, read_ranges
from pyspark_rocketmq.pull.reader import QueueReader
from pyspark_rocketmq.pull.recheck import Recheck
from pyspark_rocketmq.pull.remoting import RemotingPort
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.scan import record_starts

from .reading import RecordingPolicy, offsets_of, read_all, whole
from .world import WAIT_TIMEOUT_S, patient_settings, until

COUNT = 200
QUEUES = [MessageQueue("T", "broker-a", number) for number in range(2)]
EVERYTHING = {queue: list(range(COUNT // 2)) for queue in QUEUES}
PULL = RequestCode.PULL_MESSAGE
IN_PIECES = PullSettings(batch_size=10, depth=4)


@pytest.mark.parametrize("lacks", [False, True], ids=["complete", "overtaken"])
def test_what_a_broker_answered_before_it_died_is_counted_at_another(lacks: bool) -> None:
    """If a master dies, the range of its filtered response is counted at the slave; missing messages are a loss."""
    queue, policy, tagged = (
        QUEUES[0],
        RecordingPolicy(),
        PullSettings(subscription=Subscription("a"), pull_timeout_s=0.5),
    )
    with StubCluster(1, 1, topics={"T": 1}) as stub:
        stub.fill("T", COUNT, 50, tags="a")
        store = stub.state.brokers[0].store
        honest = store.get_message
        if lacks:
            stub.run(lambda: setattr(store, "get_message", lambda *asked: drop_first_records(honest(*asked))))
        stub.faults.delay(0, on=PULL, times=1)
        stub.faults.drop_reply(on=PULL, times=1)
        blocks = iter(read_all(client(stub), [whole(queue, 8)], tagged, policy=policy))
        first = next(blocks)
        stub.faults.broker_down("broker-a", 0)

        assert offsets_of([first, *blocks]) == {queue: list(range(4 if lacks else 0, 8))}
    assert policy.findings == ([("lacks messages", queue, 0, 8)] if lacks else [])


def test_a_short_response_is_read_again(stub: StubBroker) -> None:
    """If a response lacks messages that the broker has, its range is read again, and nothing is lost."""
    queue, policy, cluster = QUEUES[0], RecordingPolicy(), client(stub)
    [block] = read_all(cluster, [whole(queue, 8)])
    short = block._replace(data=block.data[: record_starts(block.data)[4]], message_count=4)
    recheck = Recheck(cluster.brokers, pool_for(cluster.settings.net), policy, PullSettings())

    assert offsets_of(recheck.whole(short)) == {queue: list(range(8))}
    assert recheck.shifted_at({queue: 3}) == set()
    assert policy.findings == []


def drop_first_records(got: GetResult) -> GetResult:
    """Return the result of a read without its first four messages, as if retention had deleted them."""
    return got._replace(records=got.records[4:])


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """A stub with a hundred messages in each of two queues; a scripted fault that was never applied fails the test."""
    with StubBroker({"T": 2}) as stub:
        stub.fill("T", COUNT, 50)
        yield stub


def client(stub: StubCluster) -> Cluster:
    """Return a new client; it has no connection to a broker yet."""
    return open_cluster(patient_settings(stub.name_server))


def read(stub: StubCluster, settings: PullSettings = IN_PIECES) -> dict[MessageQueue, list[int]]:
    """Read both queues with a new client; return {queue: offsets in the order in which they were read}."""
    return offsets_of(read_all(client(stub), [whole(queue, COUNT // 2) for queue in QUEUES], settings))


# --- responses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["busy", "flow_control", "cut_reply", "half_close", "trickle"])
def test_a_fault_now_and_then_loses_nothing(stub: StubBroker, fault: str) -> None:
    """If some pulls fail, they are sent again (on a new connection if theirs broke), and all messages are read."""
    getattr(stub.faults, fault)(on=PULL, times=3)

    assert read(stub) == EVERYTHING


def test_late_answers_lose_nothing(stub: StubBroker) -> None:
    """If some pulls time out, they are sent again, their late responses are dropped, and all messages are read."""
    stub.faults.delay(1500, on=PULL, times=3)

    assert read(stub, PullSettings(batch_size=10, depth=4, pull_timeout_s=0.5)) == EVERYTHING


def test_lost_answers_lose_nothing(stub: StubBroker) -> None:
    """If some responses are lost, their pulls are sent again, and all messages are read."""
    stub.faults.drop_reply(on=PULL, times=3)

    assert read(stub, PullSettings(batch_size=10, depth=4, pull_timeout_s=0.3)) == EVERYTHING


def test_a_slow_broker_is_waited_for(stub: StubBroker) -> None:
    stub.faults.delay(50, on=PULL, times=None)

    assert read(stub) == EVERYTHING


@pytest.mark.parametrize("depth", [1, 3, 32])
def test_short_answers_are_completed(depth: int) -> None:
    """If a broker returns fewer messages than a pull requested, the missing ones are pulled again."""
    limits = PullLimits(memory_count=3, memory_bytes=10**6, disk_count=3, disk_bytes=10**6)
    with StubBroker({"T": 2}, settings=Settings(limits=limits)) as stub:
        stub.fill("T", COUNT, 50)

        assert read(stub, PullSettings(batch_size=10, depth=depth)) == EVERYTHING


@pytest.mark.parametrize(
    ("body_bytes", "depth", "deepest"), [(50, None, 256), (50, 32, 32), (100_000, None, 83)], ids=str
)
def test_small_answers_let_the_window_grow(body_bytes: int, depth: int | None, deepest: int) -> None:
    """The number of pulls in flight is limited by their bytes, or by `depth` if the user sets it."""
    with StubBroker({"T": 2}) as stub:
        stub.fill("T", 2 * COUNT, body_bytes)
        assert measure_deepest_window(client(stub), PullSettings(batch_size=1, depth=depth)) == deepest


def measure_deepest_window(cluster: Cluster, settings: PullSettings) -> int:
    """Read both queues; return the largest number of pulls that were in flight at a time."""
    readers = [QueueReader(whole(queue, COUNT), cluster.brokers, settings, RecordingPolicy()) for queue in QUEUES]
    port: RemotingPort[QueueReader] = RemotingPort(cluster.settings, pool_for(cluster.settings.net), settings)
    window, until_end, seen = Window(readers, port, settings), time.monotonic() + WAIT_TIMEOUT_S, [0]
    window.fill()
    while window.in_flight:
        seen.append(window.in_flight)
        for reader in window.drain(until_end):
            reader.take()
        window.fill()
    port.close()
    assert all(reader.cursor.is_finished for reader in readers)
    return max(seen)


def test_a_lost_answer_is_asked_for_again_though_others_come() -> None:
    """A pull without a response expires at its deadline although other responses arrive on its connection."""
    passed_s, settings = [0.0], PullSettings(batch_size=1, depth=4)
    with StubBroker({"T": 2}) as stub:
        stub.fill("T", COUNT, 50)
        stub.faults.drop_reply(on=PULL, times=1)
        answered = stub.faults.delay(0, on=PULL, times=None)
        cluster = client(stub)
        ranges = [QueueRange(QUEUES[0], 0, 1), whole(QUEUES[1], COUNT // 2)]
        lost, busy = (QueueReader(each, cluster.brokers, settings, RecordingPolicy()) for each in ranges)
        pool, until_end = pool_for(cluster.settings.net), Deadline.after(WAIT_TIMEOUT_S)

        def clock() -> float:
            return time.monotonic() + passed_s[0]

        port: RemotingPort[QueueReader] = RemotingPort(cluster.settings, pool, settings, clock)
        window = Window([lost, busy], port, settings, clock)
        while not (lost.is_finished or busy.is_finished or until_end.expired):
            window.fill()
            until(lambda: answered.fired >= busy.cursor.done + window.in_flight - 1, "all pulls but one are answered")
            stub.run(lambda: None)
            passed_s[0] += 1.0
            window.drain(clock() + WAIT_TIMEOUT_S)
            busy.take()
        port.close()
        assert lost.is_finished and not busy.is_finished


def test_answers_that_came_while_rows_were_used_are_not_late() -> None:
    """Responses do not expire while the caller processes rows, however long that takes; no pull is repeated."""
    skipped_s = [0.0]
    with StubBroker({"T": 2}) as stub:
        stub.fill("T", COUNT, 5000)
        asked, cluster = stub.faults.delay(0, on=PULL, times=None), client(stub)
        blocks = read_ranges(
            [whole(queue, COUNT // 2) for queue in QUEUES],
            cluster.brokers,
            pool_for(cluster.settings.net),
            RecordingPolicy(),
            PullSettings(batch_size=10, depth=20),
            clock=lambda: time.monotonic() + skipped_s[0],
        )
        first = next(blocks)
        until(lambda: asked.fired == 20, "every pull is sent before the first rows are handed out")
        stub.run(lambda: None)  # Returns after the last response is written.
        skipped_s[0] = 1000

        assert offsets_of([first, *blocks]) == EVERYTHING
        assert asked.fired == 20


def test_a_broker_that_never_answers_is_given_up(stub: StubBroker) -> None:
    """If a broker never answers pulls, reading fails with an error that names address, queue and offset."""
    stub.faults.drop_reply(on=PULL, times=None)

    with pytest.raises(RequestTimeout) as caught:
        read(stub, PullSettings(max_retries=1, pull_timeout_s=0.2))

    places = {"address": stub.broker_address(), "topic": "T", "broker": "broker-a", "offset": 0}
    assert places.items() <= caught.value.where.items()


# --- brokers ---------------------------------------------------------------------------------------------------------


def read_interrupted(stub: StubCluster, meanwhile: Callable[[], None]) -> dict[MessageQueue, list[int]]:
    """Read both queues and call `meanwhile()` after the first block; return {queue: offsets in the order read}."""
    ranges = [whole(queue, COUNT // 2) for queue in QUEUES]
    settings = PullSettings(batch_size=10, depth=2, max_retries=30)
    blocks = iter(read_all(client(stub), ranges, settings))
    first = [next(blocks)]
    meanwhile()
    return offsets_of(first + list(blocks))


def test_a_restarted_broker_is_read_on(stub: StubBroker) -> None:
    def restart() -> None:
        stub.faults.broker_down()
        stub.faults.broker_up()

    assert read_interrupted(stub, restart) == EVERYTHING


def test_messages_that_come_meanwhile_are_not_read(stub: StubBroker) -> None:
    """Messages that arrive during a read, after the planned end of a range, are not read."""
    assert read_interrupted(stub, lambda: stub.fill("T", COUNT, 50)) == EVERYTHING


def test_a_vanished_queue_is_reported_to_the_policy(stub: StubBroker) -> None:
    """A queue that stays out of the route is reported once to the loss policy, with its unread range."""
    ranges = [whole(queue, COUNT // 2) for queue in QUEUES]
    with StubCluster(2, topics={"T": 2}) as pair:
        pair.fill("T", COUNT, 50)
        reading = read_all(client(pair), ranges[:1], PullSettings(batch_size=10, depth=1, stall_timeout_s=1))
        blocks = iter(reading)
        first = next(blocks)
        pair.faults.broker_down("broker-a")
        found = offsets_of([first, *blocks])

    [(what, queue, start, end)] = reading.losses
    assert (what, queue, end) == ("vanished", QUEUES[0], COUNT // 2)
    assert found[queue] == list(range(start))


def test_the_loss_rules_end_a_reading(stub: StubBroker) -> None:
    """If the loss policy raises an error for a vanished queue, reading ends with that error."""

    class Strict(RecordingPolicy):
        def vanished(self, rest: QueueRange) -> None:
            judge(Finding.VANISHED, rest.queue, rest.start, rest.end, fail_on_data_loss=True)

    with StubCluster(2, topics={"T": 1}) as pair:
        cluster = client(pair)
        pair.faults.broker_down("broker-a")
        reading = read_all(cluster, [whole(QUEUES[0], 5)], PullSettings(stall_timeout_s=0.5), policy=Strict())

        with pytest.raises(QueueVanished, match=r"\b0\b.*\b5\b") as caught:
            list(reading)
        assert {"topic": "T", "broker": "broker-a", "queue_id": 0}.items() <= caught.value.where.items()


def test_a_queue_taken_away_has_vanished_too(stub: StubBroker) -> None:
    """If a topic has fewer queues than before, the removed queue is reported as vanished."""
    stub.remove_queue("T")
    reading = read_all(client(stub), [whole(queue, COUNT // 2) for queue in QUEUES], PullSettings(max_retries=1))

    assert offsets_of(reading) == {QUEUES[0]: EVERYTHING[QUEUES[0]]}
    assert reading.losses == [("vanished", QUEUES[1], 0, COUNT // 2)]


def test_a_reset_by_an_administrator_is_no_loss(stub: StubBroker) -> None:
    """If an administrator resets the group, the reset is recorded and the planned range is read to its end."""
    stub.faults.reset_offset("G", QUEUES[0], 3)
    reading = read_all(client(stub), [whole(queue, COUNT // 2) for queue in QUEUES], PullSettings(group="G"))

    assert offsets_of(reading) == EVERYTHING
    assert reading.losses == [("was reset", QUEUES[0], 0, 3)]


def test_expired_messages_are_skipped_by_the_rules(stub: StubBroker) -> None:
    """If messages expire during a read, only the ones not yet read are reported as a loss."""
    reading = read_all(client(stub), [whole(QUEUES[0], 100)], PullSettings(batch_size=10, depth=1))
    blocks = iter(reading)
    first = next(blocks)
    stub.expire("T", 0, 60)
    found = offsets_of([first, *blocks])[QUEUES[0]]

    [(what, _, planned, minimum)] = reading.losses
    assert (what, minimum) == ("begins later", 60)
    assert found == [*range(planned), *range(60, 100)]


def test_a_loss_is_reported_once_and_whole(stub: StubBroker) -> None:
    """If several pulls find parts of one loss, it is reported once, whatever pull is answered first."""
    stub.expire("T", 0, 60)
    stub.faults.delay(200, on=PULL)
    reading = read_all(client(stub), [whole(QUEUES[0], 100)], PullSettings(batch_size=10, depth=20))

    assert offsets_of(reading) == {QUEUES[0]: list(range(60, 100))}
    assert reading.losses == [("begins later", QUEUES[0], 0, 60)]


def test_answers_that_waited_for_expired_messages_come_out(stub: StubBroker) -> None:
    """If the messages before buffered responses expire, the buffered messages are read after the loss."""
    stub.faults.drop_reply(on=PULL)
    settings = PullSettings(batch_size=10, depth=20, pull_timeout_s=2, stall_timeout_s=20)
    reading = read_all(client(stub), [whole(queue, 100) for queue in QUEUES], settings)
    blocks = iter(reading)
    first = next(blocks)
    stub.expire("T", 0, 10)
    found = offsets_of([first, *blocks])

    assert found == {QUEUES[0]: list(range(10, 100)), QUEUES[1]: list(range(100))}
    assert reading.losses == [("begins later", QUEUES[0], 0, 10)]


# --- replicas --------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[StubCluster]:
    """A stub with a master and its slave, and a hundred messages in each of two queues."""
    with StubCluster(1, 1, topics={"T": 2}) as pair:
        pair.fill("T", COUNT, 50)
        yield pair


def test_a_slave_takes_over_in_the_middle(pair: StubCluster) -> None:
    assert read_interrupted(pair, lambda: pair.faults.broker_down("broker-a", 0)) == EVERYTHING


def test_a_slave_that_lags_is_waited_for(pair: StubCluster) -> None:
    """If a slave lacks messages that the master had, reading waits until the slave has them; no loss is reported."""
    pair.faults.slave_lag(30)
    pair.faults.broker_down("broker-a", 0)
    reading = read_all(client(pair), [whole(QUEUES[0], 100)], PullSettings(batch_size=10, depth=1))
    blocks = iter(reading)
    seen = [next(blocks) for _ in range(7)]

    pair.faults.slave_lag(0)
    seen += list(blocks)

    assert offsets_of(seen) == {QUEUES[0]: list(range(100))}
    assert reading.losses == []


def test_a_slave_that_stays_behind_ends_in_time(pair: StubCluster) -> None:
    """If a slave never gets the missing messages, the error states their number and gives advice."""
    pair.faults.slave_lag(30)
    pair.faults.broker_down("broker-a", 0)

    with pytest.raises(NoBrokerAvailable, match=r"\b30 offsets\b") as caught:
        list(read_all(client(pair), [whole(QUEUES[0], 100)], PullSettings(stall_timeout_s=0.5)))

    assert {"topic": "T", "broker": "broker-a", "queue_id": 0, "offset": 70}.items() <= caught.value.where.items()
    assert "pollTimeoutMs" in caught.value.advice


def test_only_the_master_is_read_without_following_suggestions(pair: StubCluster) -> None:
    """With `follow_suggestions=False` the slave of a stopped master is not read, and reading fails."""
    pair.faults.broker_down("broker-a", 0)

    with pytest.raises(NoBrokerAvailable, match="master") as caught:
        list(read_all(client(pair), [whole(QUEUES[0], 5)], PullSettings(follow_suggestions=False, max_retries=1)))

    assert caught.value.where["broker"] == "broker-a"


def test_the_master_is_read_again_when_it_is_back(pair: StubCluster) -> None:
    """If a stopped master returns and its slave stops, reading continues at the master."""

    def swap() -> None:
        pair.faults.broker_down("broker-a", 0)
        pair.faults.broker_up("broker-a", 0)
        pair.faults.broker_down("broker-a", 1)

    assert read_interrupted(pair, swap) == EVERYTHING


# --- moved queues ----------------------------------------------------------------------------------------------------


def test_a_moved_queue_is_found_under_its_new_name() -> None:
    """If a queue moves to another broker, the refreshed route contains it and all its messages can be read there."""
    with StubCluster(2, topics={"T": 1}) as pair:
        pair.fill("T", 40, 50)
        cluster = client(pair)
        assert len(cluster.routes.route("T").readable) == 2

        moved = pair.move_queue("T", "broker-a", "broker-b")
        cluster.routes.expire("T")

        until(lambda: moved in cluster.routes.route("T").readable, "the moved queue is routed")
        assert offsets_of(read_all(cluster, [whole(moved, 20)])) == {moved: list(range(20))}
