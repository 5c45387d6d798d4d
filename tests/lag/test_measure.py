"""Test lag on a stub: numbers are those of the queues; a figure that cannot be had is unknown, with its reason."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.servers import ServerRequest
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectionLost
from pyspark_rocketmq.lag.figures import Figure, Lag, QueueLag, Total
from pyspark_rocketmq.lag.measure import measure_group, measure_positions
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode

T, G = "T", "g"
A0, A1, B0 = MessageQueue(T, "broker-a", 0), MessageQueue(T, "broker-a", 1), MessageQueue(T, "broker-b", 0)
STORED_MS = 1_700_000_000_000
HOUR_S, RESERVED_H = 3600, 72


@pytest.fixture(params=["5.3.3", "4.9.7"])
def stub(request: pytest.FixtureRequest) -> Iterator[StubCluster]:
    """A stub of two brokers, once for each release, with the topic T of two queues each."""
    with StubCluster(2, topics={T: 2}, emulate=request.param) as made:
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


def group_lag(cluster: Cluster, topic: str | None = None, *, now_ms: int = STORED_MS + 60_000) -> Lag:
    """Return the lag of the group G, a minute after the first messages were stored."""
    return measure_group(cluster, G, topic, now_ms=now_ms)


def test_a_known_queue_has_all_figures(stub: StubCluster) -> None:
    """Messages count from position to end; age and time to retention come from the next message."""
    cluster = cluster_of(stub)
    store(stub, A0, 10)
    cluster.offsets.commit(G, {A0: 4})

    lag = by_queue(group_lag(cluster))[A0]

    assert (lag.position, lag.end, lag.messages, lag.gone) == (Figure(4), Figure(10), Figure(6), Figure(0))
    assert lag.seconds == Figure(60 - 4)
    assert lag.retention_seconds == Figure(RESERVED_H * HOUR_S - 56)


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
    assert lag.seconds == Figure(60 - 5)
    assert found.total.gone.value == 3


def test_messages_beyond_retention_have_no_time_left(stub: StubCluster) -> None:
    """A message that is older than the broker's retention may be deleted at any time."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})

    lag = by_queue(group_lag(cluster, now_ms=STORED_MS + RESERVED_H * HOUR_S * 1000 + 5))[A0]

    assert lag.retention_seconds == Figure(0)


def test_retention_that_is_not_told_is_unknown(stub: StubCluster) -> None:
    """If a broker may not be asked for its settings, only the time to retention is unknown."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})
    stub.faults.answer(16, "no permission", on=RequestCode.GET_BROKER_CONFIG, times=None)

    lag = by_queue(group_lag(cluster))[A0]

    assert "[BROKER_NO_PERMISSION]" in str(lag.retention_seconds.unknown)
    assert (lag.messages, lag.seconds) == (Figure(2), Figure(60))


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
    lag = by_queue(measure_positions(cluster, {A0: 7}, now_ms=STORED_MS))[A0]

    assert "5 beyond the end" in str(lag.messages.unknown)


def test_a_message_from_the_future_has_no_age(stub: StubCluster) -> None:
    """If the next message is younger than now, the clocks differ, and its age is unknown; a second is tolerated."""
    cluster = cluster_of(stub)
    store(stub, A0, 2)
    cluster.offsets.commit(G, {A0: 0})

    hour_ahead = by_queue(group_lag(cluster, now_ms=STORED_MS - 3_600_000))[A0]
    a_little = by_queue(group_lag(cluster, now_ms=STORED_MS - 900))[A0]

    assert "3600.0 s younger than now: the clocks differ" in str(hour_ahead.seconds.unknown)
    assert a_little.seconds == Figure(0)


def test_positions_of_a_query_are_measured_likewise(stub: StubCluster) -> None:
    """Given positions have the same figures as a group's; one of a broker that is gone is unknown."""
    cluster = cluster_of(stub)
    store(stub, A0, 10)
    gone = MessageQueue(T, "broker-z", 0)

    lag = by_queue(measure_positions(cluster, {A0: 4, A1: 0, gone: 3}, now_ms=STORED_MS + 60_000))

    assert (lag[A0].messages, lag[A0].seconds, lag[A1].messages) == (Figure(6), Figure(56), Figure(0))
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
    """A thousand queues take a few bursts of requests, in which each queue that is behind is asked for one message."""
    with StubCluster(2, topics={T: 500}) as stub:
        cluster = cluster_of(stub)
        queues = [MessageQueue(T, broker, number) for broker in ("broker-a", "broker-b") for number in range(500)]
        stub.fill(T, 4000, 100, broker="broker-a")
        cluster.offsets.commit(G, dict.fromkeys(queues, 1))
        bursts = record_bursts(cluster, monkeypatch)

        lag = measure_group(cluster, G, now_ms=time.time_ns() // 1_000_000)

    assert (lag.total.queues, lag.total.messages.value) == (1000, 500 * 7)
    assert sorted(filter(None, bursts)) == [1, 2, 500]


def record_bursts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the number of requests of each burst to brokers is added from now on."""
    servers, bursts = cluster.brokers.servers, list[int]()
    ask_all = servers.ask_all

    def recorded(requests: Sequence[ServerRequest], **more: Any) -> Any:
        bursts.append(len(requests))
        return ask_all(requests, **more)

    monkeypatch.setattr(servers, "ask_all", recorded)
    return bursts
