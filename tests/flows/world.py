"""Define `World`, through which scenarios use the cluster under test.

A `World` is our client core connected to one cluster: the stub or a real one, of some version. Scenarios are plain
functions of a `World`. Each makes topics and groups with new names, so all scenarios share one cluster. A scenario
states the differences between versions as data (`by_version`), and stops or starts servers through `Servers`.
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
    """The servers of a cluster, as scenarios control them: stop, start, replicate, expire."""

    def stop(self, broker_name: str) -> None:
        """Stop a master without a shutdown, as a crash does."""

    def start(self, broker_name: str) -> None:
        """Start a stopped master, with the messages it had stored."""

    def replicate(self, queues: Sequence[MessageQueue]) -> None:
        """Wait until the slaves hold all messages of these queues."""

    def expire(self, queue: MessageQueue) -> int:
        """Delete the oldest messages of a queue, as retention does; return the new minimum offset."""


@dataclass(frozen=True)
class World:
    """Our client core connected to the cluster under test."""

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
        """The settings of `cluster`, from which scenarios derive others."""
        return patient_settings(self.name_server, **self.options)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster, for use in the scenario's own thread only."""
        return open_cluster(self.settings)

    @contextmanager
    def shared_cluster(self, handler: Handler | None = None) -> Iterator[Cluster]:
        """Open the cluster for many threads; `handler` gets the requests that brokers send to the client."""
        cluster = open_shared_cluster(self.settings, handler)
        try:
            yield cluster
        finally:
            cluster.close()

    def by_version(self, answers: Mapping[str, T]) -> T:
        """Return the value whose key, such as "4.9" or "5", begins this cluster's version."""
        return next(answer for prefix, answer in answers.items() if self.version.startswith(prefix))

    # --- topics ------------------------------------------------------------------------------------------------------

    def make_topic(self, queue_count: int = 1, **config: Any) -> list[MessageQueue]:
        """Make a new topic with `queue_count` queues at each broker; wait for its route, and return its queues."""
        topic = fresh("topic")
        self.cluster.admin.create_topic(
            TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count, **config)
        )
        brokers = len(self.cluster.name_servers.fetch_brokers())
        until(lambda: len(self.route_names(topic)) == brokers, f"{topic} is routed")
        route = self.cluster.routes.route(topic)
        return list(route.readable or route.writable)

    def make_queue(self, **config: Any) -> MessageQueue:
        """Make a new topic of one queue per broker; return the first queue."""
        return self.make_topic(**config)[0]

    def route_names(self, topic: str) -> tuple[str, ...]:
        """Return the names of the brokers in a topic's route now; none if the topic has no route."""
        try:
            return tuple(self.cluster.name_servers.fetch_route(topic).brokers)
        except RocketMQError:
            return ()

    def master(self, queue: MessageQueue) -> Address:
        """Return the address of a queue's master."""
        return self.cluster.routes.route(queue.topic).broker(queue.broker_name).master()

    def make_group(self) -> str:
        """Create a new consumer group, as brokers since 5.3 require before a commit; return its name."""
        group = fresh("group")
        self.cluster.admin.create_group(SubscriptionGroupConfig(group_name=group))
        return group

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, queue: MessageQueue, body: bytes = b"x", **properties: str) -> Receipt:
        """Send one message with these properties and wait until it can be pulled; return its receipt."""
        receipt = self.store(sending(queue, body, properties))
        self.await_end(queue, receipt.queue_offset + 1)
        return receipt

    def store(self, message: Sending) -> Receipt:
        """Send a message; return its receipt. If a loaded broker refuses the message, send it again, as Java does."""
        deadline = Deadline.after(WAIT_TIMEOUT_S)
        while True:
            try:
                return self.cluster.messages.send(message)
            except SystemBusy:
                if deadline.expired:
                    raise
                time.sleep(0.1)

    def fill(self, queue: MessageQueue, count: int, *, size: int = 10, **properties: str) -> None:
        """Send `count` messages as one batch and wait until they can be pulled; each body begins with its number."""
        text = encode_properties(properties)
        entries = [BatchEntry(b"%d" % number + b"." * (size - len(str(number))), text) for number in range(count)]
        batch = replace(sending(queue, encode_batch(entries), {}), is_batch=True)
        receipt = self.store(batch)
        self.await_end(queue, receipt.queue_offset + count)

    def await_end(self, queue: MessageQueue, offset: int) -> None:
        """Wait until a queue ends at `offset` or later; a sent message may be pulled only after that."""
        until(lambda: self.cluster.offsets.fetch_max([queue])[queue] >= offset, f"{queue} goes up to {offset}")

    def pull(self, queue: MessageQueue, offset: int = 0, **options: Any) -> PullOutcome:
        """Send one pull; return its outcome, also for response codes other than success."""
        request = self.cluster.brokers.locate(pull_request(queue, offset, **options))
        response = self.cluster.brokers.servers.ask(request, welcome=PULL_CODES)
        with located(request.where()):
            return read_outcome(response.command)

    def read(self, queue: MessageQueue, offset: int = 0, **options: Any) -> list[Record]:
        """Send one pull; return its messages, or none if there are none at this offset."""
        outcome = self.pull(queue, offset, **options)
        return decode_records(outcome.body) if outcome.status is PullStatus.FOUND else []

    def await_messages(self, queue: MessageQueue, count: int = 1) -> list[Record]:
        """Wait until a queue has `count` messages; return its messages from offset 0 on."""
        until(lambda: len(self.read(queue)) >= count, f"{count} messages in {queue}")
        return self.read(queue)


def sending(queue: MessageQueue, body: bytes, properties: Mapping[str, str], sys_flag: int = 0) -> Sending:
    """Return a message to this queue with all the fields that the client core needs to send it."""
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
    """Return a pull request that contains its subscription, so that it needs no heartbeat before it."""
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
    """Return client settings for tests on a loaded machine: short pauses between retries, long timeouts."""
    pause = Backoff(first_s=0.05, longest_s=1.0)
    return ClusterSettings(parse_addresses(name_server), **{"net": patient_net(), "pause": pause, **settings})


def patient_net(tls: TlsSettings | None = None) -> NetSettings:
    """Return connection settings with long timeouts, for tests on a loaded machine."""
    return NetSettings(connect_timeout_s=10, request_timeout_s=10, tls=tls)


def fresh(kind: str) -> str:
    """Return a name with this prefix that no other test uses."""
    return f"flows_{kind}_{uuid4().hex[:10]}"


def now_ms() -> int:
    """Return the current wall-clock time in milliseconds, as in message timestamps."""
    return time.time_ns() // 1_000_000


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition returns true; fail with `what` as text after the timeout."""
    deadline = Deadline.after(WAIT_TIMEOUT_S)
    while not condition():
        assert not deadline.expired, f"not within {WAIT_TIMEOUT_S:g} s: {what}"
        time.sleep(0.02)
