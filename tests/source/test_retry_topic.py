"""Test queries with `readRetryTopic=true`, which read their group's retry topic beside their own topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_stub import NAME_SERVER, StubBroker
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.retry.returning import Returned, Returner, ReturnSettings
from pyspark_rocketmq.source.batch import BatchReader
from pyspark_rocketmq.source.catalog import QueueCatalog
from pyspark_rocketmq.source.partition import read_partition
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.wire.codes import RequestCode
from tests.source.driving import (
    GROUP,
    TOPIC,
    Checkpoint,
    Run,
    batch_options_for,
    options_for,
    queue_of,
    read_batch,
    store_offsets,
    wait_for,
)

RETRY = f"%RETRY%{GROUP}"
RETRY_QUEUE = MessageQueue(RETRY, "broker-a", 0)


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    """One broker with a topic of one queue, on a clock that stands still until a test moves it."""
    with StubBroker({TOPIC: 1}, frozen_clock=True) as broker:
        yield broker


def wanted(stub: StubBroker, **given: str) -> ReaderOptions:
    """Return options of a streaming read with `readRetryTopic=true`."""
    return options_for(stub, consumerGroup=GROUP, readRetryTopic="true", **given)


def send_back(stub: StubBroker, *bodies: bytes) -> None:
    """Send these messages of the topic back to the broker without a delay, so that they are in the retry topic."""
    cluster = open_cluster(options_for(stub).cluster)
    rows = [record for record in stub.messages(TOPIC) if record.body in bodies]
    places = [Returned(TOPIC, "broker-a", record.physical_offset, None, 0) for record in rows]
    outcomes = Returner(cluster, ReturnSettings(GROUP, 16)).send_back(dict(enumerate(places)))
    assert set(outcomes.values()) == {None}
    stub.clock.advance(10_000)


def test_the_retry_topic_is_read_once_it_is_there(stub: StubBroker) -> None:
    """If the retry topic appears while a query runs, it is read from its first message, with its own offsets."""
    stub.put(TOPIC, b"a")
    with Run(wanted(stub)) as run:
        assert [row.queue for row in run.drain()] == [queue_of(0)]
        send_back(stub, b"a")
        assert [(row.queue, row.offset, row.body) for row in run.drain()] == [(RETRY_QUEUE, 0, b"a")]


def test_it_goes_on_after_a_restart(stub: StubBroker) -> None:
    """After a restart the retry topic is read on from the checkpoint: each message is read once."""
    checkpoint = Checkpoint()
    stub.put(TOPIC, b"a")
    stub.put(TOPIC, b"b")
    for body in (b"a", b"b"):
        send_back(stub, body)
        with Run(wanted(stub), checkpoint) as run:
            assert [row.body for row in run.drain() if row.queue == RETRY_QUEUE] == [body]


def test_its_positions_are_published(stub: StubBroker) -> None:
    """Positions of the retry topic are committed like those of other topics."""
    stub.put(TOPIC, b"a")
    send_back(stub, b"a")
    with Run(wanted(stub)) as run:
        run.drain()
        wait_for(lambda: stub.offsets(GROUP) == {queue_of(0): 1, RETRY_QUEUE: 1}, "both are committed")


def test_a_new_query_starts_where_the_group_stands(stub: StubBroker) -> None:
    """With `startingOffsets=group` the retry topic is read from the group's position."""
    for body in (b"a", b"b"):
        stub.put(TOPIC, body)
        send_back(stub, body)
    store_offsets(stub, {queue_of(0): 2, RETRY_QUEUE: 1})
    with Run(wanted(stub, startingOffsets="group")) as run:
        assert [row.body for row in run.drain()] == [b"b"]


@pytest.mark.parametrize(
    "given",
    [{"tags": "x"}, {"sqlFilter": "colour = 'red'"}, {"assign": '{"orders": "*"}'}, {"subscribePattern": "ord.*"}],
)
def test_retries_come_whatever_is_chosen(stub: StubBroker, given: dict[str, str]) -> None:
    """The retry topic is read without the query's filter, and in addition to any choice of topics or queues."""
    stub.put(TOPIC, b"a", tags="y")
    send_back(stub, b"a")
    with Run(wanted(stub, **given)) as run:
        assert RETRY_QUEUE in {row.queue for row in run.drain()}


def test_a_batch_reads_retries_too(stub: StubBroker) -> None:
    """A batch read returns the messages of the retry topic if that topic exists."""
    options = batch_options_for(stub, consumerGroup=GROUP, readRetryTopic="true")
    stub.put(TOPIC, b"a")
    assert len(read_batch(options)) == 1
    send_back(stub, b"a")
    assert [row.queue.topic for row in read_batch(options)] == [RETRY, TOPIC]


def test_named_by_the_user_it_is_read_once(stub: StubBroker) -> None:
    """If the user names the retry topic in `subscribe`, too, its queue is read once."""
    stub.put(TOPIC, b"a")
    send_back(stub, b"a")
    options = wanted(stub, subscribe=f"{TOPIC},{RETRY}")
    assert QueueCatalog(open_cluster(options.cluster), options).queues() == [RETRY_QUEUE, queue_of(0)]


def test_a_pattern_that_matches_nothing_is_refused_all_the_same(stub: StubBroker) -> None:
    """If `subscribePattern` matches no topic, the query fails, though the retry topic exists."""
    stub.put(TOPIC, b"a")
    send_back(stub, b"a")
    options = wanted(stub, subscribePattern="nothing")
    catalog = QueueCatalog(open_cluster(options.cluster), options)
    with pytest.raises(OptionError, match="no topic matches"):
        catalog.require_match(catalog.queues())


def test_an_absent_retry_topic_is_looked_for_seldom() -> None:
    """An absent retry topic is asked for when routes expire after 30 seconds, and not at every planning."""
    now = [0.0]
    with StubBroker({TOPIC: 1}) as stub:
        options = wanted(stub)
        cluster = open_cluster(replace(options.cluster, route_max_age_s=30.0))
        asked = stub.faults.delay(1, on=RequestCode.GET_ROUTEINFO_BY_TOPIC, at=NAME_SERVER, times=None)
        catalog = QueueCatalog(cluster, options, PlannerRhythm(clock=lambda: now[0]))
        for now[0] in (0.0, 29.0, 30.0, 31.0):
            assert catalog.queues() == [queue_of(0)]
        assert asked.fired == 1 + 2


def test_origin_topics_are_told_without_the_namespace(stub: StubBroker) -> None:
    """The column `originTopic` has topics without the namespace, for plain and for irregular records."""
    wrapped = "NS%orders"
    for origin in ({"RETRY_TOPIC": wrapped}, {"RETRY_TOPIC": "elsewhere"}, {}, {"RETRY_TOPIC": wrapped, "": "odd"}):
        stub.put(wrapped, b"", properties=origin, queue_id=0)

    options = batch_options_for(stub, namespace="NS", subscribe="orders", columns="originTopic")
    (task,) = BatchReader(options).partitions()
    origins = [text for batch in read_partition(task, options) for text in batch.column("originTopic").to_pylist()]

    assert origins == ["orders", "elsewhere", "orders", "orders"]
