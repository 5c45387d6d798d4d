"""What does each column hold for thousands of plain messages at once?

A record is *plain* if its fields lie where those of most records lie: first layout version, IPv4 hosts, body
not packed, no inner batch, property text with separators in turn. Then every field of the head sits at a fixed
distance from the record's start, and body, topic and properties follow from three length fields. All
steps are whole-array steps. The topic's text is not looked at, because no column shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..model import Address, MessageQueue
from ..wire.codes import SysFlag
from ..wire.record import MAGIC_V1, MAGIC_V2, Record, decode_record
from .entries import Entries, PropertyTexts, split_entries
from .rows import LEAST_MS, MOST_MS, Content, json_string
from .shaped import ShapedEntries, ShapeFinder
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
from .starts import located_at

__all__ = ["Bulk", "bulk_column"]

_HEAD = np.dtype(
    [
        ("store_size", ">i4"),
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
_ODD_FLAGS = (
    SysFlag.COMPRESSED | SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
)
_INNER_FLAGS = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
_MAGIC_IN_MEMORY = np.array(MAGIC_V1, ">u4").view(np.uint32)
_NO_ROWS: Integers = np.zeros(0, np.int64)
_LARGEST_BYTE, _LARGEST_SHORT = 0x7F, 0x7FFF
"""What is above is a size below zero, as these sizes have a sign."""
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint8).reshape(256, 2)


class Bulk:
    """Records in one buffer: so many of each answer, one answer behind the other.

    `plain` says which rows can be decoded here; the columns speak of such rows only.
    """

    def __init__(
        self,
        data: Bytes,
        starts: Integers,
        counts: Integers,
        queues: Sequence[MessageQueue],
        finder: ShapeFinder,
        positions: Integers | None = None,
    ) -> None:
        self.data = data
        self.starts = starts
        self.counts = counts
        self._queues = queues
        self._finder = finder
        self.head: npt.NDArray[Any] = gather_windows(data, starts, _HEAD.itemsize).view(_HEAD)[:, 0]
        self.positions = self.stored_offsets if positions is None else positions
        """Where each record stands in its queue."""

    def field(self, name: str) -> npt.NDArray[Any]:
        """One fixed field of every record, in the machine's byte order."""
        return self.head[name].astype(_NATIVE[name])

    @cached_property
    def answers(self) -> Integers:
        """The index of the answer that each record came in."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def begins(self) -> Integers:
        """Where the records of each answer begin among all."""
        begins: Integers = np.cumsum(self.counts) - self.counts
        return begins

    @cached_property
    def stored_offsets(self) -> Integers:
        """Where each record says that it stands in its queue."""
        return self.field("queue_offset")

    @cached_property
    def sys_flags(self) -> npt.NDArray[np.int32]:
        """What kind of record each is."""
        return self.field("sys_flag")

    def record(self, row: int) -> Record:
        """Return one record, read the readable way; errors count its bytes from where it begins."""
        start, end = int(self.starts[row]), int(self._ends[row])
        with located_at(self._queues[self.answers[row]], int(self.positions[row])):
            return decode_record(self.data[start:end].data)[0]

    def inner_rows(self) -> Integers:
        """Records that hold several messages."""
        if np.count_nonzero(self._has_plain_head) == len(self.starts):
            return _NO_ROWS
        return np.flatnonzero(self.sys_flags & _INNER_FLAGS == _INNER_FLAGS)

    def only(self, rows: npt.NDArray[np.bool_]) -> Bulk:
        """The same view of some of the rows; of all of them, this very one with what it has computed."""
        if np.count_nonzero(rows) == len(rows):
            return self
        counts = np.bincount(self.answers[rows], minlength=len(self.counts))
        return Bulk(self.data, self.starts[rows], counts, self._queues, self._finder, self.positions[rows])

    def has_known_magics(self) -> bool:
        """Whether all records have the magic of a layout."""
        is_known = self._is_first_layout
        if np.count_nonzero(is_known) < len(is_known):
            is_known = is_known | (self.head["magic"] == MAGIC_V2)
        return bool(np.count_nonzero(is_known) == len(is_known))

    def plain(self) -> npt.NDArray[np.bool_]:
        """Rows whose fields lie at the usual places and add up."""
        plain: npt.NDArray[np.bool_] = self._has_plain_head & (self._property_spans.ends == self._ends)
        return plain

    def strange_rows(self, stored_topic: Callable[[str], str]) -> Integers:
        """Records of other queues than they were asked from; `stored_topic` tells how they name a topic, if they do.

        The topic is read in the first record of each answer; of the others its length is compared. Odd records are not
        looked at for it.
        """
        begins = self.begins[self.counts > 0]
        names = {topic: stored_topic(topic).encode() for topic in {queue[0] for queue in self._queues}}
        differs: npt.NDArray[np.bool_] = self.field("queue_id") != self._asked_ids
        if len(names) == 1 and not np.count_nonzero(differs) and self._are_all_of(next(iter(names.values())), begins):
            return _NO_ROWS
        for topic, name in names.items():
            is_asked = np.array([queue.topic == topic for queue in self._queues])[self.answers]
            rows = np.flatnonzero(is_asked)
            if name:
                differs[rows] |= self._name_another(name, begins[is_asked[begins]])[rows]
            else:
                differs[rows] = False
        return np.flatnonzero(differs)

    def _are_all_of(self, name: bytes, begins: Integers) -> bool:
        """Whether all records are plain and name this topic; whether it is this very text shows at `begins`."""
        sizes = self._topic_sizes
        if not name or np.count_nonzero(sizes == len(name) & 0xFF) < len(sizes):
            return False
        return self._topics_at(begins, len(name)).tobytes() == name * len(begins)

    def _name_another(self, name: bytes, begins: Integers) -> npt.NDArray[np.bool_]:
        """Plain records whose topic has another length, or at `begins` another text."""
        plain = self.plain()
        differs: npt.NDArray[np.bool_] = (self._topic_sizes != len(name) & 0xFF) & plain
        begins = begins[plain[begins] & ~differs[begins]]
        texts = self._topics_at(begins, len(name))
        differs[begins] = (texts != np.frombuffer(name, np.uint8)).any(axis=1)
        return differs

    def _topics_at(self, rows: Integers, size: int) -> Bytes:
        return gather_windows(self.data, self._body_ends[rows] + 1, size)

    @cached_property
    def _ends(self) -> Integers:
        ends: Integers = self.starts + self.field("store_size")
        return ends

    @cached_property
    def _is_first_layout(self) -> npt.NDArray[np.bool_]:
        is_first: npt.NDArray[np.bool_] = self.head["magic"].view(np.uint32) == _MAGIC_IN_MEMORY
        return is_first

    @cached_property
    def _has_plain_head(self) -> npt.NDArray[np.bool_]:
        starts, ends = self.bodies
        plain: npt.NDArray[np.bool_] = self._is_first_layout & (self.sys_flags & _ODD_FLAGS == 0)
        plain &= (ends >= starts) & (ends <= self._ends - 3)
        return plain

    @cached_property
    def bodies(self) -> Spans:
        """Where the bodies lie."""
        starts = self.starts + _HEAD.itemsize
        return Spans(starts, starts + self.field("body_size"))

    @cached_property
    def _body_ends(self) -> Integers:
        """Where the bodies end; of rows that are not plain it only holds that it is inside the buffer."""
        ends = self.bodies.ends
        if np.count_nonzero(self._has_plain_head) < len(ends):
            ends = np.where(self._has_plain_head, ends, 0)
        return ends

    @cached_property
    def _topic_sizes(self) -> Bytes:
        return self.data[self._body_ends]

    @cached_property
    def _property_spans(self) -> Spans:
        """Where the property texts lie; of rows that are not plain it only holds that they begin inside the buffer."""
        body_ends = self._body_ends
        topic_sizes = self._topic_sizes
        starts = np.minimum(body_ends + 3 + topic_sizes, len(self.data))
        sizes = unsigned_at(self.data, 2)[starts - 2]
        if topic_sizes.max(initial=0) > _LARGEST_BYTE or sizes.max(initial=0) > _LARGEST_SHORT:
            is_size = (topic_sizes <= _LARGEST_BYTE) & (sizes <= _LARGEST_SHORT)
            return Spans(starts, np.where(is_size, starts + sizes, -1))
        return Spans(starts, starts + sizes)

    @cached_property
    def _shaped(self) -> ShapedEntries | None:
        return self._finder.maybe_find(self.data, self._property_spans)

    @cached_property
    def _raw_properties(self) -> pa.Array:
        return cut_spans(self.data, self._property_spans)

    @cached_property
    def _property_texts(self) -> PropertyTexts:
        return PropertyTexts(self._raw_properties)

    def unreadable_properties(self) -> Integers:
        """Rows whose property text is no UTF-8 or irregular: plain in layout, but to be read with care."""
        if self._shaped:
            return np.zeros(0, np.int64)
        return np.union1d(not_utf8(self._raw_properties), self._property_texts.irregular_rows())

    @cached_property
    def entries(self) -> Entries:
        """Names and values of all properties."""
        return self._shaped or split_entries(self._property_texts)

    def queue_texts(self, text_of: Callable[[MessageQueue], str]) -> pa.Array:
        """A column of texts that depend on the queue alone."""
        texts = list(map(text_of, self._queues))
        if len(set(texts)) == 1:
            return repeat_texts([texts[0].encode()], len(self.head))
        return pack_texts(texts).take(pack_numbers(self.answers))

    def queue_ids(self) -> pa.Array:
        """The numbers of the queues that the records came from."""
        return pack_numbers(self._asked_ids)

    @cached_property
    def _asked_ids(self) -> npt.NDArray[np.int32]:
        return np.repeat(np.array([queue[2] for queue in self._queues], np.int32), self.counts)

    @cached_property
    def offset_message_ids(self) -> pa.Array:
        """Store host and commit-log offset in upper-case hexadecimal."""
        raw = np.empty((len(self.head), 16), np.uint8)
        raw[:, :8] = np.ascontiguousarray(self.head["store_host"]).view(np.uint8).reshape(-1, 8)
        raw[:, 8:] = np.ascontiguousarray(self.head["physical_offset"]).view(np.uint8).reshape(-1, 8)
        return pack_rows(_HEX[raw], [32], len(raw))

    def hosts(self, name: str) -> pa.Array:
        """A host column as `ip:port`; formatted once per distinct host."""
        distinct, inverse = np.unique(self.field(name), return_inverse=True)
        texts = [_host_text(int(value)) for value in distinct]
        return pack_texts(texts).take(pack_numbers(inverse))


def _host_text(value: int) -> str:
    ip = ".".join(str(value >> shift & 0xFF) for shift in (56, 48, 40, 32))
    port = (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    return str(Address(ip, port))


def _map(bulk: Bulk, content: Content) -> pa.Array:
    limits, names, values = bulk.entries.select(content.wants)
    return pa.MapArray.from_arrays(limits, names, values)


def _json(bulk: Bulk, content: Content) -> pa.Array:
    """The text of each row's JSON object; every distinct name or value is written once."""
    limits, names, values = bulk.entries.select(content.wants)
    quoted = pc.binary_join_element_wise(_each_distinct(json_string, names), _each_distinct(json_string, values), ":")
    joined = pc.binary_join(pa.ListArray.from_arrays(limits, quoted), ",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _each_distinct(change: Callable[[str], str], texts: pa.Array) -> pa.Array:
    """Changed texts; each distinct one is changed once, absent ones stay absent."""
    encoded = texts.dictionary_encode()
    distinct = pack_texts([change(text) for text in encoded.dictionary.to_pylist()])
    return distinct.take(encoded.indices)


def _headers(bulk: Bulk, content: Content) -> pa.Array:
    limits, names, values = bulk.entries.select(content.wants)
    pairs = pa.StructArray.from_arrays([names, values.cast(pa.binary())], names=["key", "value"])
    return pa.ListArray.from_arrays(limits, pairs)


def _property(name: str) -> Callable[[Bulk, Content], pa.Array]:
    return lambda bulk, _: bulk.entries.values_of(name)


def _integer(name: str) -> Callable[[Bulk, Content], pa.Array]:
    return lambda bulk, _: pack_numbers(bulk.field(name))


def _timestamp(name: str) -> Callable[[Bulk, Content], pa.Array]:
    return lambda bulk, _: _pack_times(bulk.field(name)).view(pa.timestamp("us", tz="UTC"))


def _pack_times(times_ms: npt.NDArray[np.int64]) -> pa.Array:
    """Microseconds, null where a time is none of Spark's."""
    absent = (times_ms < LEAST_MS) | (times_ms > MOST_MS)
    return pack_numbers(times_ms * 1000, absent if absent.any() else None)


def _body(bulk: Bulk, _: Content) -> pa.Array:
    return cut_spans(bulk.data, bulk.bodies)


def _topic(bulk: Bulk, _: Content) -> pa.Array:
    return bulk.queue_texts(attrgetter("topic"))


def _broker_name(bulk: Bulk, _: Content) -> pa.Array:
    return bulk.queue_texts(attrgetter("broker_name"))


def _queue_id(bulk: Bulk, _: Content) -> pa.Array:
    return bulk.queue_ids()


def _position(bulk: Bulk, _: Content) -> pa.Array:
    return pack_numbers(bulk.positions)


def _message_id(bulk: Bulk, _: Content) -> pa.Array:
    unique = bulk.entries.values_of("UNIQ_KEY")
    return pc.coalesce(unique, bulk.offset_message_ids) if unique.null_count else unique


def _origin_topic(bulk: Bulk, content: Content) -> pa.Array:
    values_of = bulk.entries.values_of
    told = pc.coalesce(values_of("RETRY_TOPIC"), values_of("DLQ_ORIGIN_TOPIC"))
    return pc.coalesce(_each_distinct(content.own_topic, told), _topic(bulk, content))


def _origin_message_id(bulk: Bulk, _: Content) -> pa.Array:
    return pc.coalesce(bulk.entries.values_of("ORIGIN_MESSAGE_ID"), bulk.entries.values_of("DLQ_ORIGIN_MESSAGE_ID"))


_COLUMNS: dict[str, Callable[[Bulk, Content], pa.Array]] = {
    "topic": _topic,
    "brokerName": _broker_name,
    "queueId": _queue_id,
    "queueOffset": _position,
    "tags": _property("TAGS"),
    "keys": _property("KEYS"),
    "body": _body,
    "properties": lambda bulk, content: (_json if content.properties_as_json else _map)(bulk, content),
    "msgId": _message_id,
    "bornTimestamp": _timestamp("born_timestamp"),
    "storeTimestamp": _timestamp("store_timestamp"),
    "reconsumeTimes": _integer("reconsume_times"),
    "flag": _integer("flag"),
    "commitLogOffset": _integer("physical_offset"),
    "offsetMsgId": lambda bulk, _: bulk.offset_message_ids,
    "storedQueueOffset": lambda bulk, _: pack_numbers(bulk.stored_offsets),
    "originTopic": _origin_topic,
    "originMsgId": _origin_message_id,
    "shardingKey": _property("__SHARDINGKEY"),
    "bornHost": lambda bulk, _: bulk.hosts("born_host"),
    "storeHost": lambda bulk, _: bulk.hosts("store_host"),
    "sysFlag": _integer("sys_flag"),
    "storeSize": _integer("store_size"),
    "bodyCrc": _integer("body_crc"),
    "key": lambda bulk, _: bulk.entries.values_of("KEYS").cast(pa.binary()),
    "value": _body,
    "partition": _queue_id,
    "offset": _position,
    "timestamp": _timestamp("store_timestamp"),
    "timestampType": lambda bulk, _: pack_numbers(np.ones(len(bulk.head), np.int32)),
    "headers": _headers,
}

READS_PROPERTIES = frozenset("tags keys properties msgId originTopic originMsgId shardingKey key headers".split())
"""Columns for which the property text must be split."""


def bulk_column(name: str, bulk: Bulk, content: Content) -> pa.Array:
    """One column of plain records."""
    return _COLUMNS[name](bulk, content)
