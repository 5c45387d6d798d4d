"""Send the rows of a DataFrame as `encode` makes requests of them, one request at a time.

    landed = send_rows(world, EncodeSettings(topic="orders"), {"body": [b"a", b"b"]})
    landed[1].message_id, landed[1].queue, landed[1].queue_offset        # where row 1 is

Tests then read the messages with official clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from pyspark_rocketmq.cluster.messages import Receipt, Sending
from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import Encoder, EncodeSettings
from pyspark_rocketmq.model import MessageQueue, SendRequest
from pyspark_rocketmq.wire.batch import decode_batch
from pyspark_rocketmq.wire.properties import decode_properties
from tests.flows.world import World, fresh, now_ms

PRODUCER_GROUP = "flows_producer"


class Landed(NamedTuple):
    """A row that a broker has stored: its message id, its place, and the receipt of its request."""

    message_id: str
    queue: MessageQueue
    queue_offset: int
    receipt: Receipt
    is_batched: bool


def send_rows(
    world: World,
    settings: EncodeSettings,
    columns: Mapping[str, Any],
    *,
    identity: BatchIdentity | None = None,
    partition: int = 0,
) -> dict[int, Landed]:
    """Send the rows of these columns; return {row: where it landed}. Every row must be one that can be sent."""
    identity = identity or BatchIdentity(fresh("query"), "", 0)
    encoder = Encoder(settings, identity, partition, lambda topic: writable(world, topic))
    encoded = encoder.encode(pa.RecordBatch.from_pydict(dict(columns)))
    assert not encoded.faults
    return {row: each for request in encoded.requests for row, each in _landed(world, request)}


def writable(world: World, topic: str) -> Sequence[MessageQueue]:
    """Return the writable queues of a topic."""
    return world.cluster.routes.route(topic).writable


def ids_in(request: SendRequest) -> list[str]:
    """Return the message ids of the rows of a request."""
    if not request.is_batch:
        return [decode_properties(request.properties.encode())["UNIQ_KEY"]]
    return [decode_properties(entry.properties_text)["UNIQ_KEY"] for entry in decode_batch(request.body)]


def to_sending(world: World, request: SendRequest) -> Sending:
    """Return the request as `Messages.send` takes it; a request for any queue goes to the first one."""
    return Sending(
        producer_group=PRODUCER_GROUP,
        queue=request.queue or writable(world, request.topic)[0],
        body=bytes(request.body),
        properties=request.properties,
        born_timestamp_ms=now_ms(),
        sys_flag=request.sys_flag,
        flag=request.flag,
        is_batch=request.is_batch,
    )


def _landed(world: World, request: SendRequest) -> Iterator[tuple[int, Landed]]:
    receipt = world.store(to_sending(world, request))
    for place, (row, message_id) in enumerate(zip(request.rows, ids_in(request), strict=True)):
        yield row, Landed(message_id, receipt.queue, receipt.queue_offset + place, receipt, request.is_batch)
