"""Read thousands of stored records at once: find them, read their fixed fields, and make columns of the plain ones.

A record is *plain* if its fields lie where those of most records lie: first layout version, IPv4 hosts, body
not packed, no inner batch, separators of properties in turn. Then every fixed field stands at one distance from the
record's start, and body, topic and properties follow from three length fields. All steps are whole-array steps.

This is the seam for a compiled core. The rest of the room calls `find_records` once for the responses of a batch and
`decode_plain` once for its columns; in between it reads whole arrays of `Records`, or single records by index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DecodeError, located
from ..model import Address, MessageQueue, QueueRange
from ..wire.codes import SysFlag
from ..wire.record import MAGIC_V1, MAGIC_V2, Record, decode_record
from ..wire.scan import MIN_RECORD_BYTES, record_starts
from .columns import Column, Content, Part
from .entries import Entries, PropertyTexts, split_entries
from .rows import LEAST_MS, MOST_MS, json_string
from .shapes import ShapedEntries, ShapeFinder
from .spans import (
    Bytes,
    Integers,
    Spans,
    cut_spans,
    gather_windows,
    not_utf8,
    pack_numbers,
    pack_rows,
    pack_texts,
    repeat_texts,
    unsigned_at,
)

__all__ = ["PlainColumns", "Records", "Responses", "Rows", "decode_plain", "find_records"]

_HEAD = np.dtype(
    [
        ("total_size", ">i4"),
        ("magic", ">u4"),
        ("body_crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_timestamp", ">i8"),
        ("born_host", ">u8"),
        ("store_timestamp", ">i8"),
        ("store_host", ">u8"),
        ("reconsume_times", ">i4"),
        ("prepared_transaction_offset", ">i8"),
        ("body_size", ">i4"),
    ]
)
_NATIVE = {name: _HEAD[name].newbyteorder("=") for name in _HEAD.names or ()}
_IRREGULAR_FLAGS = (
    SysFlag.COMPRESSED | SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
)
_INNER_FLAGS = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
_MAGIC_IN_MEMORY = np.array(MAGIC_V1, ">u4").view(np.uint32)
_NO_RECORDS: Integers = np.zeros(0, np.int64)
_LARGEST_BYTE, _LARGEST_SHORT = 0x7F, 0x7FFF
"""Larger sizes are negative, since these length fields are signed."""
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint8).reshape(256, 2)

Rows = npt.NDArray[np.bool_]
"""A mask of rows, records or responses."""


class Responses(NamedTuple):
    """The wanted and covered offsets of a batch's responses, one sequence for each field."""

    ranges: Sequence[QueueRange]
    message_counts: Sequence[int]
    firsts: Sequence[int]
    """Offsets that the pulls asked from."""
    covered: Sequence[int]
    """Number of messages that each must hold; 0 for any number."""
    nexts: Sequence[int]
    """Offsets at which the responses end; 0 if a response's records stand at the offsets written in them."""
    queues: Sequence[MessageQueue]
    starts: Sequence[int]
    """First wanted offset of each."""
    ends: Sequence[int]
    """End of the wanted offsets of each."""

    @property
    def are_whole(self) -> bool:
        """Whether all offsets that the responses cover are wanted."""
        return self.starts == self.firsts and self.ends == self.nexts


# --- where records begin ---------------------------------------------------------------------------------------------

_FEWEST_RESPONSES = 8
"""Least number of responses that are walked in lock step; fewer are faster one by one."""
_MOST_UNEQUAL = 4
"""Largest size of a response, in mean sizes, for a walk in lock step, which takes the steps of the longest."""
_STEPS_BETWEEN_CHECKS = 8
_SIZE_AND_MAGIC_BYTES = 8
"""Bytes before the end of a response in which no record begins."""


class Starts(NamedTuple):
    """Places where records begin, one response's after the other's, and the number of records in each response."""

    places: Integers
    counts: Integers


def maybe_find_starts(data: Bytes, spans: Spans) -> Starts | None:
    """Find the records of all responses in lock step; None if one is damaged or walking them one by one is faster.

    Each record's size tells where the next one begins, so a response has to be walked. An array holds the place
    reached in each response, and one array step takes all of them a record further: their memory is then fetched side
    by side. The steps trust sizes and never leave their response; afterwards all sizes are verified at once.
    """
    sizes = spans.ends - spans.starts
    if len(sizes) < _FEWEST_RESPONSES or sizes.min() < MIN_RECORD_BYTES:
        return None
    if sizes.max() * len(sizes) > _MOST_UNEQUAL * sizes.sum():
        return None
    path = _walk_in_lock_step(data, spans)
    is_record = path < spans.ends - _SIZE_AND_MAGIC_BYTES
    found = Starts(path.T[is_record.T], is_record.sum(axis=0))
    return found if _fill(data, spans, found) else None


def _walk_in_lock_step(data: Bytes, spans: Spans) -> Integers:
    """Return a row for each step: the place reached in each response, which stops shortly before the end."""
    last_places = spans.ends - _SIZE_AND_MAGIC_BYTES
    sizes = unsigned_at(data, 4)
    most_steps = (spans.ends - spans.starts).max() // MIN_RECORD_BYTES
    path, at = [spans.starts], spans.starts
    while len(path) <= most_steps and not np.array_equal(at, last_places):
        for row in np.empty((_STEPS_BETWEEN_CHECKS, len(at)), np.int64):
            np.add(at, sizes[at], out=row)
            at = np.minimum(row, last_places, out=row)
            path.append(at)
    return np.array(path)


def _fill(data: Bytes, spans: Spans, found: Starts) -> bool:
    """Return whether these records fill their responses exactly.

    The walk followed the size of each record; only the last record of a response is still to be checked.
    """
    places, last = found.places, np.cumsum(found.counts) - 1
    ends = np.empty_like(places)
    ends[:-1] = places[1:]
    ends[last] = spans.ends
    sizes = ends - places
    return bool(sizes.min() >= MIN_RECORD_BYTES and (unsigned_at(data, 4)[places[last]] == sizes[last]).all())


def _walk_each(data: Bytes, spans: Spans, ranges: Sequence[QueueRange]) -> Starts:
    """Find the records of responses one by one; raise `DecodeError` where a size or magic is wrong."""
    view = data.data
    starts = [
        start + np.array(_located_starts(view[start:end], wanted), np.int64)
        for start, end, wanted in zip(*spans, ranges, strict=True)
    ]
    return Starts(np.concatenate(starts), np.array(list(map(len, starts))))


def _located_starts(body: memoryview, wanted: QueueRange) -> Sequence[int]:
    try:
        return record_starts(body)
    except DecodeError:
        with _located_at(wanted.queue, wanted.start):
            raise


def _located_at(queue: MessageQueue, offset: int) -> AbstractContextManager[None]:
    """Put queue and offset into errors that pass."""
    return located({"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id, "offset": offset})


def find_records(data: Bytes, spans: Spans, responses: Responses) -> Records:
    """Return the records of responses, which lie in a buffer at these spans; raise `DecodeError` for a damaged one."""
    starts = maybe_find_starts(data, spans) or _walk_each(data, spans, responses.ranges)
    records = Records(data, *starts, responses)
    if not records.has_known_magics():
        _walk_each(data, spans, responses.ranges)  # raises, and names the response
    return records


# --- records ---------------------------------------------------------------------------------------------------------


class Records:
    """Records in one buffer: `counts` of each response, one response's after the other's."""

    def __init__(
        self, data: Bytes, starts: Integers, counts: Integers, responses: Responses, positions: Integers | None = None
    ) -> None:
        self.data = data
        self.starts = starts
        self.counts = counts
        self.responses = responses
        self.head: npt.NDArray[Any] = gather_windows(data, starts, _HEAD.itemsize).view(_HEAD)[:, 0]
        self.positions = self.stored_offsets if positions is None else positions
        """Offset at which each record stands in its queue; the written offset until `coverage` sets another."""
        self.are_all_wanted = False
        """Whether every record is known to stand at a wanted offset."""

    def field(self, name: str) -> npt.NDArray[Any]:
        """Return one fixed field of every record, in the machine's byte order."""
        return self.head[name].astype(_NATIVE[name])

    @cached_property
    def response_of(self) -> Integers:
        """Index of the response that each record came in."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def begins(self) -> Integers:
        """Index of each response's first record."""
        begins: Integers = np.cumsum(self.counts) - self.counts
        return begins

    @cached_property
    def stored_offsets(self) -> Integers:
        """Offset written in each record."""
        return self.field("queue_offset")

    @cached_property
    def sys_flags(self) -> npt.NDArray[np.int32]:
        """Bits of sysFlag of each record."""
        return self.field("sys_flag")

    def record(self, row: int) -> Record:
        """Return one record, decoded by `wire.record`; errors count bytes from its start."""
        start, end = int(self.starts[row]), int(self._ends[row])
        with _located_at(self.responses.queues[self.response_of[row]], int(self.positions[row])):
            return decode_record(self.data[start:end].data)[0]

    def inner_rows(self) -> Integers:
        """Return the records that are inner batches."""
        if np.count_nonzero(self._has_plain_head) == len(self.starts):
            return _NO_RECORDS
        return np.flatnonzero(self.sys_flags & _INNER_FLAGS == _INNER_FLAGS)

    def only(self, rows: Rows) -> Records:
        """Return some of the records; this object, with its computed arrays, if they are all."""
        if np.count_nonzero(rows) == len(rows):
            return self
        counts = np.bincount(self.response_of[rows], minlength=len(self.counts))
        return Records(self.data, self.starts[rows], counts, self.responses, self.positions[rows])

    def has_known_magics(self) -> bool:
        """Return whether all records have the magic of a layout."""
        is_known = self._is_first_layout
        if np.count_nonzero(is_known) < len(is_known):
            is_known = is_known | (self.head["magic"] == MAGIC_V2)
        return bool(np.count_nonzero(is_known) == len(is_known))

    def plain(self) -> Rows:
        """Return which records have their fields at the usual places, with sizes that add up."""
        plain: Rows = self._has_plain_head & (self.property_spans.ends == self._ends)
        return plain

    def topics_at(self, rows: Integers, size: int) -> Bytes:
        """Return the topics of some plain records, a row each, if all are of this size."""
        return gather_windows(self.data, self._body_ends[rows] + 1, size)

    @cached_property
    def _ends(self) -> Integers:
        ends: Integers = self.starts + self.field("total_size")
        return ends

    @cached_property
    def _is_first_layout(self) -> Rows:
        is_first: Rows = self.head["magic"].view(np.uint32) == _MAGIC_IN_MEMORY
        return is_first

    @cached_property
    def _has_plain_head(self) -> Rows:
        starts, ends = self.bodies
        plain: Rows = self._is_first_layout & (self.sys_flags & _IRREGULAR_FLAGS == 0)
        plain &= (ends >= starts) & (ends <= self._ends - 3)
        return plain

    @cached_property
    def bodies(self) -> Spans:
        """Spans of the bodies."""
        starts = self.starts + _HEAD.itemsize
        return Spans(starts, starts + self.field("body_size"))

    @cached_property
    def _body_ends(self) -> Integers:
        """Ends of the bodies; for records that are not plain, some place inside the buffer."""
        ends = self.bodies.ends
        if np.count_nonzero(self._has_plain_head) < len(ends):
            ends = np.where(self._has_plain_head, ends, 0)
        return ends

    @cached_property
    def topic_sizes(self) -> Bytes:
        """Length field of each topic; for records that are not plain, some byte."""
        return self.data[self._body_ends]

    @cached_property
    def property_spans(self) -> Spans:
        """Spans of the property texts; for records that are not plain, spans that begin inside the buffer."""
        body_ends = self._body_ends
        topic_sizes = self.topic_sizes
        starts = np.minimum(body_ends + 3 + topic_sizes, len(self.data))
        sizes = unsigned_at(self.data, 2)[starts - 2]
        if topic_sizes.max(initial=0) > _LARGEST_BYTE or sizes.max(initial=0) > _LARGEST_SHORT:
            is_size = (topic_sizes <= _LARGEST_BYTE) & (sizes <= _LARGEST_SHORT)
            return Spans(starts, np.where(is_size, starts + sizes, -1))
        return Spans(starts, starts + sizes)

    @cached_property
    def queue_ids(self) -> npt.NDArray[np.int32]:
        """Number of the queue that each record was pulled from."""
        return np.repeat(np.array([queue[2] for queue in self.responses.queues], np.int32), self.counts)


# --- columns ---------------------------------------------------------------------------------------------------------


class PlainColumns(NamedTuple):
    """The columns of plain records, and which records they leave out."""

    arrays: list[pa.Array]
    """One for each column asked for; a row for each wanted plain record."""
    places: Integers
    """Index of each row's record; empty if no record is irregular."""
    irregular: Integers
    """Records that have to be read one by one."""


def decode_plain(records: Records, columns: Sequence[Column], content: Content, shapes: ShapeFinder) -> PlainColumns:
    """Make columns of the records that are plain and wanted; `shapes` are those of earlier batches."""
    plain = records.plain()
    rows = PlainRows(records.only(plain), content, shapes)
    if content.tags or any(column.part is Part.PROPERTIES for column in columns):
        if len(unreadable := rows.unreadable_properties()):
            plain[np.flatnonzero(plain)[unreadable]] = False
            rows = PlainRows(records.only(plain), content, shapes)
    wanted = rows.are_wanted(records.are_all_wanted)
    rows = rows.only(wanted)
    arrays = [column.read(rows) for column in columns]
    if np.count_nonzero(plain) == len(plain):
        return PlainColumns(arrays, _NO_RECORDS, _NO_RECORDS)
    return PlainColumns(arrays, np.flatnonzero(plain)[wanted], np.flatnonzero(~plain))


class PlainRows:
    """Plain records as columns, with the attributes and methods that `columns.Column.read` uses."""

    def __init__(self, records: Records, content: Content, shapes: ShapeFinder) -> None:
        self._records = records
        self._content = content
        self._shapes = shapes

    def only(self, rows: Rows) -> PlainRows:
        """Return some of the rows; this object, with its computed arrays, if they are all."""
        records = self._records.only(rows)
        return self if records is self._records else PlainRows(records, self._content, self._shapes)

    def are_wanted(self, are_all_at_wanted_offsets: bool) -> Rows:
        """Return which rows stand at a wanted offset and have a wanted tag."""
        records, content = self._records, self._content
        if are_all_at_wanted_offsets:
            wanted = np.ones(len(records.positions), np.bool_)
        else:
            starts = np.array(records.responses.starts)[records.response_of]
            ends = np.array(records.responses.ends)[records.response_of]
            wanted = (records.positions >= starts) & (records.positions < ends)
        if content.tags:
            filtered = np.array([content.filters(queue.topic) for queue in records.responses.queues])
            has_tag = pc.is_in(self.property_of("TAGS"), pa.array(sorted(content.tags))).to_numpy(False)
            wanted &= has_tag | ~filtered[records.response_of]
        return wanted

    def unreadable_properties(self) -> Integers:
        """Return the rows whose property text is not UTF-8 or irregular."""
        if self._shaped:
            return _NO_RECORDS
        return np.union1d(not_utf8(self._raw_properties), self._property_texts.irregular_rows())

    @cached_property
    def _shaped(self) -> ShapedEntries | None:
        return self._shapes.maybe_find(self._records.data, self._records.property_spans)

    @cached_property
    def _raw_properties(self) -> pa.Array:
        return cut_spans(self._records.data, self._records.property_spans)

    @cached_property
    def _property_texts(self) -> PropertyTexts:
        return PropertyTexts(self._raw_properties)

    @cached_property
    def _entries(self) -> Entries:
        """Names and values of all properties."""
        return self._shaped or split_entries(self._property_texts)

    # --- fixed fields ------------------------------------------------------------------------------------------------

    def number(self, field: str) -> pa.Array:
        """Return a field of the head."""
        return pack_numbers(self._records.field(field))

    def time(self, field: str) -> pa.Array:
        """Return a time of the head; null outside the range of Spark's timestamps."""
        times_ms = self._records.field(field)
        absent = (times_ms < LEAST_MS) | (times_ms > MOST_MS)
        return pack_numbers(times_ms * 1000, absent if absent.any() else None).view(pa.timestamp("us", tz="UTC"))

    def host(self, field: str) -> pa.Array:
        """Return a host of the head as `ip:port`; each distinct host is formatted once."""
        distinct, inverse = np.unique(self._records.field(field), return_inverse=True)
        texts = [_host_text(int(value)) for value in distinct]
        return pack_texts(texts).take(pack_numbers(inverse))

    @property
    def topic(self) -> pa.Array:
        """Topic that each row was pulled from."""
        return self._queue_texts([queue.topic for queue in self._records.responses.queues])

    @property
    def broker_name(self) -> pa.Array:
        """Broker that each row was pulled from."""
        return self._queue_texts([queue.broker_name for queue in self._records.responses.queues])

    def _queue_texts(self, texts: Sequence[str]) -> pa.Array:
        """Return for each row the text of its response."""
        if len(set(texts)) == 1:
            return repeat_texts([texts[0].encode()], len(self._records.head))
        return pack_texts(texts).take(pack_numbers(self._records.response_of))

    @property
    def queue_id(self) -> pa.Array:
        """Number of the queue that each row was pulled from."""
        return pack_numbers(self._records.queue_ids)

    @property
    def position(self) -> pa.Array:
        """Offset at which each row stands in its queue."""
        return pack_numbers(self._records.positions)

    @property
    def log_offset(self) -> pa.Array:
        """Offset in the commit log."""
        return self.number("physical_offset")

    @property
    def timestamp_type(self) -> pa.Array:
        """Kafka's number for the time at which a message was appended to the log."""
        return pack_numbers(np.ones(len(self._records.head), np.int32))

    @cached_property
    def offset_message_id(self) -> pa.Array:
        """Id given by the broker: store host and commit-log offset in upper-case hexadecimal."""
        head = self._records.head
        raw = np.empty((len(head), 16), np.uint8)
        raw[:, :8] = np.ascontiguousarray(head["store_host"]).view(np.uint8).reshape(-1, 8)
        raw[:, 8:] = np.ascontiguousarray(head["physical_offset"]).view(np.uint8).reshape(-1, 8)
        return pack_rows(_HEX[raw], [32], len(raw))

    # --- body and properties -----------------------------------------------------------------------------------------

    @property
    def body(self) -> pa.Array:
        """Bodies of the messages."""
        return cut_spans(self._records.data, self._records.bodies)

    def property_of(self, *names: str) -> pa.Array:
        """Return the first of these properties that each row has."""
        values = [self._entries.values_of(name) for name in names]
        return values[0] if len(values) == 1 else pc.coalesce(*values)

    @property
    def shown_properties(self) -> pa.Array:
        """Column `properties`, in the format asked for."""
        limits, names, values = self._entries.select(self._content.wants)
        if not self._content.properties_as_json:
            return pa.MapArray.from_arrays(limits, names, values)
        pairs = pc.binary_join_element_wise(
            _each_distinct(json_string, names), _each_distinct(json_string, values), ":"
        )
        joined = pc.binary_join(pa.ListArray.from_arrays(limits, pairs), ",")
        return pc.binary_join_element_wise("{", joined, "}", "")

    @property
    def headers(self) -> pa.Array:
        """Properties that are shown to the user, as Kafka's headers."""
        limits, names, values = self._entries.select(self._content.wants)
        pairs = pa.StructArray.from_arrays([names, values.cast(pa.binary())], names=["key", "value"])
        return pa.ListArray.from_arrays(limits, pairs)

    @property
    def key(self) -> pa.Array:
        """Keys of the messages, as Kafka's keys."""
        return self.property_of("KEYS").cast(pa.binary())

    @property
    def message_id(self) -> pa.Array:
        """Unique id given by the producer, else the broker's id."""
        unique = self.property_of("UNIQ_KEY")
        return pc.coalesce(unique, self.offset_message_id) if unique.null_count else unique

    @property
    def origin_topic(self) -> pa.Array:
        """Topic to which a retried or dead message was first sent."""
        named = self.property_of("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")
        return pc.coalesce(_each_distinct(self._content.own_topic, named), self.topic)


def _host_text(value: int) -> str:
    ip = ".".join(str(value >> shift & 0xFF) for shift in (56, 48, 40, 32))
    port = (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    return str(Address(ip, port))


def _each_distinct(change: Callable[[str], str], texts: pa.Array) -> pa.Array:
    """Return changed texts; each distinct text is changed once, absent ones stay absent."""
    encoded = texts.dictionary_encode()
    distinct = pack_texts([change(text) for text in encoded.dictionary.to_pylist()])
    return distinct.take(encoded.indices)
