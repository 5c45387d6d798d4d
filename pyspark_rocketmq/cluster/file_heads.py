"""Recognize the first record of a log file, which some brokers return in place of a deleted message.

When a broker of 5.x deletes the first file of its log, the message at the very beginning of the log is gone. Until the
broker raises the queue's minimum, a pull of this message returns another record: the first one of the file that is now
the first. A record counts as such a *file head* only if it is proved to lie elsewhere: its size differs from that in
the consume queue, it belongs to another queue, or a pull at the offset written in it returns the same record. The
offset alone proves nothing, since some producers make brokers store larger ones.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..model import MessageQueue, is_light
from ..wire.record import decode_record, is_at_file_start
from .names import Namespace

__all__ = ["FileHead", "find_file_head", "is_foreign"]

_HEAD = struct.Struct(">i8xi4xqq")
"""The fields size, queue id, queue offset and position in the commit log at the beginning of a record."""


class FileHead(NamedTuple):
    """A record that, by its offset, may lie at the beginning of a file of the commit log."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    topic: str
    """The record's topic; empty if the record's size differs from the size in the consume queue."""


def find_file_head(offset: int, next_offset: int, body: bytes | memoryview) -> FileHead | None:
    """Return the record in `body` as a file head if it may lie at the beginning of a commit-log file, else None.

    `body` and `next_offset` are from the response to a pull at `offset`; return None unless it covered this one offset.
    Raise `DecodeError` if such a record has the size of `body` but is damaged.
    """
    if len(body) < _HEAD.size:
        return None
    size, queue_id, queue_offset, physical_offset = _HEAD.unpack_from(body)
    if not is_at_file_start(physical_offset) or next_offset != offset + 1:
        return None
    topic = decode_record(body)[0].topic if size == len(body) else ""
    return FileHead(queue_id, queue_offset, physical_offset, topic)


def is_foreign(queue: MessageQueue, head: FileHead, namespace: Namespace) -> bool:
    """Return whether a record that a pull of this queue returned is proved to be no message of it.

    The proof is a size that differs from that in the consume queue, or another queue named in the record. In a light
    topic only the size counts, because records there always name other queues.
    """
    if not head.topic:
        return True
    return not is_light(queue) and (head.topic, head.queue_id) != (namespace.wrap(queue.topic), queue.queue_id)
