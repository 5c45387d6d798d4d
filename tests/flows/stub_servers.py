"""Start stubs for scenarios, and stop and start their brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broker_stub import Settings, StubCluster
from pyspark_rocketmq.model import MessageQueue

from .half_messages import CHECK_MAX
from .world import World

QUICK = Settings(transaction_timeout_ms=1000, transaction_check_interval_ms=1000, lock_lease_ms=5000)
QUICK_CHECKS = replace(
    QUICK,
    transaction_timeout_ms=100,
    transaction_check_interval_ms=100,
    transaction_check_max=CHECK_MAX,
    transaction_op_batch_interval_ms=20,
)
RELEASES = ("5.3.3", "4.9.7")


class StubServers:
    """The brokers of a stub, as scenarios control them: stop, start, replicate, expire."""

    def __init__(self, stub: StubCluster) -> None:
        self._stub = stub

    def stop(self, broker_name: str) -> None:
        """Stop a master without a shutdown, as a crash does."""
        self._stub.faults.broker_down(broker_name, 0)

    def start(self, broker_name: str) -> None:
        """Start a stopped master, with the messages it had stored."""
        self._stub.faults.broker_up(broker_name, 0)

    def replicate(self, queues: Sequence[MessageQueue]) -> None:
        """Do nothing: slaves of the stub always have all messages."""

    def expire(self, queue: MessageQueue) -> int:
        """Delete the oldest messages of a queue, as retention does; return the new minimum offset."""
        minimum = len(self._stub.messages(queue.topic, queue.queue_id, broker=queue.broker_name)) // 2
        self._stub.expire(queue.topic, queue.queue_id, minimum, broker=queue.broker_name)
        return minimum


def stub_world(stub: StubCluster, release: str = "5.3.3", **options: Any) -> World:
    """Return the `World` of scenarios that run on this stub."""
    return World(stub.name_server, release, True, StubServers(stub), options)


def start_stub(release: str = "5.3.3", *shape: int, settings: Settings = QUICK, **options: Any) -> StubCluster:
    """Start a stub of one release; its timers are as short as those of the tests' real brokers."""
    return StubCluster(*shape, emulate=release, settings=settings, **options)
