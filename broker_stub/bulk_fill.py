"""Store very many messages quickly.

The messages differ only in fields at fixed positions. So one record is encoded and copied, and the copies are patched
column by column: queue, offset, address, unique id, and a body that begins with the message's number. The checksums
come from a table: a changed digit of the body changes its CRC-32 by a value that depends only on the digit and its
position.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from pyspark_rocketmq.wire.record import encode_record

from .commit_log import SEGMENT_BYTES
from .store import InnerMessage, Store

DIGITS = 10
"""Number of digits with which a body begins; a shorter body has fewer."""

_MAGIC_AT, _CRC_AT, _QUEUE_ID_AT, _OFFSET_AT, _PHYSICAL_AT = 4, 8, 12, 20, 28
_BODY_AT = 88
_UNIQUE_ID = b"UNIQ_KEY\x01"
_UNIQUE_DIGITS = 8
_CHUNK_RECORDS = 4_096

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


class Template:
    """The encoded record to copy, and the positions of the fields in which the copies differ."""

    def __init__(self, store: Store, message: InnerMessage) -> None:
        self.now = store.clock.now_ms()
        self.tag_code = message.queue_code()
        self.record = np.frombuffer(encode_record(store.make_record(message, self.now)), np.uint8)
        self.digits = min(DIGITS, len(message.body))
        unique_at = self.record.tobytes().rindex(_UNIQUE_ID) + len(_UNIQUE_ID)
        self.unique_end = unique_at + len(message.properties["UNIQ_KEY"])
        self._crc = zlib.crc32(message.body)
        self._crc_changes = _crc_changes(message.body, self.digits)

    def stamp(self, room: Bytes, numbers: Numbers, queue_ids: Numbers, offsets: Numbers, physical: int) -> None:
        """Write a copy of the record into each row of the array `room`.

        Row i gets entry i of `numbers` (in body and unique id), of `queue_ids` and of `offsets`. `physical` is the log
        address of the first row. The size fields are left out; `CommitLog.publish` writes them.
        """
        room[:, _MAGIC_AT:] = self.record[_MAGIC_AT:]
        size, count = self.record.size, len(numbers)
        digits = _decimal_digits(numbers, self.digits)
        room[:, _BODY_AT : _BODY_AT + self.digits] = digits + ord("0")
        _write(room, _CRC_AT, 4, self._crcs(digits))
        _write(room, _QUEUE_ID_AT, 4, queue_ids)
        _write(room, _OFFSET_AT, 8, offsets)
        _write(room, _PHYSICAL_AT, 8, physical + size * np.arange(count, dtype=np.int64))
        room[:, self.unique_end - _UNIQUE_DIGITS : self.unique_end] = _hex_digits(numbers)

    def _crcs(self, digits: Bytes) -> Numbers:
        crcs = np.full(len(digits), self._crc, np.int64)
        for place in range(self.digits):
            crcs ^= self._crc_changes[place][digits[:, place]]
        return crcs & 0x7FFFFFFF


def fill(store: Store, message: InnerMessage, queue_count: int, count: int, first_number: int = 0) -> None:
    """Append `count` copies of a message to the queues of its topic in turn, numbering them from `first_number` on."""
    template = Template(store, message)
    starts = np.array([store.max_offset(message.topic, queue_id) for queue_id in range(queue_count)], np.int64)
    done = 0
    while done < count:
        size = template.record.size
        rows = min(count - done, _CHUNK_RECORDS, store.log.room() // size or SEGMENT_BYTES // size)
        _fill_chunk(store, message.topic, template, starts, np.arange(done, done + rows), first_number)
        done += rows


def _fill_chunk(
    store: Store, topic: str, template: Template, starts: Numbers, indexes: Numbers, first_number: int
) -> None:
    """Append some of a message's copies to the log and to the queues of its topic.

    All copies are counted from 0 on and take the queues in turn; copy i gets the number `first_number + i`. `indexes`
    tells which copies to append now, `starts` the offset of the first of all copies in each queue. In the log, the
    copies appended now are sorted by queue.
    """
    queue_count = len(starts)
    queue_ids = indexes % queue_count
    order = np.argsort(queue_ids, kind="stable")
    indexes, queue_ids = indexes[order], queue_ids[order]
    physical, room = store.log.reserve(len(indexes) * template.record.size)
    rows = np.frombuffer(room, np.uint8).reshape(len(indexes), -1)
    offsets = starts[queue_ids] + indexes // queue_count
    template.stamp(rows, first_number + indexes, queue_ids, offsets, physical)
    store.log.publish(len(room), template.record.size)
    for queue_id in np.unique(queue_ids).tolist():
        at = np.flatnonzero(queue_ids == queue_id)
        store.open_queue(topic, queue_id).extend(
            physical + template.record.size * at, template.record.size, template.tag_code, template.now
        )


def _decimal_digits(numbers: Numbers, width: int) -> Bytes:
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    digits: Bytes = (numbers[:, None] // powers % 10).astype(np.uint8)
    return digits


def _hex_digits(numbers: Numbers) -> Bytes:
    shifts = 4 * np.arange(_UNIQUE_DIGITS - 1, -1, -1, dtype=np.int64)
    digits: Bytes = np.frombuffer(b"0123456789ABCDEF", np.uint8)[numbers[:, None] >> shifts & 15]
    return digits


def _write(room: Bytes, at: int, width: int, values: Numbers) -> None:
    """Write values into the rows of the array `room`, one per row: big-endian, in `width` bytes from byte `at` on."""
    room[:, at : at + width] = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]


def _crc_changes(body: bytes, digits: int) -> Numbers:
    """Return a table of the values to XOR to a body's CRC-32 if one of its bytes is replaced by a digit.

    The table has a row for each of the first `digits` bytes, and a column for each digit 0 to 9.
    """
    base = zlib.crc32(body)
    table = np.zeros((digits, 10), np.int64)
    for place in range(digits):
        for digit in range(10):
            table[place, digit] = zlib.crc32(body[:place] + b"%d" % digit + body[place + 1 :]) ^ base
    return table
