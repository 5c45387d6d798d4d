"""Drive a streaming read as Spark does: the same calls in the same order, with a checkpoint, without Spark.

    checkpoint = Checkpoint()
    with Run(options, checkpoint) as run:
        run.trigger()            # the rows of its batch; None if there is nothing new

Objects that cross between Spark's processes are pickled here, and offsets are text as in Spark's log.
"""

from __future__ import annotations

import json
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from broker_stub import StubCluster
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import Address, MessageQueue, parse_address
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.options import ReaderOptions, parse_reader_options
from pyspark_rocketmq.source.partition import RangePartition, read_partition
from pyspark_rocketmq.source.rhythm import NORMAL, PlannerRhythm
from pyspark_rocketmq.source.stream import StreamReader, make_stream_reader
from pyspark_rocketmq.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData

TOPIC, GROUP = "orders", "spark-orders"
TIMEOUT_S = 20.0
FRESH = PlannerRhythm(bounds_s=0.0)
"""A rhythm in which bounds are fetched at every planning."""
QUICK = PlannerRhythm(
    bounds_s=0.0,
    settle_s=0.1,
    exchange_s=0.0,
    exchange_per_queue_s=0.0,
    lock_retry_s=0.05,
)
"""A rhythm in which members wait 0.1 s at most before they take over queues, commit or request locks."""


class Row(NamedTuple):
    """The queue, the offset and the body of a row."""

    queue: MessageQueue
    offset: int
    body: bytes


class Named(Protocol):
    """A cluster, stub or real, with a name server."""

    @property
    def name_server(self) -> str:
        """The address of the name server, as the option `nameServer` takes it."""


def options_for(stub: Named, **given: str) -> ReaderOptions:
    """Return options of a streaming read of `TOPIC` from the earliest offset, with the given options on top."""
    return _options(stub, {"startingOffsets": "earliest", **given}, stream=True)


def batch_options_for(stub: Named, **given: str) -> ReaderOptions:
    """Return options of a batch read of `TOPIC`, with the given options on top."""
    return _options(stub, given, stream=False)


def _options(stub: Named, given: dict[str, str], *, stream: bool) -> ReaderOptions:
    """Return parsed options with short pauses between retries, and routes that expire at once."""
    base = {"nameServer": stub.name_server, "fetchOffset.retryIntervalMs": "10"}
    if not {"subscribePattern", "assign", "subscribe"} & given.keys():
        base["subscribe"] = TOPIC
    options = parse_reader_options({**base, **given}, stream=stream)
    quick = Backoff(first_s=0.01, longest_s=0.01)
    return replace(
        options,
        cluster=replace(options.cluster, route_max_age_s=0.0),
        pull=replace(options.pull, failure_pause=quick),
    )


@dataclass
class Checkpoint:
    """Spark's offset log and commit log of one query."""

    offsets: list[str] = field(default_factory=list)
    finished: int = 0
    """The number of batches in the commit log."""

    @property
    def last(self) -> Any:
        """The newest offset in the log, parsed from JSON."""
        return json.loads(self.offsets[-1])


class Run:
    """One run of a query: a reader from start to stop, over a checkpoint that outlives it."""

    def __init__(
        self,
        options: ReaderOptions,
        checkpoint: Checkpoint | None = None,
        *,
        available_now: bool = False,
        once: bool = False,
        rhythm: PlannerRhythm = NORMAL,
    ) -> None:
        self.checkpoint = Checkpoint() if checkpoint is None else checkpoint
        self._handler = signal.getsignal(signal.SIGTERM)
        self.reader: Any = pickle.loads(pickle.dumps(make_stream_reader(options, rhythm=rhythm)))
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        self._limit = all_available() if once else self.reader.getDefaultReadLimit()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()
        signal.signal(signal.SIGTERM, self._handler)

    def trigger(self) -> list[Row] | None:
        """Run the unfinished batch, or else the next one; return its rows, or None if there is nothing new."""
        if len(self.checkpoint.offsets) == self.checkpoint.finished and not self.plan():
            return None
        rows = self.read()
        self.checkpoint.finished += 1
        return rows

    def drain(self) -> list[Row]:
        """Run batches until nothing is new, and return their rows."""
        batches = list(iter(self.trigger, None))
        return [row for batch in batches for row in batch or ()]

    def read_until(self, count: int) -> list[Row]:
        """Run batches until at least `count` rows were read, and return them; fail after a timeout."""
        rows: list[Row] = []

        def is_enough() -> bool:
            rows.extend(self.trigger() or ())
            return len(rows) >= count

        wait_for(is_enough, f"{count} rows")
        return rows

    def plan(self) -> bool:
        """Plan the next batch and log its end offset; return False, and log nothing, if there is nothing new."""
        log = self.checkpoint.offsets
        start = log[-1] if log else json.dumps(self.reader.initialOffset())
        end = json.dumps(self.reader.latestOffset(json.loads(start), self._limit))
        json.dumps(self.reader.reportLatestOffset())
        if end == start:
            return False
        log.append(end)
        if len(log) > 1:
            self.reader.commit(json.loads(log[-2]))
        return True

    def partitions(self) -> list[RangePartition]:
        """Return the tasks of the newest batch in the log."""
        log = self.checkpoint.offsets
        start = json.loads(log[-2]) if len(log) > 1 else self.reader.initialOffset()
        return list(pickle.loads(pickle.dumps(self.reader.partitions(start, json.loads(log[-1])))))

    def read(self) -> list[Row]:
        """Read the newest batch in the log, and return its rows."""
        reader: StreamReader = pickle.loads(pickle.dumps(self.reader))
        return [row for task in self.partitions() for batch in reader.read(task) for row in rows_of(batch)]


fresh_run = partial(Run, rhythm=FRESH)
quick_run = partial(Run, rhythm=QUICK)


def all_available() -> Any:
    """Return the read limit that Spark passes with the trigger `once`: no limit."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return ReadAllAvailable()


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield each row of a record batch as a `Row`."""
    names = ("topic", "brokerName", "queueId", "queueOffset", "body")
    for topic, broker, queue_id, offset, body in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
        yield Row(MessageQueue(topic, broker, queue_id), offset, body)


def read_batch(options: ReaderOptions) -> list[Row]:
    """Run a batch read, and return its rows."""
    from pyspark_rocketmq.source.batch import BatchReader

    reader = pickle.loads(pickle.dumps(BatchReader(options)))
    return [row for task in reader.partitions() for batch in read_partition(task, options) for row in rows_of(batch)]


def admin_of(stub: Named) -> Cluster:
    """Return a client of the stub's cluster that is independent of the query, for requests of an administrator."""
    return open_cluster(ClusterSettings((parse_address(stub.name_server),)))


def store_offsets(stub: StubCluster, offsets: dict[MessageQueue, int], group: str = GROUP) -> None:
    """Commit positions of the group as another client."""
    admin = admin_of(stub)
    for broker_name in {queue.broker_name for queue in offsets}:
        admin.admin.fetch_group_config(group, broker_name)
    admin.offsets.commit(group, offsets)


def queue_of(number: int, broker: str = "broker-a", topic: str = TOPIC) -> MessageQueue:
    """Return the queue with this id, by default of `TOPIC` at broker-a."""
    return MessageQueue(topic, broker, number)


def join(stub: StubCluster, group: str = GROUP, topic: str = TOPIC, broker: str | None = None) -> None:
    """Make a consumer a member of the group by one heartbeat to one broker."""
    consumer = ConsumerData(
        group_name=group,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=(SubscriptionData(topic=topic, sub_string="*"),),
    )
    address: Address = parse_address(stub.broker_address(broker))
    admin_of(stub).groups.heartbeat(address, HeartbeatData(client_id="me@1", consumer_data_set=(consumer,)))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds; fail if it does not."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S:g} s: {what}"
        time.sleep(0.01)
