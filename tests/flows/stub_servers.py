"""How does a scenario lay hands on the stub's servers?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_stub import Settings, StubCluster
from pyspark_rocketmq.model import MessageQueue

from .world import World

QUICK = Settings(transaction_timeout_ms=1000, transaction_check_interval_ms=1000, lock_lease_ms=5000)
RELEASES = ("5.3.3", "4.9.7")


class StubServers:
    """A stub's brokers in the hands of a test."""

    def __init__(self, stub: StubCluster) -> None:
        self._stub = stub

    def stop(self, broker_name: str) -> None:
        """End a master, as a crash does."""
        self._stub.faults.broker_down(broker_name, 0)

    def start(self, broker_name: str) -> None:
        """Bring a master back with what it had stored."""
        self._stub.faults.broker_up(broker_name, 0)

    def replicate(self, queues: Sequence[MessageQueue]) -> None:
        """The stub's slaves hold everything at once."""

    def expire(self, queue: MessageQueue) -> int:
        """Let retention take the oldest messages of a queue that has some; returns the new minimum offset."""
        minimum = len(self._stub.messages(queue.topic, queue.queue_id, broker=queue.broker_name)) // 2
        self._stub.expire(queue.topic, queue.queue_id, minimum, broker=queue.broker_name)
        return minimum


def stub_world(stub: StubCluster, release: str = "5.3.3", **options: Any) -> World:
    """Our client core in front of a stub."""
    return World(stub.name_server, release, True, StubServers(stub), options)


def start_stub(release: str = "5.3.3", *shape: int, **options: Any) -> StubCluster:
    """A stub as quick as the real brokers of the suite."""
    return StubCluster(*shape, emulate=release, settings=QUICK, **options)
