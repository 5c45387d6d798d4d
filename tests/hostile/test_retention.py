"""Test reads during which retention deletes messages.

The first pull's response is lost, and later responses wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.errors import OffsetBeforeEarliest
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.source.partition import RangePartition, read_partition
from tests.source.driving import TOPIC, options_for, queue_of, rows_of

from .behaviours import at_pulls
from .server import Exchange, HostileCluster, ServerFaults

COUNT, MINIMUM = 4_000, 3_000


@pytest.fixture
def servers() -> Iterator[HostileCluster]:
    """Yield a stub with a queue whose minimum offset rises after the first response of a read was lost."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.fill(TOPIC, COUNT, size=100)
        with HostileCluster(stub, ServerFaults(at_pulls(lose_the_first(stub)))) as cluster:
            yield cluster


def lose_the_first(stub: StubBroker) -> Callable[[Exchange], Iterable[bytes]]:
    """Return a behaviour that leaves the first pull without response; a little later, retention deletes messages."""
    lost: list[Exchange] = []

    def respond(exchange: Exchange) -> Iterable[bytes]:
        if lost:
            return [exchange.honest()]
        lost.append(exchange)
        threading.Timer(0.2, stub.expire, (TOPIC, 0, MINIMUM)).start()
        return []

    return respond


def read(servers: HostileCluster, *, is_front_open: bool, held_s: float = 0.0, **given: str) -> list[int]:
    """Return the offsets of the rows that a read yields; keep the first record batch for `held_s` seconds."""
    options = options_for(servers, pullTimeoutMs="500", **given)
    offsets: list[int] = []
    for batch in read_partition(RangePartition((QueueRange(queue_of(0), 0, COUNT, is_front_open),)), options):
        time.sleep(0.0 if offsets else held_s)
        offsets += [row.offset for row in rows_of(batch)]
    return offsets


def test_messages_missing_behind_received_ones_fail_the_read(servers: HostileCluster) -> None:
    """If messages behind received ones were deleted, the read fails, even if it may start at any first message."""
    with pytest.raises(OffsetBeforeEarliest, match=f"offset 1024 is gone, the queue starts at {MINIMUM}"):
        read(servers, is_front_open=True)


def test_a_slow_consumer_is_not_a_stall(servers: HostileCluster) -> None:
    """If the consumer keeps rows longer than `pollTimeoutMs`, the read still succeeds, also after the minimum rose."""
    given = {"failOnDataLoss": "false", "pollTimeoutMs": "1000", "arrowBatchSize": "100"}
    offsets = read(servers, is_front_open=False, held_s=1.5, **given)
    assert offsets == [*range(32, 1024), *range(MINIMUM, COUNT)]
