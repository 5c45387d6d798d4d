"""Present a cluster under test to scenarios.

A `World` is our client core in front of one cluster: the stub or a real one, of some version. Scenarios are plain
functions of a `World`. They take fresh names, so all of them share one cluster. A scenario states the differences
between versions as data (`by_version`), and stops or starts servers through `Servers`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from pyspark_rocketmq.broker_errors import SystemBusy
from pyspark_rocketmq.cluster.broker import RoutedRequest
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster, open_shared_cluster
from pyspark_rocketmq.cluster.messages import Receipt, Sending
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import RocketMQError, located
from pyspark_rocketmq.model import Address, MessageQueue, parse_addresses
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.net.settings import NetSettings, TlsSettings
from pyspark_rocketmq.net.threaded import Handler
from pyspark_rocketmq.pull.port import PullOutcome, PullStatus
from pyspark_rocketmq.pull.remoting import read_outcome
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig, TopicConfig
from pyspark_rocketmq.wire.commands import PullMessageRequestHeader
from pyspark_rocketmq.wire.properties import encode_properties
from pyspark_rocketmq.wire.record import Record, decode_records

T = TypeVar("T")

WAIT_TIMEOUT_S = 50.0
WAIT_FLAG, SUBSCRIPTION_FLAG = 2, 4
PULL_CODES = frozenset(int(status) for status in PullStatus)


class Servers(Protocol):
    """Control of the servers of a cluster."""

    def stop(self, broker_name: str) -> None:
        """End a master, as a crash does."""

    def start(self, broker_name: str) -> None:
        """Start a master again with the messages it had stored."""

    def replicate(self, queues: Sequence[MessageQueue]) -> None:
        """Wait until the slaves hold all messages of these queues."""

    def expire(self, queue: MessageQueue) -> int:
        """Delete the oldest messages of a queue, as retention does; return the new minimum offset."""


@dataclass(frozen=True)
class World:
    """Our client core in front of the cluster under test."""

    name_server: str
    version: str
    is_stub: bool
    servers: Servers
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings that this cluster needs beyond the name server's address, as fields of `ClusterSettings`."""

    def __repr__(self) -> str:
        return f"<World {'stub' if self.is_stub else 'real'} {self.version} at {self.name_server}>"

    @cached_property
    def settings(self) -> ClusterSettings:
        """The settings of `cluster`, for variations."""
        return patient_settings(self.name_server, **self.options)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster, for the scenario's one thread."""
        return open_cluster(self.settings)

    @contextmanager
    def shared_cluster(self, handler: Handler | None = None) -> Iterator[Cluster]:
        """Open the cluster for many threads, with a handler of the brokers' own requests."""
        cluster = open_shared_cluster(self.settings, handler)
        try:
            yield cluster
        finally:
            cluster.close()

    def by_version(self, answers: Mapping[str, T]) -> T:
        """Return the entry whose key is a prefix of this cluster's version."""
        return next(answer for prefix, answer in answers.items() if self.version.startswith(prefix))

    # --- topics ------------------------------------------------------------------------------------------------------

    def make_topic(self, queue_count: int = 1, **config: Any) -> list[MessageQueue]:
        """Make a new topic with `queue_count` queues at each broker; return its queues once it is routed."""
        topic = fresh("topic")
        self.cluster.admin.create_topic(
            TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count, **config)
        )
        brokers = len(self.cluster.name_servers.fetch_brokers())
        until(lambda: len(self.route_names(topic)) == brokers, f"{topic} is routed")
        route = self.cluster.routes.route(topic)
        return list(route.readable or route.writable)

    def make_queue(self, **config: Any) -> MessageQueue:
        """Make a new topic and return its first queue."""
        return self.make_topic(**config)[0]

    def route_names(self, topic: str) -> tuple[str, ...]:
        """Return the brokers that the name servers list for a topic now."""
        try:
            return tuple(self.cluster.name_servers.fetch_route(topic).brokers)
        except RocketMQError:
            return ()

    def master(self, queue: MessageQueue) -> Address:
        """Return the address of a queue's master."""
        return self.cluster.routes.route(queue.topic).broker(queue.broker_name).master()

    def make_group(self) -> str:
        """Make a new group; brokers since 5.3 accept commits of known groups only."""
        group = fresh("group")
        self.cluster.admin.create_group(SubscriptionGroupConfig(group_name=group))
        return group

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, queue: MessageQueue, body: bytes = b"x", **properties: str) -> Receipt:
        """Store one message and wait until it can be pulled; TAGS and KEYS are properties like the user's own."""
        receipt = self.store(sending(queue, body, properties))
        self.await_end(queue, receipt.queue_offset + 1)
        return receipt

    def store(self, message: Sending) -> Receipt:
        """Send a message in its final form; retry, as Java does, when a loaded broker refuses what waited 200 ms."""
        deadline = Deadline.after(WAIT_TIMEOUT_S)
        while True:
            try:
                return self.cluster.messages.send(message)
            except SystemBusy:
                if deadline.expired:
                    raise
                time.sleep(0.1)

    def fill(self, queue: MessageQueue, count: int, *, size: int = 10, **properties: str) -> None:
        """Store messages whose bodies begin with their numbers from 0, in one batch, and wait as `send` does."""
        text = encode_properties(properties)
        entries = [BatchEntry(b"%d" % number + b"." * (size - len(str(number))), text) for number in range(count)]
        batch = replace(sending(queue, encode_batch(entries), {}), is_batch=True)
        receipt = self.store(batch)
        self.await_end(queue, receipt.queue_offset + count)

    def await_end(self, queue: MessageQueue, offset: int) -> None:
        """Wait until a queue ends at `offset` or later; brokers answer a send before they update its queue."""
        until(lambda: self.cluster.offsets.fetch_max([queue])[queue] >= offset, f"{queue} goes up to {offset}")

    def pull(self, queue: MessageQueue, offset: int = 0, **options: Any) -> PullOutcome:
        """Send one pull and return its outcome, whatever the response code."""
        request = self.cluster.brokers.locate(pull_request(queue, offset, **options))
        response = self.cluster.brokers.servers.ask(request, welcome=PULL_CODES)
        with located(request.where()):
            return read_outcome(response.command)

    def read(self, queue: MessageQueue, offset: int = 0, **options: Any) -> list[Record]:
        """Return the messages of one pull."""
        outcome = self.pull(queue, offset, **options)
        return decode_records(outcome.body) if outcome.status is PullStatus.FOUND else []

    def await_messages(self, queue: MessageQueue, count: int = 1) -> list[Record]:
        """Wait until a queue holds `count` messages; return its messages from the beginning."""
        until(lambda: len(self.read(queue)) >= count, f"{count} messages in {queue}")
        return self.read(queue)


def sending(queue: MessageQueue, body: bytes, properties: Mapping[str, str], sys_flag: int = 0) -> Sending:
    """Return one message in its final form."""
    return Sending(
        producer_group="flows_producer",
        queue=queue,
        body=body,
        properties=encode_properties(properties).decode(),
        born_timestamp_ms=now_ms(),
        sys_flag=sys_flag,
    )


def pull_request(
    queue: MessageQueue,
    offset: int,
    *,
    expression: str = "*",
    expression_type: str = "TAG",
    count: int = 32,
    wait_ms: int = 0,
    group: str = "TOOLS_CONSUMER",
) -> RoutedRequest:
    """Return a pull that carries its own subscription."""
    header = PullMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION_FLAG | (WAIT_FLAG if wait_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        subscription=expression,
        sub_version=0,
        expression_type=expression_type,
    )
    return RoutedRequest(queue.topic, queue.broker_name, header)


def patient_settings(name_server: str, **settings: Any) -> ClusterSettings:
    """Return settings for a loaded machine: short pauses between retries, long timeouts."""
    pause = Backoff(first_s=0.05, longest_s=1.0)
    return ClusterSettings(parse_addresses(name_server), **{"net": patient_net(), "pause": pause, **settings})


def patient_net(tls: TlsSettings | None = None) -> NetSettings:
    """Return connection settings with timeouts for a loaded machine."""
    return NetSettings(connect_timeout_s=10, request_timeout_s=10, tls=tls)


def fresh(kind: str) -> str:
    """Return a name that is used nowhere else."""
    return f"flows_{kind}_{uuid4().hex[:10]}"


def now_ms() -> int:
    """Return the wall time in the unit of message timestamps."""
    return time.time_ns() // 1_000_000


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition; fail if it stays false."""
    deadline = Deadline.after(WAIT_TIMEOUT_S)
    while not condition():
        assert not deadline.expired, f"not within {WAIT_TIMEOUT_S:g} s: {what}"
        time.sleep(0.02)
