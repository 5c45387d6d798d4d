"""Decode thousands of stored records at once: find them in a buffer, and make columns of the plain ones.

A record is *plain* if its fields lie where they lie in most records: first layout version, IPv4 hosts, no compressed
body, no inner batch, and properties whose two separators alternate. Then each fixed field is at the same distance from
the start of the record, and three length fields give the places of body, topic and properties. All steps are
operations on whole numpy or Arrow arrays.

A compiled core could replace this module. The rest of the package calls `find_records` once for the responses of a
batch and `decode_plain` once for its columns; between these calls it reads arrays of `Records`, or single records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DecodeError, LimitExceeded, located
from ..model import Address, MessageQueue, QueueRange
from ..wire.codes import SysFlag
from ..wire.record import MAGIC_V1, MAGIC_V2, Record, decode_record, stored_crcs
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
    peek_windows,
    repeat_texts,
    unsigned_at,
)

__all__ = ["MOST_NAME_CHARACTERS", "PlainColumns", "Records", "Responses", "Rows", "decode_plain", "find_records"]

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
"""Largest valid sizes: these length fields are signed, so larger values are negative sizes."""
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint8).reshape(256, 2)

MOST_NAME_CHARACTERS = 1024
"""Longest name of a topic or broker that is shown in rows, far more than brokers allow; each row has a copy of it."""

Rows = npt.NDArray[np.bool_]
"""A boolean array that chooses rows, records or responses."""


class Responses(NamedTuple):
    """The requested and the covered offsets of the responses in a batch; each field has one item for each response."""

    ranges: Sequence[QueueRange]
    message_counts: Sequence[int]
    firsts: Sequence[int]
    """First offset that each pull asked for."""
    covered: Sequence[int]
    """Number of messages that each response must hold; 0 if any number is allowed."""
    nexts: Sequence[int]
    """End of the offsets that each response covers; 0 if positions are the offsets written in its records."""
    queues: Sequence[MessageQueue]
    starts: Sequence[int]
    """First wanted offset of each response; messages before it are left out."""
    ends: Sequence[int]
    """End of the wanted offsets of each response; messages from it on are left out."""

    @property
    def are_whole(self) -> bool:
        """Whether all offsets that the responses cover are wanted, so that no message has to be left out."""
        return self.starts == self.firsts and self.ends == self.nexts

    def only(self, response: int) -> Responses:
        """Return an object that describes only the response at this index."""
        return Responses(*([field[response]] for field in self))  # type: ignore[arg-type]  # each field is a list


# --- where records begin ---------------------------------------------------------------------------------------------

_FEWEST_RESPONSES = 8
"""Least number of responses that are scanned in lock step; fewer are scanned faster one by one."""
_MOST_UNEQUAL = 4
"""Limit of largest response size / mean response size for a scan in lock step, which lasts as long as the largest."""
_STEPS_BETWEEN_CHECKS = 8
_SIZE_AND_MAGIC_BYTES = 8
"""Bytes of a record's size and magic; no record begins within so many bytes of the end of a response."""


class Starts(NamedTuple):
    """Byte positions at which records begin, in order of responses, and the number of records in each response."""

    places: Integers
    counts: Integers


def maybe_find_starts(data: Bytes, spans: Spans) -> Starts | None:
    """Return where records begin, scanning all responses in lock step.

    Return None if a response is damaged, or if scanning one response after another is faster.

    Only the size field of a record tells where the next record begins. An array holds the current byte position in each
    response, and one array operation moves all of them to the next record, so that the CPU fetches memory of all
    responses at the same time. These steps trust the sizes but never leave their response; all sizes are verified
    afterwards.
    """
    sizes = spans.ends - spans.starts
    if len(sizes) < _FEWEST_RESPONSES or sizes.min() < MIN_RECORD_BYTES:
        return None
    if sizes.max() * len(sizes) > _MOST_UNEQUAL * sizes.sum():
        return None
    path = _walk_in_lock_step(data, spans)
    is_record = path < spans.ends - _SIZE_AND_MAGIC_BYTES
    found = Starts(path.T[is_record.T], is_record.sum(axis=0))
    return found if _fills_responses(data, spans, found) else None


def _walk_in_lock_step(data: Bytes, spans: Spans) -> Integers:
    """Step from record to record in all responses at once; return all byte positions on the way.

    The array has a column for each response. Its first row holds the starts of the responses, row i their positions
    after i steps. A position stops 8 bytes before the end of its response, where no record can begin.
    """
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


def _fills_responses(data: Bytes, spans: Spans, found: Starts) -> bool:
    """Return whether the records that were found fill their responses exactly, and none is too small.

    Only the last record's size is compared with the end of its response: the size of each other record is right,
    because it led to the next record.
    """
    places, last = found.places, np.cumsum(found.counts) - 1
    ends = np.empty_like(places)
    ends[:-1] = places[1:]
    ends[last] = spans.ends
    sizes = ends - places
    return bool(sizes.min() >= MIN_RECORD_BYTES and (unsigned_at(data, 4)[places[last]] == sizes[last]).all())


def _walk_each(data: Bytes, spans: Spans, ranges: Sequence[QueueRange]) -> Starts:
    """Return where records begin, scanning response after response; raise `DecodeError` for a wrong size or magic."""
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
    """Return a context manager that adds queue and offset to errors raised inside it."""
    return located({"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id, "offset": offset})


def find_records(data: Bytes, spans: Spans, responses: Responses) -> Records:
    """Return the records of the responses, which lie at `spans` of a buffer; raise `DecodeError` if one is damaged."""
    starts = maybe_find_starts(data, spans) or _walk_each(data, spans, responses.ranges)
    records = Records(data, *starts, responses)
    if not records.has_known_magics():
        _walk_each(data, spans, responses.ranges)  # raises an error that names the damaged response
    return records


# --- records ---------------------------------------------------------------------------------------------------------


class Records:
    """The records of several responses, all in one buffer; `counts` is the number of records in each response."""

    is_inner = False
    """Whether these are the messages of an inner batch, which have no place of their own in the commit log."""

    def __init__(
        self,
        data: Bytes,
        starts: Integers,
        counts: Integers,
        responses: Responses,
        positions: Integers | None = None,
        head: npt.NDArray[Any] | None = None,
    ) -> None:
        self.data = data
        self.starts = starts
        self.counts = counts
        self.responses = responses
        if head is None:
            head = gather_windows(data, starts, _HEAD.itemsize).view(_HEAD)[:, 0]
        self.head: npt.NDArray[Any] = head
        self.positions = self.stored_offsets if positions is None else positions
        """Offset of each record in its queue; the offset written in the record, until `coverage` corrects it."""
        self._common_topic_size: int | None = None
        """Length of the topic in all records, if it is known to be the same."""
        self.are_all_wanted = False
        """Whether all records are known to be within the wanted offsets; if False, positions have to be compared."""

    def field(self, name: str) -> npt.NDArray[Any]:
        """Return one field of the fixed header for all records, as an array in the machine's byte order."""
        return self.head[name].astype(_NATIVE[name])

    @cached_property
    def response_of(self) -> Integers:
        """For each record, the index of the response that holds it."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def begins(self) -> Integers:
        """For each response, the index of its first record."""
        begins: Integers = np.cumsum(self.counts) - self.counts
        return begins

    @cached_property
    def stored_offsets(self) -> Integers:
        """Queue offset that is written in each record."""
        return self.field("queue_offset")

    @cached_property
    def sys_flags(self) -> npt.NDArray[np.int32]:
        """Field sysFlag of each record."""
        return self.field("sys_flag")

    def record(self, row: int) -> Record:
        """Return the record at index `row`, decoded by `wire.record`; errors state byte positions within the record."""
        start, end = int(self.starts[row]), int(self._ends[row])
        with _located_at(self.responses.queues[self.response_of[row]], int(self.positions[row])):
            return decode_record(self.data[start:end].data)[0]

    def inner_batch_rows(self) -> Integers:
        """Return the indices of the records that are inner batches."""
        if np.count_nonzero(self._has_plain_head) == len(self.starts):
            return _NO_RECORDS
        return np.flatnonzero(self.sys_flags & _INNER_FLAGS == _INNER_FLAGS)

    def only(self, rows: Rows) -> Self:
        """Return the records that the mask `rows` chooses.

        If it chooses all, return this object, which keeps its cached arrays.
        """
        if np.count_nonzero(rows) == len(rows):
            return self
        counts = np.bincount(self.response_of[rows], minlength=len(self.counts))
        return type(self)(self.data, self.starts[rows], counts, self.responses, self.positions[rows], self.head[rows])

    def has_known_magics(self) -> bool:
        """Return whether the magic number of every record is that of a known layout version."""
        is_known = self._is_first_layout
        if np.count_nonzero(is_known) < len(is_known):
            is_known = is_known | (self.head["magic"] == MAGIC_V2)
        return bool(np.count_nonzero(is_known) == len(is_known))

    def plain(self) -> Rows:
        """Return a mask of the plain records: fields at the usual places, and sizes that add up."""
        plain: Rows = self._has_plain_head & (self.property_spans.ends == self._ends)
        return plain

    def topic_fields(self, rows: Integers, size: int) -> Bytes:
        """Return the first `size` bytes of the topic field (length byte, name) of each record at the indices `rows`."""
        return peek_windows(self.data, self._body_ends[rows], size)

    def compare_topics(self, field: bytes) -> bool:
        """Return whether all records have this topic field (length byte and name) where plain records have theirs.

        If so, remember the length of the topic, so that it need not be read from each record.
        """
        fields = peek_windows(self.data, self._body_ends, len(field))
        if fields.tobytes() != field * len(fields):
            return False
        self._common_topic_size = len(field) - 1
        return True

    @property
    def topic_spans(self) -> Spans:
        """Start and end of each record's topic in the buffer; without meaning for records that are not plain."""
        starts = self._body_ends + 1
        return Spans(starts, starts + self.topic_sizes)

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
        """Start and end of each record's body in the buffer."""
        starts = self.starts + _HEAD.itemsize
        return Spans(starts, starts + self.field("body_size"))

    @cached_property
    def _body_ends(self) -> Integers:
        """End of each body in the buffer; 0 for records without the fixed header of a plain record."""
        ends = self.bodies.ends
        if np.count_nonzero(self._has_plain_head) < len(ends):
            ends = np.where(self._has_plain_head, ends, 0)
        return ends

    @cached_property
    def topic_sizes(self) -> Bytes:
        """Length of each record's topic in bytes; without meaning for records that are not plain."""
        return self.data[self._body_ends]

    @cached_property
    def property_spans(self) -> Spans:
        """Start and end of each record's property text in the buffer.

        For a record that is not plain, they have no meaning, but the start is not beyond the end of the buffer.
        """
        body_ends = self._body_ends
        topic_sizes = self.topic_sizes if self._common_topic_size is None else np.uint8(self._common_topic_size)
        starts = np.minimum(body_ends + (topic_sizes + np.int64(3)), len(self.data))
        sizes = unsigned_at(self.data, 2)[starts - 2]
        if topic_sizes.max(initial=0) > _LARGEST_BYTE or sizes.max(initial=0) > _LARGEST_SHORT:
            is_size = (topic_sizes <= _LARGEST_BYTE) & (sizes <= _LARGEST_SHORT)
            return Spans(starts, np.where(is_size, starts + sizes, -1))
        return Spans(starts, starts + sizes)

    @cached_property
    def queue_ids(self) -> npt.NDArray[np.int32]:
        """Id of the queue that each record was pulled from."""
        return np.repeat(np.array([queue[2] for queue in self.responses.queues], np.int32), self.counts)


# --- columns ---------------------------------------------------------------------------------------------------------


class PlainColumns(NamedTuple):
    """The columns of the plain records, and the indices of the records that are not plain."""

    arrays: list[pa.Array]
    """One array for each requested column, with a row for each wanted plain record."""
    places: Integers
    """Index of the record of each row; empty if all records are plain."""
    irregular: Integers
    """Indices of the records that have to be decoded one by one."""


def decode_plain(records: Records, columns: Sequence[Column], content: Content, shapes: ShapeFinder) -> PlainColumns:
    """Return the columns of the wanted plain records; `shapes` remembers property shapes from batch to batch."""
    plain = records.plain()
    rows = PlainRows(records.only(plain), content, shapes)
    if len(unreadable := rows.unreadable({column.part for column in columns})):
        plain[np.flatnonzero(plain)[unreadable]] = False
        rows = PlainRows(records.only(plain), content, shapes)
    wanted = rows.are_wanted(records.are_all_wanted)
    rows = rows.only(wanted)
    arrays = [column.read(rows) for column in columns]
    if np.count_nonzero(plain) == len(plain):
        return PlainColumns(arrays, _NO_RECORDS, _NO_RECORDS)
    return PlainColumns(arrays, np.flatnonzero(plain)[wanted], np.flatnonzero(~plain))


class PlainRows:
    """Plain records as rows. Their attributes and methods return columns; `columns.Column.read` uses them."""

    def __init__(self, records: Records, content: Content, shapes: ShapeFinder) -> None:
        self._records = records
        self._content = content
        self._shapes = shapes

    def only(self, rows: Rows) -> PlainRows:
        """Return the rows that the mask `rows` chooses.

        If it chooses all, return this object, which keeps its cached arrays.
        """
        records = self._records.only(rows)
        return self if records is self._records else PlainRows(records, self._content, self._shapes)

    def are_wanted(self, are_all_at_wanted_offsets: bool) -> Rows:
        """Return a mask of the rows that are within the wanted offsets and have one of the wanted tags.

        With `are_all_at_wanted_offsets`, offsets are known to be wanted, and only tags are examined.
        """
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

    def unreadable(self, parts: Collection[Part | None]) -> Integers:
        """Return the indices of the rows in which one of `parts` cannot be read.

        If messages are chosen by tag, properties are examined even if they are not in `parts`.
        """
        unreadable = _NO_RECORDS
        if self._content.tags or Part.PROPERTIES in parts:
            unreadable = self._unreadable_properties()
        if self._content.check_crc and Part.BODY in parts:
            unreadable = np.union1d(unreadable, self._damaged_bodies())
        return unreadable

    def _unreadable_properties(self) -> Integers:
        """Return the indices of the rows whose property text is not UTF-8, or whose separators do not alternate."""
        if self._shaped:
            return _NO_RECORDS
        return np.union1d(not_utf8(self._raw_properties), self._property_texts.irregular_rows())

    def _damaged_bodies(self) -> Integers:
        """Return the indices of the rows whose bodies have another CRC than the stored one."""
        starts, ends = self._records.bodies
        found = stored_crcs(self._records.data.data, starts.tolist(), ends.tolist())
        return np.flatnonzero(np.array(found, np.int64) != self._records.field("body_crc"))

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
        """Names and values of the properties of all rows."""
        return self._shaped or split_entries(self._property_texts)

    # --- fixed fields ------------------------------------------------------------------------------------------------

    def number(self, field: str) -> pa.Array:
        """Return an integer field of the fixed record header as a column."""
        return pack_numbers(self._records.field(field))

    def time(self, field: str) -> pa.Array:
        """Return a time of the fixed record header as a column of timestamps; null outside Spark's range."""
        times_ms = self._records.field(field)
        absent = (times_ms < LEAST_MS) | (times_ms > MOST_MS)
        return pack_numbers(times_ms * 1000, absent if absent.any() else None).view(pa.timestamp("us", tz="UTC"))

    def host(self, field: str) -> pa.Array:
        """Return a host of the fixed record header as a column of `ip:port`; each distinct host is formatted once."""
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
        """Return a column of texts, given one text for each response: each row gets the text of its response.

        Raise `LimitExceeded` for a text that is too long to be repeated in each row.
        """
        distinct = set(texts)
        if len(longest := max(distinct, key=len)) > MOST_NAME_CHARACTERS:
            raise _too_long(longest)
        if len(distinct) == 1:
            return repeat_texts([texts[0].encode()], len(self._records.head))
        return pack_texts(texts).take(pack_numbers(self._records.response_of))

    @property
    def queue_id(self) -> pa.Array:
        """Id of the queue that each row was pulled from."""
        return pack_numbers(self._records.queue_ids)

    @property
    def position(self) -> pa.Array:
        """Offset of each row in its queue."""
        return pack_numbers(self._records.positions)

    @property
    def log_offset(self) -> pa.Array:
        """Offset of each record in the broker's commit log; null for messages of an inner batch."""
        return (
            pa.nulls(len(self._records.head), pa.int64()) if self._records.is_inner else self.number("physical_offset")
        )

    @property
    def timestamp_type(self) -> pa.Array:
        """Kafka's timestamp type of each row: always 1, LogAppendTime."""
        return pack_numbers(np.ones(len(self._records.head), np.int32))

    @cached_property
    def offset_message_id(self) -> pa.Array:
        """Message id given by the broker: store host and commit-log offset in upper-case hexadecimal.

        Null for messages of an inner batch.
        """
        head = self._records.head
        if self._records.is_inner:
            return pa.nulls(len(head), pa.string())
        raw = np.empty((len(head), 16), np.uint8)
        raw[:, :8] = np.ascontiguousarray(head["store_host"]).view(np.uint8).reshape(-1, 8)
        raw[:, 8:] = np.ascontiguousarray(head["physical_offset"]).view(np.uint8).reshape(-1, 8)
        return pack_rows(_HEX[raw], [32], len(raw))

    # --- body and properties -----------------------------------------------------------------------------------------

    @property
    def body(self) -> pa.Array:
        """The message bodies, as binary."""
        return cut_spans(self._records.data, self._records.bodies)

    def property_of(self, *names: str) -> pa.Array:
        """Return for each row the value of the first of these properties that it has; null if it has none."""
        values = [self._entries.values_of(name) for name in names]
        return values[0] if len(values) == 1 else pc.coalesce(*values)

    @property
    def shown_properties(self) -> pa.Array:
        """The column `properties`, as maps or as JSON texts; without RocketMQ's own unless these are requested."""
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
        """The column `headers`: properties as Kafka headers, without RocketMQ's own unless these are requested."""
        limits, names, values = self._entries.select(self._content.wants)
        pairs = pa.StructArray.from_arrays([names, values.cast(pa.binary())], names=["key", "value"])
        return pa.ListArray.from_arrays(limits, pairs)

    @property
    def key(self) -> pa.Array:
        """The column `key` of the Kafka layout: the property KEYS of each row, as bytes."""
        return self.property_of("KEYS").cast(pa.binary())

    @property
    def message_id(self) -> pa.Array:
        """Unique message id given by the producer; the broker's id where it gave none."""
        unique = self.property_of("UNIQ_KEY")
        return pc.coalesce(unique, self.offset_message_id) if unique.null_count else unique

    @property
    def origin_topic(self) -> pa.Array:
        """Topic to which a retried message or dead letter was first sent; for other messages, their own topic."""
        named = self.property_of("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")
        return pc.coalesce(_each_distinct(self._content.own_topic, named), self.topic)


def _too_long(name: str) -> LimitExceeded:
    return LimitExceeded(
        f"a name of {len(name)} characters, {name[:40]!r}..., the limit is {MOST_NAME_CHARACTERS}",
        advice="correct the name of the broker or topic, or leave columns with it out",
    )


def _host_text(value: int) -> str:
    ip = ".".join(str(value >> shift & 0xFF) for shift in (56, 48, 40, 32))
    port = (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    return str(Address(ip, port))


def _each_distinct(change: Callable[[str], str], texts: pa.Array) -> pa.Array:
    """Return the texts, each changed by `change`, which is called once for each distinct text; null stays null."""
    encoded = texts.dictionary_encode()
    distinct = pack_texts([change(text) for text in encoded.dictionary.to_pylist()])
    return distinct.take(encoded.indices)
