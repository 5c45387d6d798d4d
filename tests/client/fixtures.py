"""Fixtures and helpers for tests of a group: a stub, its clients, and a clock that tests advance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.producer import Producer
from pyspark_rocketmq.client.pull_consumer import PullConsumer
from pyspark_rocketmq.client.results import SUCCESS, Consumed, Ordered
from pyspark_rocketmq.client.settings import (
    ConsumeFrom,
    ConsumerSettings,
    ProducerSettings,
    PullConsumerSettings,
    Rhythm,
)
from pyspark_rocketmq.cluster.cluster import Cluster, open_shared_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.pull.settings import Subscription

TIMEOUT_S = 30.0
TOPIC, GROUP, BROKER = "orders", "readers", "broker-a"

QUICK = Rhythm(
    heartbeat_s=1.0,
    route_s=0.2,
    rebalance_s=0.3,
    rebalance_soonest_s=0.02,
    first_persist_s=0.05,
    persist_s=0.05,
    first_lock_s=0.05,
    lock_s=0.2,
    dispatch_s=0.02,
    failure_pause_s=0.05,
    resubmit_s=0.05,
    reset_pause_s=0.05,
)
"""Periods of a fraction of a second, for tests in real time."""


class ManualClock:
    """A clock whose time changes only when a test advances it."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._waiting: set[threading.Condition] = set()

    def now_s(self) -> float:
        """Return the clock's monotonic time in seconds."""
        return self._now_s

    def wall_ms(self) -> int:
        """Return the clock's wall time in milliseconds since 1970."""
        return int((1_700_000_000 + self._now_s) * 1000)

    def wait(self, news: threading.Condition, seconds: float | None) -> None:
        """Wait on the condition until it is notified, or until a test advances the clock."""
        self._waiting.add(news)
        news.wait()

    def advance(self, seconds: float) -> None:
        """Advance the clock, and wake up all threads that wait on it."""
        self._now_s += seconds
        for news in tuple(self._waiting):
            with news:
                news.notify_all()

    def advance_until(self, condition: Callable[[], object]) -> None:
        """Advance the clock in small steps until the condition is true."""

        def step() -> object:
            self.advance(0.05)
            return condition()

        until(step)


def until(condition: Callable[[], object], what: str = "the condition came true") -> None:
    """Wait until the condition is true; fail with `what` if that takes too long."""
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, f"not within {TIMEOUT_S:g} s: {what}"
        time.sleep(0.005)


class Log:
    """A listener that records its messages and returns what the test's function `answer` returns."""

    def __init__(self, answer: Callable[[Sequence[ReceivedMessage]], Any] = lambda _: SUCCESS) -> None:
        self.answer = answer
        self.messages: list[ReceivedMessage] = []

    def __call__(self, messages: Sequence[ReceivedMessage]) -> Consumed:
        """Record the messages, and return the result of `answer`."""
        self.messages.extend(messages)
        answer: Consumed = self.answer(messages)
        return answer

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the recorded messages, in order of arrival."""
        return [message.body for message in self.messages]

    def wait_for(self, count: int) -> list[ReceivedMessage]:
        """Wait until at least `count` messages have arrived, and return all of them."""
        until(lambda: len(self.messages) >= count, f"{count} messages, not {self.bodies!r:.300}")
        return self.messages


class Group:
    """A stub with one topic, and functions to start clients of one group, which end with the test."""

    def __init__(self, stub: StubCluster, offset_dir: Path) -> None:
        self.stub = stub
        self.offset_dir = offset_dir
        self.cluster_settings = ClusterSettings(
            parse_addresses(stub.name_server),
            net=NetSettings(connect_timeout_s=5, request_timeout_s=5),
            retries=1,
            pause=Backoff(first_s=0.02, longest_s=0.1),
            route_max_age_s=0.2,
        )
        self._open = ExitStack()

    def close(self) -> None:
        """Close all clients that were started."""
        self._open.close()

    def settings(self, **given: Any) -> ConsumerSettings:
        """Return settings of a push consumer that subscribes to the topic; `given` replaces some of them."""
        return ConsumerSettings(**self._common(given))

    def pull_settings(self, **given: Any) -> PullConsumerSettings:
        """Return settings of a pull consumer that subscribes to the topic; `given` replaces some of them."""
        return PullConsumerSettings(**self._common(given))

    def concurrent(
        self, listener: Any, *, clock: Any = None, queue_listener: Any = None, hooks: Any = (), **given: Any
    ) -> PushConsumer:
        """Start a concurrent push consumer and return it."""
        settings, more = self.settings(**given), {"queue_listener": queue_listener, "hooks": hooks, "clock": clock}
        made = PushConsumer.concurrent(self.cluster_settings, settings, listener, **more)
        return self._open.enter_context(made)

    def orderly(self, listener: Any, *, clock: Any = None, hooks: Any = (), **given: Any) -> PushConsumer:
        """Start an orderly push consumer and return it."""
        settings = self.settings(**given)
        made = PushConsumer.orderly(self.cluster_settings, settings, listener, hooks=hooks, clock=clock)
        return self._open.enter_context(made)

    def pulling(self, **given: Any) -> PullConsumer:
        """Start a pull consumer and return it."""
        made = PullConsumer(self.cluster_settings, self.pull_settings(**given))
        return self._open.enter_context(made)

    def producer(self, check: Any = None, **given: Any) -> Producer:
        """Start a producer and return it."""
        settings = ProducerSettings(**{"group": "shop", **given})
        return self._open.enter_context(Producer(self.cluster_settings, settings, check=check))

    def cluster(self) -> Cluster:
        """Return a new connection to the cluster, for requests that need no member."""
        cluster = open_shared_cluster(self.cluster_settings)
        self._open.callback(cluster.close)
        return cluster

    def put(self, *bodies: str, queue_id: int | None = None, **properties: str) -> None:
        """Store messages directly in the stub."""
        tags = properties.pop("tags", "")
        for body in bodies:
            self.stub.put(TOPIC, body.encode(), queue_id=queue_id, tags=tags, properties=properties)

    def committed(self, topic: str = TOPIC) -> Mapping[int, int]:
        """Return the group's positions in a topic, by queue number."""
        return {q.queue_id: offset for q, offset in self.stub.offsets(GROUP).items() if q.topic == topic}

    def _common(self, given: dict[str, Any]) -> dict[str, Any]:
        common = {
            "group": GROUP,
            "subscriptions": {TOPIC: Subscription(given.pop("tags", "*"))},
            # The default, LAST_OFFSET, would skip messages that are sent before a member knows the end.
            "consume_from": ConsumeFrom.FIRST_OFFSET,
            "rhythm": QUICK,
            "local_offset_dir": self.offset_dir,
        }
        return {**common, **given}


def queue(number: int, topic: str = TOPIC) -> MessageQueue:
    """Return a queue of the stub's only broker, by its number."""
    return MessageQueue(topic, BROKER, number)


@pytest.fixture
def make_group(make_stub: Callable[..., StubCluster], tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """Yield a function that makes a stub and its group; it takes the stub's options."""
    groups: list[Group] = []

    def make(queues: int = 4, brokers: int = 1, **options: Any) -> Group:
        groups.append(Group(make_stub(brokers, **{"topics": {TOPIC: queues}, **options}), tmp_path))
        return groups[-1]

    yield make
    for group in groups:
        group.close()


@pytest.fixture
def group(make_group: Callable[..., Group]) -> Group:
    """Return a group with one broker and a topic of four queues."""
    return make_group()


__all__ = ["BROKER", "GROUP", "QUICK", "TOPIC", "Group", "Log", "ManualClock", "Ordered", "queue", "until"]
