"""Pull a whole topic over one inline connection, with a given number of pulls in flight.

The ends of the queues are known, so the pulls of offset s of all queues, then of s + 32, and so on, are sent without
waiting for next offsets. Of a response only the headers are read; messages are counted by offsets, not decoded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.net.connection import Connection
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import to_fields
from tests.flows.world import pull_request

PULL_COUNT = 32
_DRAIN_S = 600


class Drained(NamedTuple):
    """The number of messages and bytes that were pulled, and the time that it took."""

    messages: int
    byte_count: int
    seconds: float
    cpu_seconds: float


def drain(connection: Connection, queues: list[MessageQueue], per_queue: int, depth: int) -> Drained:
    """Pull `per_queue` messages of each queue, with `depth` pulls in flight; return their number, bytes and time."""
    pulls, deadline = _pulls(queues, per_queue), Deadline.after(_DRAIN_S)
    asked: dict[int, int] = {}
    messages = byte_count = 0
    began, cpu_began = time.perf_counter(), time.process_time()
    while _refill(connection, pulls, asked, depth):
        opaque, answer = connection.next_reply(deadline)
        fields = answer.fields or {}
        assert answer.code == ResponseCode.SUCCESS, f"{answer.code} {answer.remark}"
        messages += int(fields["nextBeginOffset"]) - asked.pop(opaque)
        byte_count += len(answer.body)
    return Drained(messages, byte_count, time.perf_counter() - began, time.process_time() - cpu_began)


def _refill(
    connection: Connection, pulls: Iterator[tuple[int, dict[str, str]]], asked: dict[int, int], depth: int
) -> bool:
    """Send pulls until `depth` are in flight; return whether any is in flight. `asked` maps opaque to offset."""
    while len(asked) < depth and (pull := next(pulls, None)):
        offset, fields = pull
        asked[connection.submit(RequestCode.PULL_MESSAGE, fields)] = offset
    return bool(asked)


def _pulls(queues: list[MessageQueue], per_queue: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (offset, header fields) of every pull; for each offset the pulls of all queues come one after another."""
    templates = [to_fields(pull_request(queue, 0, count=PULL_COUNT).header) for queue in queues]
    for offset in range(0, per_queue, PULL_COUNT):
        for template in templates:
            yield offset, {**template, "queueOffset": str(offset)}
