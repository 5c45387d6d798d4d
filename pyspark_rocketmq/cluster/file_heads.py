"""Recognize the first record of a log file, which some brokers return in place of a deleted message.

When a broker of 5.x deletes the first file of its log, the message at the very beginning of the log is gone. Until the
broker raises the queue's minimum, a pull of this message returns another record: the first one of the file that is now
the first. A record counts as such a *file head* only if it is proved to lie elsewhere: its size differs from that in
the consume queue, it belongs to another queue, or it states a larger offset of this queue, and a pull there returns the
same record, or finds that the message there is gone. The offset alone proves nothing, since some producers make brokers
store larger ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from ..model import MessageQueue, is_light
from ..wire.record import decode_record, is_at_file_start
from .names import Namespace

__all__ = ["Pulled", "is_file_head"]

_HEAD = struct.Struct(">i8xi4xqq")
"""The fields size, queue id, queue offset and position in the commit log at the beginning of a record."""


class Pulled(NamedTuple):
    """The response to a pull of one message that found a message."""

    offset: int
    """The offset of the pull."""
    next_offset: int
    max_offset: int
    body: bytes | memoryview


class _Head(NamedTuple):
    """A pulled record whose place in the commit log is one at which a file of the log may begin."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    topic: str
    """The record's topic; empty if the record's size differs from the size in the consume queue."""


def is_file_head(
    queue: MessageQueue, pulled: Pulled, namespace: Namespace, fetch_place: Callable[[int], int | None]
) -> bool:
    """Return whether a pull returned a *file head*: a log file's first record, in place of a deleted message.

    `fetch_place` pulls this queue at an offset and returns where in the commit log the message of this offset lies, or
    None if it is gone. It is called only if the pulled record names this queue and a larger offset than requested, one
    that the queue has reached. If the message at that offset is gone, so is the one at the requested offset, because
    retention deletes from the front.

    Raise `DecodeError` if the response is one record at the beginning of a log file and is damaged.
    """
    head = _find_head(pulled)
    if head is None or _is_foreign(queue, head, namespace):
        return head is not None
    if not pulled.offset < head.queue_offset < pulled.max_offset:
        return False
    return fetch_place(head.queue_offset) in (None, head.physical_offset)


def _find_head(pulled: Pulled) -> _Head | None:
    """Return the response's record if its place in the commit log is one at which a file may begin, else None.

    Return None, too, if the response covers more than one offset.
    """
    if len(pulled.body) < _HEAD.size:
        return None
    size, queue_id, queue_offset, physical_offset = _HEAD.unpack_from(pulled.body)
    if not is_at_file_start(physical_offset) or pulled.next_offset != pulled.offset + 1:
        return None
    topic = decode_record(pulled.body)[0].topic if size == len(pulled.body) else ""
    return _Head(queue_id, queue_offset, physical_offset, topic)


def _is_foreign(queue: MessageQueue, head: _Head, namespace: Namespace) -> bool:
    """Return whether a record that a pull of this queue returned is proved to be no message of it.

    The proof is a size that differs from that in the consume queue, or another queue named in the record. A record of
    a light topic always names another queue, so only its size counts.
    """
    if not head.topic:
        return True
    return not is_light(queue) and (head.topic, head.queue_id) != (namespace.wrap(queue.topic), queue.queue_id)
