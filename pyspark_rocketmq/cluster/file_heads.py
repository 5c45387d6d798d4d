"""Recognize the first record of a log file, which some brokers return in place of a deleted message.

A broker of 5.x whose first file is deleted returns a wrong record, until it raises the minimum, for a pull of the
message at the very beginning of its log: the first record of the file that is now the first one. The message itself is
gone. A record counts as such a *file head* only if it is proved to lie elsewhere: its size differs from the size in the
consume queue, it belongs to another queue, or a pull at the offset written in it returns the same record. The offset
alone proves nothing, since some producers make brokers store larger ones.
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
    """A record that lies at the beginning of a file of the commit log."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    topic: str
    """The record's topic; empty if the record's size differs from the size in the consume queue."""


def find_file_head(offset: int, next_offset: int, body: bytes | memoryview) -> FileHead | None:
    """Return the record that was pulled alone at `offset` if it lies at the beginning of a file, else None.

    Raise `DecodeError` if the record is damaged.
    """
    if len(body) < _HEAD.size:
        return None
    size, queue_id, queue_offset, physical_offset = _HEAD.unpack_from(body)
    if not is_at_file_start(physical_offset) or next_offset != offset + 1:
        return None
    topic = decode_record(body)[0].topic if size == len(body) else ""
    return FileHead(queue_id, queue_offset, physical_offset, topic)


def is_foreign(queue: MessageQueue, head: FileHead, namespace: Namespace) -> bool:
    """Return whether a file head belongs to another queue; in a light topic, records always name other queues."""
    if not head.topic:
        return True
    return not is_light(queue) and (head.topic, head.queue_id) != (namespace.wrap(queue.topic), queue.queue_id)
