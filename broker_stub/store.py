"""Store a broker's messages and read them by queue and offset.

As in RocketMQ, the commit log contains the records of all queues, and each consume queue lists the records of one
queue. So a pull looks up a range of the queue's columns and slices the log; nothing is encoded or decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.host import is_ipv6
from pyspark_rocketmq.wire.message_id import encode_offset_message_id
from pyspark_rocketmq.wire.properties import java_hash, join_properties
from pyspark_rocketmq.wire.record import Record, decode_record, encode_record

from .changes import OnChange, ignore_change
from .clock import Clock
from .commit_log import CommitLog
from .consume_queue import Boundary, ConsumeQueue, QueueKey
from .queue_scan import DEFAULT_LIMITS, GetResult, GetStatus, MessageFilter, PullLimits, QueueScan, check_bounds

ENTRY_END = "\x02"
"""Separator that ends each property in a record's property text."""
REAL_TOPIC, REAL_QUEUE_ID = "REAL_TOPIC", "REAL_QID"
"""Properties that name a message's own topic and queue while it is in a system topic."""
NOWHERE = Address("127.0.0.1", 0)
"""Born host of messages that were not sent by a client."""

_SIZE_BYTES = 4
"""Length of a record's first field, its size, which `CommitLog.publish` writes."""
_PLACE = struct.Struct(">qq")
_PLACE_AT = 20
"""Position within a record of its queue offset; the record's address follows it."""


@dataclass(slots=True)
class InnerMessage:
    """A message inside the broker, before it becomes a stored record."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: Address = NOWHERE
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    store_timestamp: int | None = None
    """Store time in milliseconds; None: the current time."""
    tag_code: int | None = None
    """Code for the consume queue; None: the hash of the tag. Delay queues have the due time as code."""
    unstored: frozenset[str] = frozenset()
    """Names of properties that are not written to the record."""
    raw_properties: bytes | None = None
    """Property text to write unchanged instead of `properties`; messages of a batch come with such a text."""

    @classmethod
    def of_record(cls, record: Record) -> InnerMessage:
        """Return a message with the content of a stored record, to be stored again."""
        return cls(
            topic=record.topic,
            queue_id=record.queue_id,
            body=record.body,
            properties=record.properties,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp=record.born_timestamp,
            born_host=record.born_host,
            reconsume_times=record.reconsume_times,
        )

    def for_system_topic(self, topic: str, queue_id: int) -> InnerMessage:
        """Return the message for a system topic's queue; REAL_TOPIC and REAL_QID keep its own topic and queue."""
        self.properties.update({REAL_TOPIC: self.topic, REAL_QUEUE_ID: str(self.queue_id)})
        return replace(self, topic=topic, queue_id=queue_id, unstored=frozenset())

    @classmethod
    def from_system_topic(cls, record: Record, more_properties: Mapping[str, str] | None = None) -> InnerMessage:
        """Return the message in a system topic's record as a message for its own topic and queue."""
        message = cls.of_record(record)
        message.topic, message.queue_id = message.properties[REAL_TOPIC], int(message.properties[REAL_QUEUE_ID])
        message.properties.update(more_properties or {})
        return message

    def queue_code(self) -> int:
        """Return the message's code in the consume queue: the given `tag_code`, or else the hash of its tag."""
        return tag_code_of(self.properties) if self.tag_code is None else self.tag_code


class Stored(NamedTuple):
    """Id, offset, address and store time of a stored message."""

    message_id: str
    queue_offset: int
    physical_offset: int
    store_timestamp: int


_MOST_DIGITS = 18
"""Number of digits up to which every number fits 64 bits."""
_UNUSED = ConsumeQueue()


class Store:
    """The messages of one broker: the commit log and the consume queues."""

    def __init__(
        self,
        clock: Clock,
        host: Address,
        limits: PullLimits = DEFAULT_LIMITS,
        log: CommitLog | None = None,
        *,
        ends_properties: bool = True,
    ) -> None:
        self.clock = clock
        self.host = host
        self.limits = limits
        self.ends_properties = ends_properties
        """Whether a record's last property ends with a separator, too."""
        self.log = log or CommitLog()
        self.queues: dict[QueueKey, ConsumeQueue] = {}
        self.on_change: OnChange = ignore_change

    def __repr__(self) -> str:
        return f"<Store of {self.host}, {len(self.queues)} queues, {self.log.end} bytes>"

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, message: InnerMessage) -> Stored:
        """Append a message to the log and to its queue; return its id, offset, address and store time."""
        queue = self.open_queue(message.topic, message.queue_id)
        now = self.clock.now_ms() if message.store_timestamp is None else message.store_timestamp
        data = encode_record(self.make_record(message, now))
        offset = queue.next_stored
        physical = self._append(data, offset)
        if self._has_false_host_flags(message):
            queue.unindexed += 1
        else:
            queue.append(physical, len(data), message.queue_code(), now)
        return Stored(encode_offset_message_id(self.host, physical), offset, physical, now)

    def append_record(self, record: Record, queue_id: int) -> None:
        """Append another broker's record to a queue that moves to this broker; the record keeps its offset."""
        queue = self.queues.setdefault((record.topic, queue_id), ConsumeQueue(record.queue_offset))
        data = encode_record(replace(record, queue_id=queue_id))
        physical = self._append(data, record.queue_offset)
        queue.append(physical, len(data), tag_code_of(record.properties), record.store_timestamp)

    def _append(self, data: bytes, offset: int) -> int:
        """Append an encoded record to the log with this queue offset and its new address; return the address."""
        physical, room = self.log.reserve(len(data))
        room[_SIZE_BYTES:] = memoryview(data)[_SIZE_BYTES:]
        _PLACE.pack_into(room, _PLACE_AT, offset, physical)
        self.log.publish(len(data), len(data))
        return physical

    def open_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue's index for writing; create it if the queue was never used."""
        return self.queues.setdefault((topic, queue_id), ConsumeQueue())

    def expire(self, topic: str, queue_id: int, offset: int) -> None:
        """Delete the messages of a queue before an offset, as retention does."""
        queue = self.open_queue(topic, queue_id)
        queue.min_offset = max(queue.min_offset, min(offset, queue.max_offset))
        self.on_change("expire", topic, queue_id, queue.min_offset)

    def remove_topic(self, topic: str) -> None:
        """Delete all queues of a topic; if the topic is created again, they start at 0."""
        for queue_id in [number for name, number in self.queues if name == topic]:
            self.remove_queue(topic, queue_id)

    def remove_queue(self, topic: str, queue_id: int) -> None:
        """Delete a queue, if it was ever used; if it is created again, it starts at 0."""
        if self.queues.pop((topic, queue_id), None) is not None:
            self.on_change("drop-queue", topic, queue_id, self.log.end)

    # --- reading -----------------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue's index for reading; an empty index if the queue was never used."""
        return self.queues.get((topic, queue_id), _UNUSED)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of a queue's first unexpired message; 0 if the queue was never used."""
        return self.queue(topic, queue_id).min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return a queue's maximum offset, behind its last message; 0 if the queue was never used."""
        return self.queue(topic, queue_id).max_offset

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time of the message at an offset in milliseconds; -1 if there is none."""
        queue = self.queue(topic, queue_id)
        is_there = queue.min_offset <= offset < queue.max_offset
        return queue.store_times[offset - queue.base] if is_there else -1

    def search(self, topic: str, queue_id: int, time_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """Return the offset that a search by store time finds by the rule `boundary`, at most the maximum offset."""
        return min(self.queue(topic, queue_id).search(time_ms, boundary), self.max_offset(topic, queue_id))

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int, message_filter: MessageFilter | None = None
    ) -> GetResult:
        """Return the result of a pull: a status and the messages from an offset on, within the limits of one response.

        Without a filter every message matches.
        """
        queue = self.queue(topic, queue_id)
        low, high = queue.min_offset, self.max_offset(topic, queue_id)
        status, right_offset = check_bounds(offset, low, high)
        if status is not GetStatus.FOUND:
            return GetResult(status, self.corrected_offset(offset, right_offset), low, high)
        scan = QueueScan(self.log, self.limits, queue, max_count)
        scan.run(offset, high, message_filter)
        cold = scan.is_cold(queue.physical[offset - queue.base])
        return GetResult(scan.status, scan.next_offset, low, high, tuple(scan.records), cold)

    def corrected_offset(self, offset: int, right_offset: int) -> int:
        """Return the offset at which a client shall go on after a pull at `offset`, out of the queue's bounds.

        A master returns `right_offset`, the one that the bounds suggest.
        """
        return right_offset

    def messages(self, topic: str, queue_id: int) -> Iterator[Record]:
        """Yield all unexpired messages of a queue."""
        for _, physical, size in self.queue(topic, queue_id):
            yield decode_record(self.log.read(physical, size))[0]

    def record_at(self, topic: str, queue_id: int, offset: int) -> Record | None:
        """Return the message at an offset of a queue; None if there is none."""
        queue = self.queue(topic, queue_id)
        is_there = queue.min_offset <= offset < queue.max_offset
        return self.message_at(queue.physical[offset - queue.base]) if is_there else None

    def message_at(self, physical: int) -> Record | None:
        """Return the message at an address of the log; None if there is none."""
        data = self.log.record_at(physical)
        return None if data is None else decode_record(data)[0]

    def make_record(self, message: InnerMessage, now: int) -> Record:
        """Return the record of a message, with offset and address still 0."""
        sys_flag = message.sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)
        sys_flag |= SysFlag.BORN_HOST_V6 * is_ipv6(message.born_host) | SysFlag.STORE_HOST_V6 * is_ipv6(self.host)
        return Record(
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=0,
            physical_offset=0,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_timestamp=now,
            store_host=self.host,
            body=message.body,
            properties_text=self._properties_text(message),
            flag=message.flag,
            sys_flag=sys_flag,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
        )

    def _has_false_host_flags(self, message: InnerMessage) -> bool:
        """Return whether the message's sysFlag says that a host is an IPv6 address although it is not.

        A broker gives such a message an offset and responds with success, but never enters it into its queue.
        """
        says_v6 = message.sys_flag & SysFlag.BORN_HOST_V6, message.sys_flag & SysFlag.STORE_HOST_V6
        are_v6 = is_ipv6(message.born_host), is_ipv6(self.host)
        return any(says and not is_v6 for says, is_v6 in zip(says_v6, are_v6, strict=True))

    def _properties_text(self, message: InnerMessage) -> bytes:
        if message.raw_properties is not None:
            return message.raw_properties
        kept = {name: value for name, value in message.properties.items() if name not in message.unstored}
        text = join_properties(kept)
        return (text if self.ends_properties else text.removesuffix(ENTRY_END)).encode()


class Replica(Store):
    """A slave's view of its master's messages; the last messages of each queue may be missing."""

    def __init__(self, master: Store, host: Address, corrects_offsets: Callable[[], bool] = lambda: False) -> None:
        super().__init__(master.clock, host, master.limits, master.log)
        self._corrects_offsets = corrects_offsets
        self.queues = master.queues
        self.lag = 0
        """Number of messages of each queue that the slave has not copied yet."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return a queue's maximum offset at the slave: that of the first message that the slave has not copied yet."""
        queue = self.queue(topic, queue_id)
        return max(queue.min_offset, queue.max_offset - self.lag)

    def corrected_offset(self, offset: int, right_offset: int) -> int:
        """Return the offset at which a client shall go on after a pull at `offset`, out of the queue's bounds.

        A slave may be behind its master, so it returns `offset` itself. If the settings let slaves check offsets, it
        returns `right_offset`, the one that the bounds suggest.
        """
        return right_offset if self._corrects_offsets() else offset


def is_number(text: str) -> bool:
    """Return whether a property's text is a number without sign, of at most 18 digits."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def is_from_system_topic(record: Record) -> bool:
    """Return whether a record names its message's own topic and queue (REAL_TOPIC, REAL_QID), as in system topics."""
    return REAL_TOPIC in record.properties and is_number(record.properties.get(REAL_QUEUE_ID, ""))


def tag_code_of(properties: Mapping[str, str]) -> int:
    """Return the hash code of the tag in these properties, as the consume queue has it; 0 without a tag."""
    return java_hash(properties.get("TAGS", ""))
