"""Group rows into send requests, and write their bodies.

A batch message holds rows of one topic and one queue, without delay, up to a number of rows and a size. It is
uncompressed, and its own properties are only WAIT, because brokers up to 5.3.3 append them to those of every message in
it. All other rows are sent one by one. Requests to one queue are in the order of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model import MessageQueue, SendRequest
from ..wire.compression import compress
from ..wire.properties import MAX_BATCH_PROPERTIES_BYTES
from .arrays import Integers, Mask, buffer_of, fixed_texts, hash_texts, join, mix, offsets_of, sizes_of, to_arrow
from .columns import Columns, read_columns
from .faults import Fault, find_faults
from .ids import BatchIdentity, ids_by_content, ids_by_row_id
from .placing import ANY_QUEUE, ListQueues, Placing, place_rows
from .settings import EncodeSettings
from .texts import property_texts, with_id

__all__ = ["BATCH_PROPERTIES", "EncodeSettings", "Encoded", "Encoder"]

BATCH_PROPERTIES = "WAIT\x01true\x02"
_ENTRY_HEAD = np.dtype([("total", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body", ">i4")])
_ENTRY_OVERHEAD = _ENTRY_HEAD.itemsize + 2
_TOPIC, _PROPERTIES, _BODY, _BROKER = 3, 4, 5, 6
"""Streams of hashes, different from those of row ids."""
_FLAG, _QUEUE = np.uint64(0xD1B54A32D192ED03), np.uint64(0x8CB92BA72F3D8DD7)
"""The numbers of a column are combined with its constant, so that a flag cannot pass for the queue of that number."""


class Encoded(NamedTuple):
    """The send requests for some rows; and the rows that cannot be sent, as {number within the partition: fault}."""

    requests: list[SendRequest]
    faults: dict[int, Fault]


class Encoder:
    """Encodes the record batches of one task, which must come in their order, because rows are numbered across them."""

    def __init__(
        self, settings: EncodeSettings, identity: BatchIdentity, partition: int, queues_of: ListQueues
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._partition = partition
        self._queues_of = queues_of
        self._next_number = 0

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """Return the requests that send the rows of a record batch. Raise `ColumnError` if it cannot be written."""
        numbers = np.arange(self._next_number, self._next_number + batch.num_rows, dtype=np.int64)
        self._next_number += batch.num_rows
        return self._encode(batch, numbers)

    def _encode(self, batch: pa.RecordBatch, numbers: Integers) -> Encoded:
        settings = self._settings
        columns = read_columns(batch, settings.topic, key_is_sharding_key=settings.key_is_sharding_key)
        properties = property_texts(columns)
        faults = find_faults(columns, properties, settings.max_body_bytes)
        if not faults:
            placing = place_rows(columns, self._queues_of, by_key=settings.places_by_key)
            faults = placing.faults
        if faults:
            return self._encode_rest(batch, numbers, faults)
        texts = with_id(self._ids(columns, numbers, properties), properties)
        return Encoded(list(_Rows(settings, columns, texts, placing, numbers).requests()), {})

    def _encode_rest(self, batch: pa.RecordBatch, numbers: Integers, faults: dict[int, Fault]) -> Encoded:
        """Encode the rows of a batch that are not in `faults`, which has the form {index in the batch: fault}.

        The result's faults are these and those found in the remaining rows, by the row's number within the partition.
        """
        good = np.ones(batch.num_rows, bool)
        good[list(faults)] = False
        rest = self._encode(batch.filter(to_arrow(good)), numbers[good])
        return Encoded(rest.requests, {int(numbers[row]): fault for row, fault in faults.items()} | rest.faults)

    def _ids(self, columns: Columns, numbers: Integers, properties: pa.Array) -> pa.Array:
        """Return the message ids of the rows; a row whose `rowId` is null or empty gets an id made from its content."""
        if columns.row_id is None:
            return self._ids_by_content(columns, numbers, properties)
        ids = ids_by_row_id(self._identity, columns.row_id)
        has_own = sizes_of(columns.row_id) > 0
        if has_own.all():
            return ids
        return pc.if_else(to_arrow(has_own), ids, self._ids_by_content(columns, numbers, properties))

    def _ids_by_content(self, columns: Columns, numbers: Integers, properties: pa.Array) -> pa.Array:
        topics = columns.topic
        if isinstance(topics, pa.Scalar):
            topics = pa.array([topics.as_py()], topics.type)
        # Each hash is mixed with the next value, so that no part of one column can pass for a part of another.
        contents = mix(hash_texts(topics, _TOPIC) ^ hash_texts(properties, _PROPERTIES))
        contents = mix(contents ^ hash_texts(columns.body, _BODY))
        if columns.flag is not None:
            contents = mix(contents ^ columns.flag.astype(np.uint64) ^ _FLAG)
        if columns.queues is not None:
            contents = mix(contents ^ columns.queues.numbers.astype(np.uint64) ^ _QUEUE)
            if columns.queues.broker_names is not None:
                contents = mix(contents ^ hash_texts(columns.queues.broker_names, _BROKER))
        return ids_by_content(self._identity, self._partition, numbers, contents)


class _Rows:
    """Rows without faults, in the order in which they are sent."""

    def __init__(
        self, settings: EncodeSettings, columns: Columns, properties: pa.Array, placing: Placing, numbers: Integers
    ) -> None:
        self._settings = settings
        self._placing = placing
        places = placing.topic_of << 32 | (placing.queue_of + 1)
        order = np.argsort(places, kind="stable")
        self._places, self._numbers = places[order], numbers[order]
        flags = np.zeros(columns.count, np.int64) if columns.flag is None else columns.flag
        self._flags = flags[order]
        entry_sizes = sizes_of(columns.body) + sizes_of(properties) + _ENTRY_OVERHEAD
        is_large = (entry_sizes > settings.batch_bytes) | (sizes_of(properties) > MAX_BATCH_PROPERTIES_BYTES)
        self._is_single = (_is_delayed(columns) | is_large)[order]
        if settings.batch_rows == 1:
            self._is_single[:] = True
        in_order = to_arrow(order)
        is_sorted = bool((order[1:] > order[:-1]).all())
        self._bodies = columns.body if is_sorted else columns.body.take(in_order)
        self._properties = properties if is_sorted else properties.take(in_order)
        self._entries = self._write_entries()

    def requests(self) -> Iterator[SendRequest]:
        """Yield the requests; the requests to one queue are in the order of the rows that go there."""
        for first, last in self._runs():
            yield from self._singles(first, last) if self._is_single[first] else self._batches(first, last)

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Yield ranges (first, end) of rows with one topic and queue that are all sent singly, or all in batches."""
        changes = (np.diff(self._places) != 0) | (self._is_single[1:] != self._is_single[:-1])
        edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(self._places)]
        return pairwise(edges) if len(self._places) else iter(())

    def _batches(self, first: int, last: int) -> Iterator[SendRequest]:
        """Yield requests for the rows of a run, as many rows in each as fit."""
        topic, queue = self._target(first)
        offsets, data = offsets_of(self._entries), memoryview(buffer_of(self._entries))
        while first < last:
            begin, end = int(offsets[first]), min(last, first + self._settings.batch_rows)
            limit = begin + self._settings.batch_bytes
            if offsets[end] > limit:
                fitting = int(np.searchsorted(offsets, limit, "right")) - 1
                end = max(fitting, first + 1)
            body = data[begin : int(offsets[end])]
            yield SendRequest(topic, queue, body, BATCH_PROPERTIES, self._numbers[first:end], is_batch=True)
            first = end

    def _singles(self, first: int, last: int) -> Iterator[SendRequest]:
        """Yield a request for each row of a run."""
        topic, queue = self._target(first)
        numbers, flags = self._numbers, self._flags[first:last].tolist()
        bodies, properties = _slices(self._bodies, first, last), _slices(self._properties, first, last)
        for row, body, text, flag in zip(range(first, last), bodies, properties, flags, strict=True):
            body, sys_flag = self._pack(body)
            rows = numbers[row : row + 1]
            yield SendRequest(topic, queue, body, str(text, "utf-8"), rows, False, flag, sys_flag)

    def _pack(self, body: memoryview) -> tuple[memoryview, int]:
        """Return a body as it is sent, compressed if it is large, with the system flag that says so."""
        if len(body) < self._settings.compress_over_bytes:
            return body, 0
        compression = self._settings.compression
        return memoryview(compress(bytes(body), compression)), compression.sys_flag

    def _target(self, row: int) -> tuple[str, MessageQueue | None]:
        code, place = divmod(int(self._places[row]), 1 << 32)
        queue = None if place - 1 == ANY_QUEUE else self._placing.queues[code][place - 1]
        return self._placing.topics[code], queue

    def _write_entries(self) -> pa.Array:
        """Return each row in the form of a message within a batch message; empty texts if every row is sent singly."""
        body_sizes, property_sizes = sizes_of(self._bodies), sizes_of(self._properties)
        heads = np.zeros(len(self._bodies), _ENTRY_HEAD)
        heads["total"] = body_sizes + property_sizes + _ENTRY_OVERHEAD
        heads["flag"], heads["body"] = self._flags, body_sizes
        if self._is_single.all():
            return fixed_texts(np.zeros((len(heads), 0), np.uint8))
        lengths = fixed_texts(property_sizes.astype(">i2"))
        return join(fixed_texts(heads), self._bodies, lengths, self._properties)


def _slices(texts: pa.Array, first: int, last: int) -> Iterator[memoryview]:
    """Yield the bytes of the texts in `[first, last)`."""
    data, offsets = memoryview(buffer_of(texts)), offsets_of(texts)[first : last + 1].tolist()
    return (data[begin:end] for begin, end in pairwise(offsets))


def _is_delayed(columns: Columns) -> Mask:
    delayed = np.zeros(columns.count, bool)
    for numbers in (columns.delay_level, columns.deliver_ms):
        if numbers is not None:
            delayed |= numbers != 0
    return delayed
