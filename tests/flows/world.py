"""What does a scenario know of the cluster under test?

A `World` is our client core in front of one cluster: the stub or a real one, of some version. Scenarios are plain
functions over it that take fresh names, so all of them share one cluster. What versions do differently stands in
the scenario as data (`by_version`); what only the owner of the servers can do goes through `Servers`.
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

PATIENCE_S = 50.0
WAIT_FLAG, SUBSCRIPTION_FLAG = 2, 4
PULL_CODES = frozenset(int(status) for status in PullStatus)


class Servers(Protocol):
    """What the owner of the servers can do to them."""

    def stop(self, broker_name: str) -> None:
        """End a master, as a crash does."""

    def start(self, broker_name: str) -> None:
        """Bring a master back with what it had stored."""

    def replicate(self, queues: Sequence[MessageQueue]) -> None:
        """Wait until the slaves hold what the masters hold of these queues."""

    def expire(self, queue: MessageQueue) -> int:
        """Let retention take the oldest messages of a queue that has some; returns the new minimum offset."""


@dataclass(frozen=True)
class World:
    """Our client core in front of the cluster under test."""

    name_server: str
    version: str
    is_stub: bool
    servers: Servers
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the cluster asks of its clients beyond the name server's address, as fields of `ClusterSettings`."""

    def __repr__(self) -> str:
        return f"<World {'stub' if self.is_stub else 'real'} {self.version} at {self.name_server}>"

    @cached_property
    def settings(self) -> ClusterSettings:
        """The cluster's settings, for variations."""
        return patient_settings(self.name_server, **self.options)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster, for the scenario's one thread."""
        return open_cluster(self.settings)

    @contextmanager
    def shared_cluster(self, handler: Handler | None = None) -> Iterator[Cluster]:
        """The cluster for many threads, with a handler of the brokers' own requests."""
        cluster = open_shared_cluster(self.settings, handler)
        try:
            yield cluster
        finally:
            cluster.close()

    def by_version(self, answers: Mapping[str, T]) -> T:
        """The entry whose key begins this version's number."""
        return next(answer for prefix, answer in answers.items() if self.version.startswith(prefix))

    # --- topics ------------------------------------------------------------------------------------------------------

    def make_topic(self, queue_count: int = 1, **config: Any) -> list[MessageQueue]:
        """The queues of a topic of our own, once it is routed; so many at each broker."""
        topic = fresh("topic")
        self.cluster.admin.create_topic(
            TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count, **config)
        )
        brokers = len(self.cluster.name_servers.fetch_brokers())
        until(lambda: len(self.route_names(topic)) == brokers, f"{topic} is routed")
        route = self.cluster.routes.route(topic)
        return list(route.readable or route.writable)

    def make_queue(self, **config: Any) -> MessageQueue:
        """The first queue of a topic of our own."""
        return self.make_topic(**config)[0]

    def route_names(self, topic: str) -> tuple[str, ...]:
        """The brokers that the name servers know to hold a topic now."""
        try:
            return tuple(self.cluster.name_servers.fetch_route(topic).brokers)
        except RocketMQError:
            return ()

    def master(self, queue: MessageQueue) -> Address:
        """Where the master of a queue listens."""
        return self.cluster.routes.route(queue.topic).broker(queue.broker_name).master()

    def make_group(self) -> str:
        """A group of our own; brokers since 5.3 take commits of groups they know only."""
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
        """Send what is in its final form; a loaded broker refuses what waited 200 ms, and is asked again as by Java."""
        deadline = Deadline.after(PATIENCE_S)
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
        """Wait until a queue goes as far; brokers answer a send before they enter it into its queue."""
        until(lambda: self.cluster.offsets.fetch_max([queue])[queue] >= offset, f"{queue} goes up to {offset}")

    def pull(self, queue: MessageQueue, offset: int = 0, **wish: Any) -> PullOutcome:
        """One pull, whatever it comes to."""
        request = self.cluster.brokers.locate(pull_errand(queue, offset, **wish))
        answer = self.cluster.brokers.servers.ask(request, welcome=PULL_CODES)
        with located(request.where()):
            return read_outcome(answer.command)

    def read(self, queue: MessageQueue, offset: int = 0, **wish: Any) -> list[Record]:
        """The messages that one pull finds."""
        outcome = self.pull(queue, offset, **wish)
        return decode_records(outcome.body) if outcome.status is PullStatus.FOUND else []

    def await_messages(self, queue: MessageQueue, count: int = 1) -> list[Record]:
        """The messages of a queue from its beginning, as soon as there are so many."""
        until(lambda: len(self.read(queue)) >= count, f"{count} messages in {queue}")
        return self.read(queue)


def sending(queue: MessageQueue, body: bytes, properties: Mapping[str, str], sys_flag: int = 0) -> Sending:
    """One message in its final form."""
    return Sending(
        producer_group="flows_producer",
        queue=queue,
        body=body,
        properties=encode_properties(properties).decode(),
        born_timestamp_ms=now_ms(),
        sys_flag=sys_flag,
    )


def pull_errand(
    queue: MessageQueue,
    offset: int,
    *,
    expression: str = "*",
    expression_type: str = "TAG",
    count: int = 32,
    wait_ms: int = 0,
    group: str = "TOOLS_CONSUMER",
) -> RoutedRequest:
    """A pull that carries its own subscription."""
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
    """Settings for a loaded machine: quick to try again, slow to give up."""
    pause = Backoff(first_s=0.05, longest_s=1.0)
    return ClusterSettings(parse_addresses(name_server), **{"net": patient_net(), "pause": pause, **settings})


def patient_net(tls: TlsSettings | None = None) -> NetSettings:
    """Connections that wait long for a loaded machine."""
    return NetSettings(connect_timeout_s=10, request_timeout_s=10, tls=tls)


def fresh(kind: str) -> str:
    """A name nobody else uses."""
    return f"flows_{kind}_{uuid4().hex[:10]}"


def now_ms() -> int:
    """The wall time as messages carry it."""
    return time.time_ns() // 1_000_000


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, and fail when it does not come true."""
    deadline = Deadline.after(PATIENCE_S)
    while not condition():
        assert not deadline.expired, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)
