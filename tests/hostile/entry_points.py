"""Provide the public entry points that scenarios call: reads, clients, single requests.

Each is a function of the name server's address and options, and returns a value to compare.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from broker_stub import StubCluster
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.producer import Producer
from pyspark_rocketmq.client.pull_consumer import PullConsumer
from pyspark_rocketmq.client.results import SUCCESS
from pyspark_rocketmq.client.settings import ConsumeFrom, ConsumerSettings, ProducerSettings, PullConsumerSettings
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import Message, MessageQueue, QueueRange, parse_addresses
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.pull.loop import read_ranges
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.source.losses import LossJournal
from pyspark_rocketmq.wire.record import decode_records
from tests.client.fixtures import QUICK
from tests.source.driving import GROUP, TOPIC, Checkpoint, Row, Run, batch_options_for, options_for, read_batch

QUEUES, MESSAGES = 2, 64
"""Number of queues of the topic, and number of messages in each queue."""
BROKER = "broker-a"
SHORT_TIMEOUTS = {
    "connectTimeoutMillis": "1000",
    "mqClientApiTimeout": "600",
    "pullTimeoutMs": "1000",
    "pollTimeoutMs": "1300",
    "pullMaxRetries": "3",
    "fetchOffset.numRetries": "1",
}
"""Options with which reads that cannot succeed end soon, although a loaded machine still responds in time."""


FROM_ZERO = json.dumps({TOPIC: {BROKER: {str(number): 0 for number in range(QUEUES)}}})
"""Starting offset 0 for every queue, the default of the scenarios.

With `earliest`, messages that are missing at the front would not count as a loss.
"""


class Found(NamedTuple):
    """One message as a reader returned it."""

    queue_id: int
    offset: int
    body: bytes | None


class _Server(NamedTuple):
    name_server: str


def fill(stub: StubCluster) -> None:
    """Store the messages that scenarios read, tagged `a` and `b` in turn."""
    for number in range(QUEUES * MESSAGES):
        queue_id, offset = divmod(number, MESSAGES)
        stub.put(TOPIC, body_of(queue_id, offset), tags="ab"[offset % 2], keys=f"k{offset}", queue_id=queue_id)


def body_of(queue_id: int, offset: int) -> bytes:
    """Return the body of the test message at this offset of this queue."""
    return b"%d-%d" % (queue_id, offset)


def expected_rows(*, tag: str = "") -> list[Found]:
    """Return the rows that a correct read yields: those of one tag, or all without a tag."""
    places = [divmod(number, MESSAGES) for number in range(QUEUES * MESSAGES)]
    return [Found(queue, at, body_of(queue, at)) for queue, at in places if tag in ("", "ab"[at % 2])]


def queue_of(number: int) -> MessageQueue:
    """Return the topic's queue with this number."""
    return MessageQueue(TOPIC, BROKER, number)


def queues() -> list[MessageQueue]:
    """Return all queues of the topic."""
    return [queue_of(number) for number in range(QUEUES)]


# --- reading for Spark -----------------------------------------------------------------------------------------------


def batch(name_server: str, **options: str) -> list[Found]:
    """Return the rows of a batch read of the topic."""
    return _found(read_batch(batch_options_for(_Server(name_server), **_completed(options))))


def stream(name_server: str, **options: str) -> list[Found]:
    """Return the rows of a streaming read of the topic, which runs until there are no new messages."""
    with Run(options_for(_Server(name_server), **_completed(options))) as run:
        return _found(run.drain())


def triggers(name_server: str, **options: str) -> list[Found]:
    """Return the rows of a streaming read that takes several micro-batches and commits positions for a group."""
    return stream(name_server, **{"consumerGroup": GROUP, "maxOffsetsPerQueue": "20", **options})


def restarted(name_server: str, **options: str) -> list[Found]:
    """Return the rows of a streaming read that restarts once from its checkpoint if it fails."""
    checkpoint, given = Checkpoint(), options_for(_Server(name_server), **_completed(options))
    rows: list[Row] = []

    def go_on() -> None:
        with Run(given, checkpoint) as run:
            while (batch := run.trigger()) is not None:
                rows.extend(batch)

    with suppress(RocketMQError):
        go_on()
    go_on()
    return _found(rows)


def _completed(options: dict[str, str]) -> dict[str, str]:
    """Return the scenario's options, plus short timeouts, plus starting offset 0 if the scenario sets no start."""
    starts = any(name.startswith(("starting", "subscribePattern")) for name in options)
    return {**SHORT_TIMEOUTS, **({} if starts else {"startingOffsets": FROM_ZERO}), **options}


def _found(rows: list[Row]) -> list[Found]:
    return [Found(row.queue.queue_id, row.offset, row.body) for row in rows]


# --- the engine, the cluster and the client --------------------------------------------------------------------------


def settings_for(name_server: str) -> ClusterSettings:
    """Return client settings with short timeouts for this name server."""
    return ClusterSettings(
        parse_addresses(name_server),
        net=NetSettings(connect_timeout_s=2, request_timeout_s=0.8),
        retries=1,
        pause=Backoff(first_s=0.02, longest_s=0.05),
        route_max_age_s=0.2,
    )


def engine(name_server: str, **_: str) -> list[Found]:
    """Return the rows that the pull engine alone reads from the topic's ranges."""
    cluster = open_cluster(settings_for(name_server))
    pull = replace(PullSettings(stall_timeout_s=1.3, max_retries=3), failure_pause=Backoff(0.02, 0.05))
    ranges = [QueueRange(queue, 0, MESSAGES) for queue in queues()]
    blocks = read_ranges(ranges, cluster.brokers, pool_for(cluster.settings.net), LossJournal(True), pull)
    records = [record for block in blocks for record in decode_records(block.data)]
    return [Found(record.queue_id, record.queue_offset, record.body) for record in records]


def consume(name_server: str, **_: str) -> list[Found]:
    """Return the messages that a push consumer gets; wait until every message has arrived."""
    found: set[Found] = set()
    is_complete = threading.Event()

    def listen(messages: Any) -> Any:
        found.update(Found(each.queue.queue_id, each.offset, each.body) for each in messages)
        if len(found) >= QUEUES * MESSAGES:
            is_complete.set()
        return SUCCESS

    settings = ConsumerSettings(**_member_settings(), thread_count=2)
    with PushConsumer.concurrent(settings_for(name_server), settings, listen):
        is_complete.wait()
    return sorted(found)


def poll(name_server: str, **_: str) -> list[Found]:
    """Return the messages that a pull consumer gets; wait until every message has arrived."""
    found: set[Found] = set()
    with PullConsumer(settings_for(name_server), PullConsumerSettings(**_member_settings())) as consumer:
        while len(found) < QUEUES * MESSAGES:
            found.update(Found(each.queue.queue_id, each.offset, each.body) for each in consumer.poll(0.1))
    return sorted(found)


def _member_settings() -> dict[str, Any]:
    return {
        "group": GROUP,
        "subscriptions": {TOPIC: Subscription("*")},
        "consume_from": ConsumeFrom.FIRST_OFFSET,
        "rhythm": replace(QUICK, failure_pause_s=0.5, rebalance_soonest_s=0.3, rebalance_s=1.0),
    }


def send(name_server: str, **_: str) -> int:
    """Send ten messages, and return the number of receipts."""
    with Producer(settings_for(name_server), ProducerSettings(group="shop", send_timeout_s=2)) as producer:
        return len([producer.send(Message("sent", b"%d" % number)) for number in range(10)])


def _ask(question: Callable[[Cluster], Any]) -> Callable[..., Any]:
    """Return an entry point that sends one request to the cluster."""
    return lambda name_server, **_: question(open_cluster(settings_for(name_server)))


def _commit(cluster: Cluster) -> dict[MessageQueue, int]:
    cluster.admin.fetch_group_config(GROUP, BROKER)
    cluster.offsets.commit(GROUP, dict.fromkeys(queues(), 5))
    return cluster.offsets.fetch_committed(GROUP, queues())


class EntryPoint(NamedTuple):
    """A function to call, and the result that it returns with honest servers."""

    call: Callable[..., Any]
    right: Any = None
    is_rows: bool = False


_ROWS = expected_rows()
_OF_EACH = {
    "earliest": dict.fromkeys(queues(), 0),
    "latest": dict.fromkeys(queues(), MESSAGES),
    "committed": dict.fromkeys(queues(), 5),
}
ENTRY_POINTS = {
    "batch": EntryPoint(batch, _ROWS, True),
    "stream": EntryPoint(stream, _ROWS, True),
    "triggers": EntryPoint(triggers, _ROWS, True),
    "restarted": EntryPoint(restarted, _ROWS, True),
    "engine": EntryPoint(engine, _ROWS, True),
    "consume": EntryPoint(consume, _ROWS, True),
    "poll": EntryPoint(poll, _ROWS, True),
    "send": EntryPoint(send, 10),
    "bounds": EntryPoint(
        _ask(lambda cluster: {queue: b[:2] for queue, b in cluster.offsets.fetch_bounds(queues()).items()}),
        dict.fromkeys(queues(), (0, MESSAGES)),
    ),
    "max": EntryPoint(_ask(lambda cluster: cluster.offsets.fetch_max(queues())), _OF_EACH["latest"]),
    "min": EntryPoint(_ask(lambda cluster: cluster.offsets.fetch_min(queues())), _OF_EACH["earliest"]),
    "search": EntryPoint(
        _ask(lambda cluster: cluster.offsets.search(dict.fromkeys(queues(), 1))), _OF_EACH["earliest"]
    ),
    "committed": EntryPoint(_ask(_commit), _OF_EACH["committed"]),
    "topics": EntryPoint(_ask(lambda cluster: TOPIC in cluster.name_servers.fetch_topics()), True),
    "brokers": EntryPoint(
        _ask(lambda cluster: [each.broker_name for each in cluster.name_servers.fetch_brokers()]), [BROKER]
    ),
    "route": EntryPoint(_ask(lambda cluster: list(cluster.routes.route(TOPIC).readable)), queues()),
    "topic config": EntryPoint(
        _ask(lambda cluster: cluster.admin.fetch_topic_config(TOPIC)[BROKER].read_queue_nums), QUEUES
    ),
    "by key": EntryPoint(
        _ask(
            lambda cluster: sorted(
                each.record.queue_offset for each in cluster.messages.query_by_key(TOPIC, "k3").messages
            )
        ),
        [3, 3],
    ),
}
