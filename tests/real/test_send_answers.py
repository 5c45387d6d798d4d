"""Test how brokers of each release answer sends that they refuse, or store in their own way.

docs/broker-sends.md has these answers as tables. Requests are sent as they are, without the checks of our clients.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.properties import join_properties
from tests.flows.world import World, now_ms, until
from tests.real.fixtures import ClusterKeeper
from tests.real.probe import Caller
from tests.real.servers import Broker, RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

STORED, SYSTEM_ERROR, BUSY, ILLEGAL, FORBIDDEN, NO_TOPIC, INVALID = 0, 1, 2, 13, 16, 17, 29
MIB = 2**20
DAY_MS = 86_400_000
PROPERTIES = {"UNIQ_KEY": "A" * 32, "WAIT": "true"}


@pytest.fixture
def world(real_cluster: RealCluster) -> World:
    """The cluster of the test."""
    return real_world(real_cluster)


def fields(topic: str, queue_id: int, properties: dict[str, str], *, is_batch: bool) -> dict[str, str]:
    """Return the header fields of a send."""
    named = {"a": "group", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "g": str(now_ms())}
    text = join_properties(properties)
    return {**named, "f": "0", "h": "0", "i": text, "j": "0", "k": "false", "m": str(is_batch).lower()}


def send(broker: Broker, topic: str, body: bytes = b"x", queue_id: int = 0, **properties: str) -> Command:
    """Send one message; return the broker's answer."""
    given = fields(topic, queue_id, PROPERTIES | properties, is_batch=False)
    return broker.ask(RequestCode.SEND_MESSAGE_V2, given, body)


def send_batch(
    broker: Broker, topic: str, bodies: Sequence[bytes], entry: dict[str, str] | None = None, **outer: str
) -> Command:
    """Send a batch whose messages have the properties in `entry`; return the broker's answer."""
    text = join_properties({"UNIQ_KEY": "B" * 32, **(entry or {})}).encode()
    body = encode_batch([BatchEntry(each, text) for each in bodies])
    given = fields(topic, 0, {"WAIT": "true", **outer}, is_batch=True)
    return broker.ask(RequestCode.SEND_BATCH_MESSAGE, given, body)


def test_what_a_broker_refuses(world: World, real_cluster: RealCluster) -> None:
    """Refusals have these codes; which one it is depends on the release."""
    broker, topic = real_cluster.broker, world.make_topic()[0].topic
    far = str(now_ms() + 30 * DAY_MS)
    codes: dict[str, Any] = {
        "empty body": send(broker, topic, b""),
        "empty body in a batch": send_batch(broker, topic, [b"a", b""]),
        "largest body": send(broker, topic, b"x" * 4 * MIB),
        "larger body": send(broker, topic, b"x" * (4 * MIB + 1)),
        "larger batch": send_batch(broker, topic, [b"x" * 3 * MIB] * 2),
        "long properties": send(broker, topic, p="x" * 32_720),
        "delayed batch": send_batch(broker, topic, [b"a"], DELAY="1"),
        "unknown queue": send(broker, topic, queue_id=77),
        "illegal topic": send(broker, "no/topic"),
        "long topic": send(broker, "x" * 128),
        "system topic": send(broker, "SCHEDULE_TOPIC_XXXX"),
        "unknown level": send(broker, topic, DELAY="99"),
        "level as text": send(broker, topic, DELAY="one"),
        "time in 30 days": send(broker, topic, TIMER_DELIVER_MS=far),
        "time as text": send(broker, topic, TIMER_DELIVER_MS="soon"),
    }

    assert {what: response.code for what, response in codes.items()} == {
        "empty body": world.by_version({"4.9": STORED, "5": SYSTEM_ERROR}),
        "empty body in a batch": STORED,
        "largest body": STORED,
        "larger body": ILLEGAL,
        "larger batch": world.by_version({"4.9": ILLEGAL, "5": SYSTEM_ERROR}),
        "long properties": ILLEGAL,
        "delayed batch": ILLEGAL,
        "unknown queue": world.by_version({"4.9": SYSTEM_ERROR, "5": INVALID}),
        "illegal topic": world.by_version({"4.9": SYSTEM_ERROR, "5": INVALID}),
        "long topic": world.by_version({"4.9": SYSTEM_ERROR, "5": INVALID}),
        "system topic": FORBIDDEN,
        "unknown level": STORED,
        "level as text": SYSTEM_ERROR,
        "time in 30 days": world.by_version({"4.9": STORED, "5": ILLEGAL}),
        "time as text": world.by_version({"4.9": STORED, "5": ILLEGAL}),
    }


def test_write_permission_of_a_topic_is_not_checked(world: World, real_cluster: RealCluster) -> None:
    """A broker stores messages of a topic without write permission: only routes say that the topic has none."""
    topic = world.make_topic(perm=4)[0].topic

    assert send(real_cluster.broker, topic).code == STORED
    assert world.cluster.routes.route(topic).writable == ()


@pytest.mark.slow
def test_too_long_properties_in_a_batch_do_harm(real_clusters: ClusterKeeper) -> None:
    """Brokers up to 5.3.3 acknowledge entries of a batch that get too long by what they append; none can be read.

    At 4.9.7 nothing that is stored later can be read either, in any topic.
    """
    cluster = real_clusters.cluster(options={"longPollingEnable": "true"})  # A cluster of its own, which suffers.
    world, broker = real_world(cluster), cluster.broker
    queue, later = world.make_queue(), world.make_queue()

    assert send_batch(broker, queue.topic, [b"a"], {"p": "x" * 32_700}).code == STORED
    assert send(broker, later.topic).code == STORED

    ends_s = time.monotonic() + 5  # Messages are dispatched in the order of the log, at once.
    while broker.max_offset(later.topic, 0) == 0 and time.monotonic() < ends_s:
        time.sleep(0.1)
    ends = (broker.max_offset(queue.topic, 0), broker.max_offset(later.topic, 0))
    assert ends == world.by_version({"4.9": (0, 0), "5.3": (0, 1), "5.5": (1, 1)})


def test_brokers_up_to_5_3_add_properties_to_each_message_of_a_batch(world: World, real_cluster: RealCluster) -> None:
    """Since 5.5 messages of a batch have their own properties only; before, those of the batch and the broker, too."""
    queue = world.make_queue()

    send_batch(real_cluster.broker, queue.topic, [b"a"], {"own": "1"}, outer="2")

    [record] = world.await_messages(queue)
    added = set(record.properties) - {"own", "UNIQ_KEY"}
    by_broker = {"WAIT", "outer", "CLUSTER", "MSG_REGION", "TRACE_ON"}
    assert added == world.by_version({"4.9": {"WAIT", "outer", "CLUSTER"}, "5.3": by_broker, "5.5": set()})


def test_batch_queues_take_batches_without_an_id(world: World, real_cluster: RealCluster) -> None:
    """A topic with batch consume queues stores a batch without an outer id as single messages, which stay readable."""
    if world.version.startswith("4.9"):
        pytest.skip("4.9 has no batch consume queues")
    queue, broker = world.make_queue(attributes={"queue.type": "BatchCQ"}), real_cluster.broker

    codes = [send_batch(broker, queue.topic, [b"%d" % number, b"x"]).code for number in range(3)]
    codes.append(send(broker, queue.topic, b"last").code)
    world.await_end(queue, 7)
    broker.kill()
    broker.start()

    assert codes == [STORED] * 4
    assert [record.body for record in world.read(queue)] == [b"0", b"x", b"1", b"x", b"2", b"x", b"last"]


# --- brokers under load, and stores that lag --------------------------------------------------------------------------

OVERLOAD = {"sendThreadPoolQueueCapacity": "2", "sendMessageThreadPoolNums": "1"}
IMPATIENT = {"waitTimeMillsInSendQueue": "1", "sendMessageThreadPoolNums": "1"}
PAGE_CACHE = {"osPageCacheBusyTimeOutMills": "-1"}


def load(broker: Broker, topic: str, seconds: float = 3) -> Counter[tuple[int, str]]:
    """Send from many connections; return how often each pair of code and word in brackets came."""
    ends, given = time.monotonic() + seconds, fields(topic, 0, PROPERTIES, is_batch=False)

    def ask() -> list[tuple[int, str]]:
        answers = []
        with Caller(broker.address) as caller:
            while time.monotonic() < ends:
                response = caller.ask(RequestCode.SEND_MESSAGE_V2, given, b"x" * 5000)
                answers.append((response.code, (response.remark or "").partition("]")[0].strip("[")))
        return answers

    with ThreadPoolExecutor(32) as threads:
        asked = [threads.submit(ask) for _ in range(32)]
        return Counter(answer for each in asked for answer in each.result())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        (OVERLOAD, {"OVERLOAD"}),
        (IMPATIENT, {"TIMEOUT_CLEAN_QUEUE"}),
        (PAGE_CACHE, {"REJECTREQUEST", "PCBUSY_CLEAN_QUEUE", "PC_SYNCHRONIZED"}),
    ],
    ids=["overload", "impatient", "page cache"],
)
def test_a_busy_broker_says_so(real_clusters: ClusterKeeper, options: dict[str, str], reasons: set[str]) -> None:
    """Flow control has code 2 and a word in brackets; 4.9 sends PC_SYNCHRONIZED with code 1."""
    cluster = real_clusters.cluster(options=options)
    world = real_world(cluster)
    seen = load(cluster.broker, world.make_topic()[0].topic)

    refusals = {(code, reason) for code, reason in seen if code != STORED}
    early = world.by_version({"4.9": SYSTEM_ERROR, "5": BUSY})
    assert refusals and {reason for _, reason in refusals} <= reasons
    assert {code for code, reason in refusals} <= {BUSY, early}
    assert all(code == (early if reason == "PC_SYNCHRONIZED" else BUSY) for code, reason in refusals)


@pytest.mark.slow
def test_a_slow_disk_is_a_status(real_clusters: ClusterKeeper) -> None:
    """With SYNC_FLUSH a message that is not flushed in time is stored, and answered with code 10 and a receipt."""
    cluster = real_clusters.cluster(options={"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "1"})
    queue = real_world(cluster).make_queue()
    answers = [send(cluster.broker, queue.topic) for _ in range(20)]

    assert 10 in {answer.code for answer in answers} <= {STORED, 10}
    assert [int((answer.fields or {})["queueOffset"]) for answer in answers] == list(range(20))
    assert send(cluster.broker, queue.topic, WAIT="false").code == STORED


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [1, 2])
def test_a_missing_replica_is_a_status(real_clusters: ClusterKeeper, wanted: int) -> None:
    """A synchronous master without replica answers 11 in 4.9; in 5.x 12 if `inSyncReplicas` asks for one, else 0."""
    options = {"brokerRole": "SYNC_MASTER", "syncFlushTimeout": "1000", "inSyncReplicas": str(wanted)}
    cluster = real_clusters.cluster(options=options)
    world = real_world(cluster)
    queue: MessageQueue = world.make_queue()

    answer = send(cluster.broker, queue.topic)

    assert answer.code == world.by_version({"4.9": 11, "5": STORED if wanted == 1 else 12})
    assert (answer.fields or {})["queueOffset"] == "0"
    until(lambda: cluster.broker.max_offset(queue.topic, 0) == 1, "it is stored")


@pytest.mark.slow
def test_a_slow_replica_is_a_status(real_clusters: ClusterKeeper) -> None:
    """If the replica of a synchronous master stands still, messages are stored and answered with 11 or 12."""
    cluster = real_clusters.cluster(slaves=1)
    world = real_world(cluster)
    queue = world.make_queue()
    changed = {"brokerRole": "SYNC_MASTER", "syncFlushTimeout": "1500"}
    changed |= {"inSyncReplicas": "2"} if world.version.startswith("5") else {}
    world.cluster.admin.update_broker_config("broker-a", changed)
    assert cluster.slave.process is not None
    os.kill(cluster.slave.process.pid, signal.SIGSTOP)
    try:
        answers = [send(cluster.broker, queue.topic) for _ in range(3)]
    finally:
        os.kill(cluster.slave.process.pid, signal.SIGCONT)
        world.cluster.admin.update_broker_config("broker-a", {"brokerRole": "ASYNC_MASTER"})

    assert answers[-1].code == world.by_version({"4.9": 11, "5": 12})
    assert [(answer.fields or {})["queueOffset"] for answer in answers] == ["0", "1", "2"]


@pytest.mark.slow
def test_a_closed_cluster_knows_no_other_topics(real_clusters: ClusterKeeper) -> None:
    """Without auto-creation the answer for an unknown topic is 17; by default the topic is made."""
    closed = real_clusters.cluster(options={"autoCreateTopicEnable": "false"})
    assert send(closed.broker, "never_made").code == NO_TOPIC
    assert send(real_clusters.cluster().broker, f"made_{now_ms()}").code == STORED
