"""Compare what answers hold with what they claim to hold, and give each record its position in the queue.

An answer to a pull without a filter holds one message for each offset that it covers. So record i of an answer of the
right count stands at `first + i`, whatever offset is written in it: after a message whose sysFlag its broker could not
store, the offsets written in a queue's records run ahead of their positions for good. Records of inner batches and of
filtered answers stand where they say, but for those of light topics, which say where they stand elsewhere.

Whether all answers are as they must be is one array step. Only what is not is looked at closely: an answer that does
not hold what it claims is a *suspect*, to be read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError
from ..model import MessageQueue, is_light
from ..wire.record import message_count_of
from ..wire.scan import mismatch
from .bulk import Bulk
from .gathered import Answers
from .rows import Content
from .spans import Integers

__all__ = ["Placed", "check_origins", "place"]

_Rows = npt.NDArray[np.bool_]


class Placed(NamedTuple):
    """Where the records of some answers stand, and which answers do not hold what they claim."""

    positions: Integers
    suspects: Sequence[int] = ()
    shifted: frozenset[MessageQueue] = frozenset()
    """Queues in whose records other offsets are written than they stand at."""
    is_filtered: bool = False
    """Whether there are filtered answers."""
    are_all_wanted: bool = False
    """Whether no record stands outside what is wanted of its answer."""


def place(bulk: Bulk, answers: Answers) -> Placed:
    """The positions of all records; raises if they come in an order in which no broker stores."""
    inner = bulk.inner_rows()
    if not len(inner):
        if answers.covered == tuple(bulk.counts.tolist()) and _follow_each_other(bulk, answers):
            return Placed(bulk.stored_offsets, are_all_wanted=answers.are_whole)
        if not any(answers.covered) and all(answers.nexts) and _say_where_they_stand(bulk, answers):
            return Placed(bulk.stored_offsets, is_filtered=True, are_all_wanted=answers.are_whole)
    return _Placing(bulk, answers, inner).place()


def _follow_each_other(bulk: Bulk, answers: Answers) -> bool:
    """Whether the written offsets of each answer go up one by one from its first; none is without records."""
    stored, begins = bulk.stored_offsets, bulk.begins
    steps = stored[1:] - stored[:-1]
    steps[begins[1:] - 1] = 1
    return np.count_nonzero(steps == 1) == len(steps) and tuple(stored[begins].tolist()) == answers.firsts


def _say_where_they_stand(bulk: Bulk, answers: Answers) -> bool:
    """Whether the offsets written in records can be believed."""
    return not any(map(is_light, set(answers.queues))) and _ascend_within(bulk, answers)


def _ascend_within(bulk: Bulk, answers: Answers) -> bool:
    """Whether the written offsets of each answer go up within what it covers; none is without records."""
    stored, begins = bulk.stored_offsets, bulk.begins
    ascends = stored[1:] > stored[:-1]
    ascends[begins[1:] - 1] = True
    return bool(
        np.count_nonzero(ascends) == len(ascends)
        and (stored[begins] >= answers.firsts).all()
        and (stored[begins + bulk.counts - 1] < answers.nexts).all()
    )


def check_origins(bulk: Bulk, answers: Answers, content: Content) -> None:
    """Raise unless all records are of the queues that were asked; which topic an odd one names is looked at later."""
    strange = bulk.strange_rows(content.stored_topic)
    for row in strange[:1].tolist():
        answer = int(bulk.answers[row])
        record = bulk.record(row)
        what = f"holds a message of {record.topic}, queue {record.queue_id}"
        raise mismatch(answers.queues[answer], answers.firsts[answer], what)


class _Placing:
    """A closer look at answers of which some are filtered, short, shifted, or hold inner batches."""

    def __init__(self, bulk: Bulk, answers: Answers, inner: Integers) -> None:
        self._bulk = bulk
        self._answers = answers
        self._firsts = np.array(answers.firsts, np.int64)
        self._covered = np.array(answers.covered, np.int64)
        self._nexts = np.array(answers.nexts, np.int64)
        self._counts = bulk.counts
        self._begins = bulk.begins
        self._inner = inner
        self._of = bulk.answers
        self._stored = bulk.stored_offsets

    def place(self) -> Placed:
        """The positions: where the count is that of the offsets by that, else as written."""
        has_batches = np.zeros(len(self._covered), np.bool_)
        has_batches[self._of[self._inner]] = True
        counted = self._covered > 0
        plain = counted & ~has_batches
        suspects = plain & (self._counts != self._covered)
        suspects |= self._are_short_of_batches(counted & has_batches)
        by_count = np.repeat(self._firsts - self._begins, self._counts) + np.arange(len(self._of))
        positions = np.where(plain[self._of], by_count, self._stored)
        shifted = self._check_order(plain & ~suspects, positions)
        filtered = ~counted & (self._nexts > 0)
        suspects |= self._are_misfits(filtered)
        return Placed(positions, np.flatnonzero(suspects).tolist(), shifted, bool(filtered.any()))

    def _are_short_of_batches(self, answers: _Rows) -> _Rows:
        """Answers with inner batches in which messages are missing."""
        short = np.zeros(len(answers), np.bool_)
        for answer in np.flatnonzero(answers).tolist():
            count = self._maybe_count(answer)
            short[answer] = count is not None and count != self._covered[answer]
        return short

    def _maybe_count(self, answer: int) -> int | None:
        """The messages of an answer within what it covers; None where a batch cannot be taken apart."""
        first, begin = int(self._firsts[answer]), int(self._begins[answer])
        end, count = first + int(self._covered[answer]), 0
        for row in range(begin, begin + int(self._counts[answer])):
            record = self._bulk.record(row)
            base = record.queue_offset
            try:
                count += max(0, min(end, base + message_count_of(record)) - max(first, base))
            except DecodeError:
                return None
        return count

    def _check_order(self, answers: _Rows, positions: Integers) -> frozenset[MessageQueue]:
        """Raise unless the offsets written in counted answers ascend; the queues in which they are not the positions.

        They go back in one lawful case: a broker that was started anew goes on with the positions. Places in the log
        ascend even then, which tells it from a record that was put in the place of another.
        """
        ahead = np.where((answers & ~self._are_light)[self._of], self._stored - positions, 0)
        if not ahead.any():
            return frozenset()
        is_shifted = np.zeros(len(answers), np.bool_)
        is_shifted[self._of[ahead != 0]] = True
        moved_back = self._goes_back_in_log & is_shifted[self._of]
        disorder = np.flatnonzero((ahead < 0) | (self._goes_back & (ahead != 0)) | moved_back)
        if len(disorder):
            answer, offset = int(self._of[disorder[0]]), self._stored[disorder[0]]
            what = f"holds messages out of order or twice (one says offset {offset})"
            raise mismatch(self._answers.queues[answer], int(self._firsts[answer]), what)
        return frozenset(map(self._answers.queues.__getitem__, np.unique(self._of[ahead != 0]).tolist()))

    def _are_misfits(self, answers: _Rows) -> _Rows:
        """Filtered answers in which the written offsets do not ascend within what the answer covers, and light ones."""
        if not answers.any():
            return answers
        beyond = self._stored >= self._nexts[self._of]
        before = self._stored < self._firsts[self._of]
        before[self._inner] = False  # A batch may begin before the offset that was asked for.
        found = np.zeros(len(answers), np.bool_)
        found[self._of[beyond | before | self._goes_back]] = True
        return answers & (found | self._are_light)

    @cached_property
    def _goes_back(self) -> _Rows:
        """Records in which no higher offset is written than in the one before of the same answer."""
        return self._falls(self._stored)

    @property
    def _goes_back_in_log(self) -> _Rows:
        """The same by the places of records in the commit log."""
        return self._falls(self._bulk.field("physical_offset"))

    def _falls(self, values: npt.NDArray[np.int64]) -> _Rows:
        falls: _Rows = np.diff(values, prepend=-1) <= 0
        falls[self._begins[self._counts > 0]] = False
        return falls

    @cached_property
    def _are_light(self) -> _Rows:
        """Answers whose records say where they stand in another queue."""
        return np.array(list(map(is_light, self._answers.queues)), np.bool_)
