"""Start our clients for tests with official ones, with short intervals, and close them after the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.producer import Producer, TransactionChecker
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
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import parse_addresses
from pyspark_rocketmq.net.settings import NetSettings
from pyspark_rocketmq.pull.settings import Subscription

QUICK = Rhythm(
    heartbeat_s=5,
    route_s=1,
    rebalance_s=1,
    rebalance_soonest_s=0.3,
    first_persist_s=0.3,
    persist_s=0.3,
    lock_s=1,
    reset_pause_s=1,
)
Answer = Callable[[Sequence[ReceivedMessage]], Consumed | Ordered]


class Log:
    """A listener that records messages."""

    def __init__(self, answer: Answer = lambda _: SUCCESS) -> None:
        self.messages: list[ReceivedMessage] = []
        self._answer = answer

    def __call__(self, messages: Sequence[ReceivedMessage]) -> Any:
        """Record the messages; return what the test's function returns for them, SUCCESS by default."""
        self.messages.extend(messages)
        return self._answer(messages)

    @property
    def bodies(self) -> list[str]:
        """The bodies of all messages so far."""
        return [message.body.decode() for message in self.messages]


class Ours:
    """Our clients, connected to one server and for one topic."""

    def __init__(self, name_server: str, topic: str, settings: ClusterSettings | None = None) -> None:
        self.topic = topic
        net = NetSettings(connect_timeout_s=10, request_timeout_s=10)
        self.settings = settings or ClusterSettings(parse_addresses(name_server), net=net)
        self._open = ExitStack()

    def close(self) -> None:
        """Close all clients."""
        self._open.close()

    def member(self, group: str, listener: Any, *, orderly: bool = False, **given: Any) -> PushConsumer:
        """Return a started push consumer of a group, concurrent by default."""
        settings = ConsumerSettings(
            **{
                "group": group,
                "subscriptions": {self.topic: Subscription()},
                "consume_from": ConsumeFrom.FIRST_OFFSET,
                "rhythm": QUICK,
                **given,
            }
        )
        make = PushConsumer.orderly if orderly else PushConsumer.concurrent
        return self._open.enter_context(make(self.settings, settings, listener))

    def pulling(self, group: str, **given: Any) -> PullConsumer:
        """Return a started pull consumer of a group."""
        common = {"group": group, "consume_from": ConsumeFrom.FIRST_OFFSET, "rhythm": QUICK}
        return self._open.enter_context(PullConsumer(self.settings, PullConsumerSettings(**{**common, **given})))

    def producer(self, group: str = "ours", check: TransactionChecker | None = None) -> Producer:
        """Return a started producer; `check` decides about open transactions."""
        settings = ProducerSettings(group=group, send_timeout_s=20)
        return self._open.enter_context(Producer(self.settings, settings, check=check))

    def cluster(self) -> Cluster:
        """Return the cluster as a client that belongs to no group."""
        cluster = open_shared_cluster(self.settings)
        self._open.callback(cluster.close)
        return cluster


def committed(ours: Ours, cluster: Cluster, group: str) -> int:
    """Return the sum of a group's committed offsets in the topic, or 0 if there is an error."""
    queues = cluster.routes.route(ours.topic).readable
    try:
        return sum(cluster.offsets.fetch_committed(group, queues).values())
    except RocketMQError:
        return 0
