"""Read a topic with plain sockets, which send the pulls of our engine and find responses by their length only.

This is the upper bound of the rate of any client. The requests are encoded before the clock starts, so that only
sockets and broker are timed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import to_fields
from pyspark_rocketmq.wire.session import Session
from tests.flows.world import pull_request

PULL_COUNT = 32
BUFFER_BYTES = 4 * 2**20
TIMEOUT_S = 60


class Drained(NamedTuple):
    """The number of messages and bytes that were received, and the seconds that it took."""

    messages: int
    byte_count: int
    seconds: float


def drain_raw(address: Address, queues: Sequence[MessageQueue], per_queue: int, depth: int, each: int) -> Drained:
    """Read `per_queue` messages of each queue, with `depth` pulls in flight and `each` messages per response."""
    requests = list(_requests(queues, per_queue, each))
    with connect(address) as connection:
        began = time.perf_counter()
        byte_count = exchange(connection, requests, depth)
    return Drained(len(queues) * per_queue, byte_count, time.perf_counter() - began)


def connect(address: Address) -> socket.socket:
    """Return a connection with a large receive buffer."""
    connection = socket.create_connection(address, TIMEOUT_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exchange(connection: socket.socket, requests: Sequence[bytes], depth: int) -> int:
    """Send all requests, `depth` in flight, and receive all responses; return the number of received bytes."""
    memory = memoryview(bytearray(BUFFER_BYTES))
    sent = answered = kept = byte_count = 0
    while answered < len(requests):
        if sent < len(requests) and depth - (sent - answered) >= max(1, depth // 4):
            last = min(len(requests), answered + depth)
            connection.sendall(b"".join(requests[sent:last]))
            sent = last
        received = connection.recv_into(memory[kept:])
        assert received, "the broker closed the connection"
        byte_count += received
        count, walked = _walk(memory, kept + received)
        answered += count
        memory[: kept + received - walked] = memory[walked : kept + received]
        kept += received - walked
    return byte_count


def _walk(memory: memoryview, end: int) -> tuple[int, int]:
    """Return the number of complete responses in the first `end` bytes of the buffer, and where the last one ends."""
    count = at = 0
    while end - at >= 4:
        size = 4 + int.from_bytes(memory[at : at + 4], "big")
        if size > end - at:
            break
        at += size
        count += 1
    return count, at


def _requests(queues: Sequence[MessageQueue], per_queue: int, each: int) -> Iterator[bytes]:
    """Yield the encoded pulls; for each offset the pulls of all queues come one after another."""
    session = Session()
    templates = [to_fields(pull_request(queue, 0, count=each).header) for queue in queues]
    for offset in range(0, per_queue, each):
        for template in templates:
            _, data = session.request(RequestCode.PULL_MESSAGE, {**template, "queueOffset": str(offset)})
            yield bytes(data)
