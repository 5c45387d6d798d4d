"""Test lag on a stub: numbers are those of the queues; a figure that cannot be known is unknown, with its reason."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker_stub import NAME_SERVER, StubCluster
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.servers import ServerRequest
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectionLost
from pyspark_rocketmq.lag.figures import Figure, Lag, QueueLag, Total
from pyspark_rocketmq.lag.measure import measure_group, measure_positions
from pyspark_rocketmq.model import Address, MessageQueue, parse_addresses
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode, SysFlag
from pyspark_rocketmq.wire.record import Record, encode_record
from tests.cluster.scripted import ScriptedLinks, answer, route_of
from tests.cluster.scripted import cluster_of as cluster_of_links

T, G = "T", "g"
A0, A1, B0 = MessageQueue(T, "broker-a", 0), MessageQueue(T, "broker-a", 1), MessageQueue(T, "broker-b", 0)
STORED_MS = 1_700_000_000_000
NOW_MS = STORED_MS + 60_000
"""The time of the brokers' clocks, which stand still."""
HOUR_S, RESERVED_H = 3600, 72
HOUR_MS = 1000 * HOUR_S


@pytest.fixture(params=["5.3.3", "4.9.7"])
def stub(request: pytest.FixtureRequest) -> Iterator[StubCluster]:
    """A stub of two brokers, once for each release, with the topic T of two queues each; its clock shows `NOW_MS`."""
    with StubCluster(2, topics={T: 2}, emulate=request.param, frozen_clock=True) as made:
        made.faults.clock_jump(NOW_MS - made.clock.now_ms())
        yield made


def cluster_of(stub: StubCluster) -> Cluster:
    """Return a cluster that gives up soon."""
    settings = ClusterSettings(parse_addresses(stub.name_server), retries=0, pause=Backoff(0.01, 0.01))
    cluster = open_cluster(settings)
    cluster.admin.create_group(SubscriptionGroupConfig(group_name=G))
    return cluster


def store(stub: StubCluster, queue: MessageQueue, count: int, *, size: int = 100, first_ms: int = STORED_MS) -> None:
    """Store messages of a size in a queue, one per second from `first_ms` on."""
    for number in range(count):
        stub.put(
            queue.topic,
            bytes(size),
            queue_id=queue.queue_id,
            broker=queue.broker_name,
            store_timestamp=first_ms + 1000 * number,
        )


def by_queue(lag: Lag) -> Mapping[MessageQueue, QueueLag]:
    """Return the lag of each queue."""
    return {MessageQueue(each.topic, each.broker, each.queue_id): each for each in lag.queues}


def group_lag(cluster: Cluster, topic: str | None = None, *, now_ms: int = NOW_MS) -> Lag:
    """Return the lag of the group G, a minute after the first messages were stored."""
    return measure_group(cluster, G, topic, now_ms=now_ms)


def about(seconds: float) -> Any:
    """Return what equals a known time span that is right to a second."""
    return pytest.approx(seconds, abs=1)


def test_a_known_queue_has_all_figures(stub: StubCluster) -> None:
    """Messages count from position to end; age and time to retention come from the next message."""
    cluster = cluster_of(stub)
    store(stub, A0, 10)
    cluster.offsets.commit(G, {A0: 4})

    lag = by_queue(group_lag(cluster))[A0]

    assert (lag.position, lag.end, lag.messages, lag.gone) == (Figure(4), Figure(10), Figure(6), Figure(0))
    assert lag.seconds.value == about(60 - 4)
    assert lag.retention_seconds.value == about(RESERVED_H * HOUR_S - 56)


def test_a_group_that_read_everything_has_no_lag(stub: StubCluster) -> None:
    """At the end of a queue nothing waits: all figures are 0, and there is no time to retention."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    cluster.offsets.commit(G, {A0: 3})

    lag = by_queue(group_lag(cluster))[A0]

    assert (lag.messages, lag.bytes, lag.seconds, lag.retention_seconds) == (Figure(0), Figure(0), Figure(0), Figure())


def test_bytes_are_messages_times_their_mean_size(stub: StubCluster) -> None:
    """Bytes are estimated from the stored sizes of the next messages of the topic at the broker."""
    cluster = cluster_of(stub)
    store(stub, A0, 40, size=100)
    store(stub, A0, 40, size=1000)
    stored = sum(len(record.body) + 100 for record in stub.messages(T, 0, broker="broker-a"))
    cluster.offsets.commit(G, {A0: 0})

    estimated = by_queue(group_lag(cluster))[A0].bytes.value

    # The sample is of the first messages, which are the small ones.
    assert estimated is not None and 80 * 150 < estimated < stored / 2


def test_a_queue_without_a_position_is_unknown_unless_it_is_empty(stub: StubCluster) -> None:
    """A group may begin anywhere in a queue without a position; only in an empty queue nothing waits in any case."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    store(stub, A1, 3, first_ms=0)
    cluster.offsets.commit(G, {A0: 0})
    # Brokers before 5.0 report 0 for a missing position while the queue's first message is in their memory.
    stub.expire(T, 1, 1, broker="broker-a")

    found = group_lag(cluster)

    lag = by_queue(found)
    assert lag[A0].messages == Figure(3)
    assert lag[A1].messages.unknown == "the group has committed no position in this queue"
    assert lag[A1].end == Figure(3)
    assert found.total.unknown_queues == 1
    assert found.total.messages.value == 3


@pytest.mark.parametrize("topic", [None, T])
def test_a_broker_without_a_position_is_not_left_out(stub: StubCluster, topic: str | None) -> None:
    """A broker tells nothing of topics in which the group has no position; its queues count all the same."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    store(stub, B0, 3, first_ms=0)
    cluster.offsets.commit(G, {A0: 3})
    # Brokers before 5.0 report 0 for a missing position while the queue's first message is in their memory.
    stub.expire(T, 0, 1, broker="broker-b")

    found = group_lag(cluster, topic)

    lag = by_queue(found)
    assert len(lag) == 4 and lag[A0].messages == lag[A1].messages == Figure(0)
    assert (lag[B0].end, lag[B0].messages.unknown) == (Figure(3), "the group has committed no position in this queue")
    assert (found.total.messages.value, found.total.unknown_queues) == (0, 1)


def test_a_broker_that_is_away_makes_its_queues_unknown(stub: StubCluster) -> None:
    """Queues of a broker that does not answer are listed as unknown with its error, and the total counts them."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    store(stub, B0, 3)
    cluster.offsets.commit(G, {A0: 1, B0: 1})
    stub.faults.cut_reply(at="broker-b", times=None)

    found = group_lag(cluster, T)

    lag = by_queue(found)
    assert lag[A0].messages == Figure(2)
    assert "[CONNECTION_LOST]" in str(lag[B0].messages.unknown)
    assert (found.total.messages.value, found.total.unknown_queues) == (2, 2)


def test_a_broker_that_alone_has_a_topic_is_not_forgotten(stub: StubCluster) -> None:
    """A broker that does not answer may have positions in other topics: it is named, and the total is a bound."""
    cluster = cluster_of(stub)
    alone = MessageQueue("alone", "broker-b", 0)
    store(stub, A0, 3)
    store(stub, alone, 3)
    cluster.offsets.commit(G, {A0: 1, alone: 1})
    stub.faults.cut_reply(on=RequestCode.GET_CONSUME_STATS, at="broker-b", times=None)

    found, again = group_lag(cluster), measure_group(cluster, G, now_ms=STORED_MS, known=[alone])

    assert list(found.unanswered) == ["broker-b"]
    assert (found.total.messages.value, found.total.messages.is_bound) == (2, True)
    assert "broker-b" in str(found.total.messages.unknown)
    assert "[CONNECTION_LOST]" in str(by_queue(again)[alone].messages.unknown)


def test_a_broker_that_left_is_unknown_if_it_was_known(stub: StubCluster) -> None:
    """Queues that were measured before are unknown, not forgotten, when their broker is not registered any more."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    store(stub, B0, 3)
    cluster.offsets.commit(G, {A0: 1, B0: 1})
    before = by_queue(group_lag(cluster))
    stub.faults.broker_down("broker-b")

    after = measure_group(cluster, G, now_ms=STORED_MS, known=list(before))

    assert before[B0].messages == Figure(2)
    assert "not registered" in str(by_queue(after)[B0].messages.unknown)
    assert (after.total.messages.value, after.total.unknown_queues) == (2, 2)


def test_no_broker_at_all_is_an_error(stub: StubCluster) -> None:
    """If no broker answers, there is no lag to show: the error of a broker is raised."""
    cluster = cluster_of(stub)
    stub.faults.cut_reply(on=RequestCode.GET_CONSUME_STATS, times=None)

    with pytest.raises(ConnectionLost):
        group_lag(cluster)


def test_deleted_messages_are_told_apart(stub: StubCluster) -> None:
    """Messages that retention deleted before they were read still count, are told, and leave no time to retention."""
    cluster = cluster_of(stub)
    store(stub, A0, 10)
    cluster.offsets.commit(G, {A0: 2})
    stub.expire(T, 0, 5, broker="broker-a")

    found = group_lag(cluster)

    lag = by_queue(found)[A0]
    assert (lag.messages, lag.gone, lag.retention_seconds) == (Figure(8), Figure(3), Figure(0))
    assert lag.seconds.value == about(60 - 5)
    assert found.total.gone.value == 3


def test_a_queue_whose_messages_are_all_deleted_is_told(stub: StubCluster) -> None:
    """If retention deleted everything that waited, all of it is gone, and no message is left that has an age."""
    cluster = cluster_of(stub)
    store(stub, A0, 10)
    cluster.offsets.commit(G, {A0: 2})
    stub.expire(T, 0, 10, broker="broker-a")

    found = group_lag(cluster)

    lag = by_queue(found)[A0]
    assert (lag.messages, lag.gone, lag.retention_seconds) == (Figure(8), Figure(8), Figure(0))
    assert lag.seconds == Figure(0)
    assert found.total.gone == Total(8)
    assert lag.bytes.unknown == "all messages from the position on are deleted already"


def test_messages_beyond_retention_have_no_time_left(stub: StubCluster) -> None:
    """A message that is older than the broker's retention may be deleted at any time."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})

    stub.faults.clock_jump(RESERVED_H * HOUR_MS)

    lag = by_queue(group_lag(cluster, now_ms=stub.clock.now_ms()))[A0]

    assert lag.retention_seconds == Figure(0)
    assert lag.seconds.value == about(RESERVED_H * HOUR_S + 60)


def test_retention_that_is_not_told_is_unknown(stub: StubCluster) -> None:
    """If a broker may not be asked for its settings, only the time to retention is unknown."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})
    stub.faults.answer(16, "no permission", on=RequestCode.GET_BROKER_CONFIG, times=None)

    lag = by_queue(group_lag(cluster))[A0]

    assert "[BROKER_NO_PERMISSION]" in str(lag.retention_seconds.unknown)
    assert (lag.messages, lag.seconds.value) == (Figure(2), about(60))


def test_messages_that_may_not_be_read_are_counted(stub: StubCluster) -> None:
    """If messages may not be pulled, they are counted all the same; what depends on them is unknown."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})
    stub.faults.answer(16, "no permission", on=RequestCode.PULL_MESSAGE, times=None)

    found = group_lag(cluster)

    lag = by_queue(found)[A0]
    assert (lag.messages, found.total.messages) == (Figure(2), Total(2))
    assert found.total.bytes == Total(0, lag.bytes.unknown, 1) and found.total.bytes.is_bound
    assert all(
        "[BROKER_NO_PERMISSION]" in str(each.unknown) for each in (lag.bytes, lag.seconds, lag.retention_seconds)
    )


def test_a_position_beyond_the_end_is_unknown(stub: StubCluster) -> None:
    """A position beyond the end is no lag of 0: the topic was created again, and messages up to it will be skipped."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A1: 700})

    query = by_queue(measure_positions(cluster, {A0: 7, A1: 700}, now_ms=NOW_MS))
    group = by_queue(group_lag(cluster))

    assert "5 beyond the end" in str(query[A0].messages.unknown)
    assert "700 beyond the end" in str(query[A1].messages.unknown)
    assert "700 beyond the end" in str(group[A1].messages.unknown)


@pytest.mark.parametrize("skew_ms", [HOUR_MS, -HOUR_MS, 5000])
def test_ages_are_by_the_clock_of_the_broker(stub: StubCluster, skew_ms: int) -> None:
    """If the clock here is wrong, ages and time to retention are right to a second all the same."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})

    found = group_lag(cluster, now_ms=NOW_MS + skew_ms)

    lag = by_queue(found)[A0]
    assert lag.seconds.value == about(60)
    assert lag.retention_seconds.value == about(RESERVED_H * HOUR_S - 60)
    assert found.without_clock == {}


def test_a_broker_that_does_not_tell_its_time_is_named(stub: StubCluster) -> None:
    """Ages there are by the clock here, and unknown if that shows an earlier time than the message has."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})
    stub.faults.answer(16, "no permission", on=RequestCode.GET_BROKER_RUNTIME_INFO, times=None)

    found, earlier = group_lag(cluster, now_ms=NOW_MS + 5000), group_lag(cluster, now_ms=NOW_MS - HOUR_MS)

    assert by_queue(found)[A0].seconds.value == about(65)
    assert [str(error.code) for error in found.without_clock.values()] == ["BROKER_NO_PERMISSION"]
    lag = by_queue(earlier)[A0]
    assert "s younger than now: the clocks differ" in str(lag.seconds.unknown)
    assert lag.retention_seconds == lag.seconds


def test_a_message_from_the_future_has_no_age(stub: StubCluster) -> None:
    """A message that another machine has stamped may be younger than now; a second is tolerated."""
    cluster = cluster_of(stub)
    store(stub, A0, 1, first_ms=NOW_MS + HOUR_MS)
    store(stub, A1, 1, first_ms=NOW_MS + 900)
    cluster.offsets.commit(G, {A0: 0, A1: 0})

    lag = by_queue(group_lag(cluster))

    assert "s younger than now: the clocks differ" in str(lag[A0].seconds.unknown)
    assert lag[A0].retention_seconds.is_unknown
    assert lag[A1].seconds.value == about(0)


def scripted_cluster(record: Record, *, settings: bytes = b"fileReservedTime=72", disk: str = "0.5") -> Cluster:
    """Return a cluster with one broker, at which the group is at offset 2 of a queue of 4 messages, all in `record`."""
    links = ScriptedLinks()
    queue = {"topic": T, "brokerName": "broker-a", "queueId": 0}
    offsets = {"brokerOffset": 4, "consumerOffset": 2, "lastTimestamp": 0}
    stats = b'{"offsetTable":{%s:%s}}' % (fastjson.write(queue), fastjson.write(offsets))
    places = {"broker-a": {"brokerName": "broker-a", "cluster": "C", "brokerAddrs": {"0": "a:1"}}}
    up = "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
    figures = {"bootTimestamp": str(NOW_MS), "runtime": up, "commitLogDiskRatio": disk}
    links.serve(
        "ns:1",
        GET_BROKER_CLUSTER_INFO=answer(body={"brokerAddrTable": places}),
        GET_ROUTEINFO_BY_TOPIC=route_of(1, **{"broker-a": {0: "a:1"}}),
    )
    links.serve(
        "a:1",
        GET_CONSUME_STATS=answer(body=stats),
        PULL_MESSAGE=answer(body=encode_record(record)),
        GET_BROKER_CONFIG=answer(body=settings),
        GET_BROKER_RUNTIME_INFO=answer(body={"table": figures}),
    )
    return cluster_of_links(links)


INNER_BATCH = Record(
    topic=T,
    queue_id=0,
    queue_offset=0,
    physical_offset=0,
    born_timestamp=STORED_MS,
    born_host=Address("127.0.0.1", 1),
    store_timestamp=STORED_MS,
    store_host=Address("127.0.0.1", 2),
    body=encode_batch([BatchEntry(b"x", b"")] * 4),
    sys_flag=SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH,
)


def test_the_age_of_an_inner_batch_is_that_of_its_record() -> None:
    """A position within an inner batch has the store time of the batch, whose messages share its bytes."""
    lag = by_queue(group_lag(scripted_cluster(INNER_BATCH)))[A0]

    assert (lag.messages, lag.gone, lag.seconds.value) == (Figure(2), Figure(0), about(60))
    assert lag.bytes == Figure(round(2 * len(encode_record(INNER_BATCH)) / 4))


@pytest.mark.parametrize("other", [{"topic": "bills"}, {"queue_id": 1}])
def test_the_message_of_another_queue_tells_nothing(other: dict[str, Any]) -> None:
    """If a broker returns a message of another queue, its age is not that of the next message."""
    found = group_lag(scripted_cluster(replace(INNER_BATCH, **other)))

    lag = by_queue(found)[A0]
    assert lag.messages == Figure(2)
    assert all("[ANSWER_MISMATCH]" in str(each.unknown) for each in (lag.seconds, lag.bytes, lag.retention_seconds))


@pytest.mark.parametrize(
    ("settings", "disk", "left_s"),
    [
        (b"fileReservedTime=72", "0.85", RESERVED_H * HOUR_S - 60),
        (b"fileReservedTime=72", "0.86", 0),
        (b"fileReservedTime=72\ndiskSpaceCleanForciblyRatio=90", "0.86", RESERVED_H * HOUR_S - 60),
        (b"fileReservedTime=72\ncleanFileForciblyEnable=false", "0.99", RESERVED_H * HOUR_S - 60),
        (b"fileReservedTime=0", "0.1", 0),
    ],
)
def test_a_disk_that_is_nearly_full_leaves_no_time(settings: bytes, disk: str, left_s: int) -> None:
    """A broker deletes messages of any age while its disk is fuller than a limit, unless it is told not to."""
    lag = by_queue(group_lag(scripted_cluster(INNER_BATCH, settings=settings, disk=disk)))[A0]

    assert lag.retention_seconds.value == (about(left_s) if left_s else 0)


def test_unreadable_ends_are_unknown(stub: StubCluster) -> None:
    """A broken response makes the queues of its broker unknown, and no others."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    stub.faults.answer(0, on=RequestCode.GET_TOPIC_STATS_INFO, at="broker-b", times=None)

    lag = by_queue(measure_positions(cluster, {A0: 1, B0: 1}, now_ms=NOW_MS))

    assert lag[A0].messages == Figure(2)
    assert "[MALFORMED_FRAME]" in str(lag[B0].messages.unknown)


def test_a_failure_that_passes_makes_nothing_unknown(stub: StubCluster) -> None:
    """Ends are asked for once more, as positions of groups are."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    stub.faults.cut_reply(on=RequestCode.GET_TOPIC_STATS_INFO)

    assert by_queue(measure_positions(cluster, {A0: 1}, now_ms=NOW_MS))[A0].messages == Figure(2)


def test_a_refusal_of_statistics_makes_nothing_unknown(stub: StubCluster) -> None:
    """Where a broker refuses statistics of a topic, each queue is asked for its end."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    stub.faults.answer(16, on=RequestCode.GET_TOPIC_STATS_INFO, times=None)

    assert by_queue(measure_positions(cluster, {A0: 1}, now_ms=NOW_MS))[A0].messages == Figure(2)


def test_a_route_that_is_missing_hides_no_figure(stub: StubCluster) -> None:
    """If a broker is away and the name servers have no route either, the other brokers' queues are shown."""
    cluster = cluster_of(stub)
    store(stub, A0, 3)
    cluster.offsets.commit(G, {A0: 1})
    cluster.routes.expire(T)
    stub.faults.cut_reply(on=RequestCode.GET_CONSUME_STATS, at="broker-b", times=None)
    stub.faults.answer(17, on=RequestCode.GET_ROUTEINFO_BY_TOPIC, at=NAME_SERVER, times=None)

    found = group_lag(cluster, T)

    assert by_queue(found)[A0].messages == Figure(2)
    assert list(found.unanswered) == ["broker-b"] and found.total.messages.is_bound


def test_positions_of_a_query_are_measured_likewise(stub: StubCluster) -> None:
    """Given positions have the same figures as a group's; one of a broker that is gone is unknown."""
    cluster = cluster_of(stub)
    store(stub, A0, 10)
    gone = MessageQueue(T, "broker-z", 0)

    lag = by_queue(measure_positions(cluster, {A0: 4, A1: 0, gone: 3}, now_ms=NOW_MS))

    assert (lag[A0].messages, lag[A0].seconds.value, lag[A1].messages) == (Figure(6), about(56), Figure(0))
    assert "[QUEUE_MOVED]" in str(lag[gone].messages.unknown)


def test_names_of_a_namespace_are_the_users() -> None:
    """With a namespace, groups and topics are named as the user names them."""
    with StubCluster(topics={"NS%T": 1}) as stub:
        settings = ClusterSettings(parse_addresses(stub.name_server), namespace=Namespace("NS"))
        cluster = open_cluster(settings)
        queue = MessageQueue("NS%T", "broker-a", 0)
        store(stub, queue, 3)
        cluster.admin.create_group(SubscriptionGroupConfig(group_name=G))
        cluster.offsets.commit(G, {A0: 1})

        group, query = group_lag(cluster), measure_positions(cluster, {A0: 1}, now_ms=STORED_MS)

    assert by_queue(group)[A0].messages == by_queue(query)[A0].messages == Figure(2)


def test_a_thousand_queues_are_measured_in_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand queues take one burst for positions, clocks and settings each, and pulls of 64 messages at a time.

    So no more than 64 responses are held, each of which may have 4 MiB.
    """
    with StubCluster(2, topics={T: 500}) as stub:
        cluster = cluster_of(stub)
        queues = [MessageQueue(T, broker, number) for broker in ("broker-a", "broker-b") for number in range(500)]
        stub.fill(T, 4000, 100, broker="broker-a")
        cluster.offsets.commit(G, dict.fromkeys(queues, 1))
        bursts = record_bursts(cluster, monkeypatch)
        started = time.monotonic()

        lag = measure_group(cluster, G, now_ms=time.time_ns() // 1_000_000)

    assert (lag.total.queues, lag.total.messages.value) == (1000, 500 * 7)
    assert sorted(filter(None, bursts)) == [1, 1, 2, 500 % 64, *[64] * 7]
    assert time.monotonic() - started < 10  # An idle machine needs half a second.


def record_bursts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the number of requests of each burst to brokers is added from now on."""
    servers, bursts = cluster.brokers.servers, list[int]()
    ask_all = servers.ask_all

    def recorded(requests: Sequence[ServerRequest], **more: Any) -> Any:
        bursts.append(len(requests))
        return ask_all(requests, **more)

    monkeypatch.setattr(servers, "ask_all", recorded)
    return bursts
