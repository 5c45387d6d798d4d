"""Where do the records of many answers begin?

Each record's size tells where the next one begins, so an answer has to be walked from record to record. Many answers
are walked in lock step: an array holds the place reached in each, and one array step takes all of them a record
further, whose memory is then fetched side by side. The steps trust what they read and only never leave their answer;
afterwards all sizes are verified at once, and the magics when the heads of the records are read. Whatever is wrong, if
anything is, the walk of `wire.scan` finds again, answer by answer, and the error names the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from ..errors import located
from ..model import MessageQueue, QueueRange
from ..wire.scan import MIN_RECORD_BYTES, record_starts
from .spans import Bytes, Integers, Spans, unsigned_at

__all__ = ["Starts", "find_starts", "located_at", "maybe_find_starts", "walk_each"]

_FEWEST_ANSWERS = 8
"""Fewer are walked faster one by one."""
_MOST_UNEQUAL = 4
"""So are answers of which the largest is so many times as long as the mean: the steps are those of the longest."""
_STEPS_BETWEEN_LOOKS = 8
_HEAD_BYTES = 8
"""Size and magic; no record begins later than so many bytes before the end."""


class Starts(NamedTuple):
    """Where the records begin, those of one answer behind those of the answer before, and how many each has."""

    places: Integers
    counts: Integers


def find_starts(data: Bytes, answers: Spans, ranges: Sequence[QueueRange]) -> Starts:
    """The records of answers to these ranges, of which the error tells if sizes are wrong; magics may still be."""
    return maybe_find_starts(data, answers) or walk_each(data, answers, ranges)


def maybe_find_starts(data: Bytes, answers: Spans) -> Starts | None:
    """The records of answers that are none of them empty; None if one is damaged or walking one by one is faster."""
    sizes = answers.ends - answers.starts
    if len(sizes) < _FEWEST_ANSWERS or sizes.min() < MIN_RECORD_BYTES:
        return None
    if sizes.max() * len(sizes) > _MOST_UNEQUAL * sizes.sum():
        return None
    path = _walk_in_lock_step(data, answers)
    is_record = path < answers.ends - _HEAD_BYTES
    found = Starts(path.T[is_record.T], is_record.sum(axis=0))
    return found if _fill(data, answers, found) else None


def _walk_in_lock_step(data: Bytes, answers: Spans) -> Integers:
    """A row for each step: the place reached in each answer, which stays shortly before the end once it got there."""
    last_places = answers.ends - _HEAD_BYTES
    sizes = unsigned_at(data, 4)
    most_steps = (answers.ends - answers.starts).max() // MIN_RECORD_BYTES
    path, at = [answers.starts], answers.starts
    while len(path) <= most_steps and not np.array_equal(at, last_places):
        for row in np.empty((_STEPS_BETWEEN_LOOKS, len(at)), np.int64):
            np.add(at, sizes[at], out=row)
            at = np.minimum(row, last_places, out=row)
            path.append(at)
    return np.array(path)


def _fill(data: Bytes, answers: Spans, found: Starts) -> bool:
    """Whether these records fill their answers exactly.

    The walk went from each record as far as its size says; only of the last one of an answer that is still to be shown.
    """
    places, last = found.places, np.cumsum(found.counts) - 1
    ends = np.empty_like(places)
    ends[:-1] = places[1:]
    ends[last] = answers.ends
    sizes = ends - places
    return bool(sizes.min() >= MIN_RECORD_BYTES and (unsigned_at(data, 4)[places[last]] == sizes[last]).all())


def walk_each(data: Bytes, answers: Spans, ranges: Sequence[QueueRange]) -> Starts:
    """The records of answers, looked at one by one; raises where a size or magic is wrong."""
    view = data.data
    starts = [
        start + np.array(_located_starts(view[start:end], wanted), np.int64)
        for start, end, wanted in zip(*answers, ranges, strict=True)
    ]
    return Starts(np.concatenate(starts), np.array(list(map(len, starts))))


def _located_starts(answer: memoryview, wanted: QueueRange) -> Sequence[int]:
    with located_at(wanted.queue, wanted.start):
        return record_starts(answer)


def located_at(queue: MessageQueue, offset: int) -> AbstractContextManager[None]:
    """Errors say of which queue and offset they speak."""
    return located({"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id, "offset": offset})
