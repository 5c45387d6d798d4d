"""Send rows with a plain socket: the frames of our engine, prepared before the clock starts.

This is the upper bound of the rate of any producer with one connection: only socket and broker are timed. Frames are
sent again and again until enough rows are sent. Responses are counted and not read; the caller checks at the broker
that all rows are stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import cycle
from typing import NamedTuple

from pyspark_rocketmq.cluster.messages import Sending, send_header
from pyspark_rocketmq.cluster.servers import unsigned_fields
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import Encoder, EncodeSettings
from pyspark_rocketmq.model import Address, MessageQueue, SendRequest
from pyspark_rocketmq.wire.session import Session
from tests.bench.raw_sockets import connect, exchange
from tests.bench.rows_to_write import ROWS, record_batches

WINDOW, WINDOW_BYTES = 64, 8 * 2**20
"""The requests and bytes that are in flight, as many as our engine has."""


class Sent(NamedTuple):
    """The number of rows that were sent, and the seconds until all were acknowledged."""

    rows: int
    seconds: float


class Frame(NamedTuple):
    """An encoded send request and the number of rows in it."""

    data: bytes
    rows: int


def send_raw(address: Address, queues: Sequence[MessageQueue], count: int, size: int, batch: int) -> Sent:
    """Send at least `count` rows with bodies of `size` bytes, up to `batch` in one request; return rows and seconds."""
    frames = list(_enough(prepared_frames(address, tuple(queues), size, batch), count))
    depth = min(WINDOW, WINDOW_BYTES // max(len(frame.data) for frame in frames))
    requests = [frame.data for frame in frames]
    with connect(address) as connection:
        began = time.perf_counter()
        exchange(connection, requests, depth)
        seconds = time.perf_counter() - began
    return Sent(sum(frame.rows for frame in frames), seconds)


def _enough(frames: Sequence[Frame], count: int) -> Iterator[Frame]:
    rows = 0
    for frame in cycle(frames):
        if rows >= count:
            return
        rows += frame.rows
        yield frame


@cache
def prepared_frames(address: Address, queues: tuple[MessageQueue, ...], size: int, batch: int) -> list[Frame]:
    """Return the frames of all rows in memory; they go to the queues in turn."""
    session, cluster, queue_of = Session(), ClusterSettings((address,)), cycle(queues)
    settings = EncodeSettings(topic=queues[0].topic, batch_rows=batch)
    encoder = Encoder(settings, BatchIdentity("raw sockets", "bench", 0), 0, lambda _: queues)
    requests = (request for each in record_batches(size, ROWS) for request in encoder.encode(each).requests)
    return [_frame(session, cluster, request, next(queue_of)) for request in requests]


def _frame(session: Session, settings: ClusterSettings, request: SendRequest, queue: MessageQueue) -> Frame:
    sending = Sending(
        producer_group="bench_raw",
        queue=queue,
        body=bytes(request.body),
        properties=request.properties,
        born_timestamp_ms=time.time_ns() // 10**6,
        is_batch=request.is_batch,
    )
    header = send_header(sending)
    _, data = session.request(header.code, unsigned_fields(settings, header, queue.broker_name), sending.body)
    return Frame(data, len(request.rows))
