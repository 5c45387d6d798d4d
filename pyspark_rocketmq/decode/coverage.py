"""Check that responses hold the messages that they must hold, and compute each record's position in its queue.

A pull without a filter must return one message for each offset that its response covers. So if the number of records
is right, record i has the position `first + i`, whatever offset is written in it. The two differ for good after a
broker failed to store a message with an illegal sysFlag: from then on the offsets written in the queue's records are
higher than their positions. Such a queue is *shifted*.
Records in inner batches and in filtered responses have the positions that are written in them. The exception is light
topics: their records hold the offsets of another queue.

One array operation shows whether all responses are complete. A response that lacks messages is a *suspect* and is read
again. A filtered response may hold any number of messages, so only impossible offsets make it a suspect.
In a filtered response of a shifted queue, a message can be within the wanted offsets by its position, but beyond their
end by its written offset. So if written offsets lie beyond the wanted end, the last wanted offset is pulled without the
filter, which shows whether the queue is shifted. For every filtered response of a shifted queue, positions are found by
pulls without the filter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError
from ..model import Block, MessageQueue, is_light
from ..wire.record import message_count_of
from ..wire.scan import mismatch
from .bulk import Records, Rows
from .spans import Integers, cut_spans, not_utf8

__all__ = ["Recheck", "RecordPositions", "Suspects", "check_queues", "find_positions"]

_SHIFTED = (
    "%s: the offsets written in its messages differ from their positions, as after a message with an illegal sysFlag; "
    "queueOffset holds the position, storedQueueOffset the written offset"
)
_LONGEST_PLAIN_TOPIC = 127
_NO_RECORDS: Integers = np.zeros(0, np.int64)
_log = logging.getLogger(__name__)


# --- queues ----------------------------------------------------------------------------------------------------------


def check_queues(records: Records, stored_topic: Callable[[str], str]) -> None:
    """Raise `AnswerMismatch` unless all records name the topic and queue of their response.

    `stored_topic` returns the topic that records must name, given the topic of the response; an empty text allows any.
    The topics of irregular records are not checked here, but by the module `irregular`.
    """
    for row in _of_other_queues(records, stored_topic)[:1].tolist():
        response = int(records.response_of[row])
        record = records.record(row)
        what = f"holds a message of {record.topic}, queue {record.queue_id}"
        raise mismatch(records.responses.queues[response], records.responses.firsts[response], what)


def _of_other_queues(records: Records, stored_topic: Callable[[str], str]) -> Integers:
    queues = records.responses.queues
    names = {topic: stored_topic(topic).encode() for topic in {queue[0] for queue in queues}}
    differs: Rows = records.field("queue_id") != records.queue_ids
    if len(names) == 1 and not np.count_nonzero(differs) and _all_name(records, next(iter(names.values()))):
        return _NO_RECORDS
    plain = records.plain()
    for topic, name in names.items():
        is_asked = np.array([queue.topic == topic for queue in queues])[records.response_of]
        rows = np.flatnonzero(is_asked & plain)
        if name:
            differs[rows] |= _name_another(records, rows, name)
        else:
            differs[is_asked] = False
            differs[rows[_name_nothing(records, rows)]] = True
    return np.flatnonzero(differs)


def _all_name(records: Records, name: bytes) -> bool:
    """Return whether all records name the topic `name`, each in the place where plain records have the topic."""
    field = _topic_field(name)
    return bool(field) and records.compare_topics(field)


def _name_another(records: Records, rows: Integers, name: bytes) -> Rows:
    """Return which of the plain records at the indices `rows` have another topic than `name`, as a mask of `rows`."""
    field = _topic_field(name)
    differs: Rows = (records.topic_fields(rows, len(field)) != np.frombuffer(field, np.uint8)).any(axis=1)
    return differs if field else np.ones(len(rows), np.bool_)


def _topic_field(name: bytes) -> bytes:
    """Return a topic's field in plain records (length byte and name); empty if no such field can hold the name."""
    return bytes([len(name)]) + name if 0 < len(name) <= _LONGEST_PLAIN_TOPIC else b""


def _name_nothing(records: Records, rows: Integers) -> Integers:
    """Return which of the plain records at the indices `rows` have a topic that is not UTF-8: indices into `rows`."""
    return not_utf8(cut_spans(records.data, records.topic_spans.where(rows)))


# --- positions -------------------------------------------------------------------------------------------------------


class RecordPositions(NamedTuple):
    """Each record's position in its queue, and the indices of the responses that have to be read again (suspects)."""

    positions: Integers
    suspects: Sequence[int] = ()
    shifted: frozenset[MessageQueue] = frozenset()
    """Queues whose records have other positions than the offsets written in them."""
    is_filtered: bool = False
    """Whether some of the responses are filtered."""
    are_all_wanted: bool = False
    """Whether all records are known to be within the wanted offsets."""


def find_positions(records: Records) -> RecordPositions:
    """Return the positions of all records; raise `AnswerMismatch` if their order is impossible for a broker."""
    responses, inner = records.responses, records.inner_batch_rows()
    if not len(inner):
        if responses.covered == tuple(records.counts.tolist()) and _follow_each_other(records):
            return RecordPositions(records.stored_offsets, are_all_wanted=responses.are_whole)
        if not any(responses.covered) and all(responses.nexts) and _ascend_within(records):
            return RecordPositions(records.stored_offsets, is_filtered=True, are_all_wanted=responses.are_whole)
    return _PositionFinder(records, inner).place()


def _follow_each_other(records: Records) -> bool:
    """Return whether, in each response, the offsets written in its records begin at the pulled offset and go up by one.

    Every response must have records.
    """
    stored, begins = records.stored_offsets, records.begins
    steps = stored[1:] - stored[:-1]
    steps[begins[1:] - 1] = 1
    firsts = tuple(stored[begins].tolist())
    return np.count_nonzero(steps == 1) == len(steps) and firsts == records.responses.firsts


def _ascend_within(records: Records) -> bool:
    """Return whether, in each response, the offsets written in its records ascend and are among those that it covers.

    Return False for a light topic, whose records hold offsets of another queue. Every response must have records.
    """
    stored, begins, responses = records.stored_offsets, records.begins, records.responses
    if any(map(is_light, set(responses.queues))):
        return False
    ascends = stored[1:] > stored[:-1]
    ascends[begins[1:] - 1] = True
    return bool(
        np.count_nonzero(ascends) == len(ascends)
        and (stored[begins] >= responses.firsts).all()
        and (stored[begins + records.counts - 1] < responses.nexts).all()
    )


class _PositionFinder:
    """Computes the positions of records where they are not simply the offsets written in them.

    These are the cases: a response is filtered or incomplete, holds an inner batch, or belongs to a shifted queue, in
    which written offsets are higher than positions.
    """

    def __init__(self, records: Records, inner: Integers) -> None:
        responses = records.responses
        self._records = records
        self._queues = responses.queues
        self._firsts = np.array(responses.firsts, np.int64)
        self._covered = np.array(responses.covered, np.int64)
        self._nexts = np.array(responses.nexts, np.int64)
        self._counts = records.counts
        self._begins = records.begins
        self._inner = inner
        self._of = records.response_of
        self._stored = records.stored_offsets

    def place(self) -> RecordPositions:
        """Return the positions of all records, and which responses have to be read again.

        In a response that must hold one message for each offset, positions count up from the offset that was pulled. In
        a filtered response or one with inner batches, they are the offsets written in the records.
        """
        has_batches = np.zeros(len(self._covered), np.bool_)
        has_batches[self._of[self._inner]] = True
        counted = self._covered > 0
        plain = counted & ~has_batches
        suspects = plain & (self._counts != self._covered)
        suspects |= self._lack_messages(counted & has_batches)
        by_count = np.repeat(self._firsts - self._begins, self._counts) + np.arange(len(self._of))
        positions = np.where(plain[self._of], by_count, self._stored)
        shifted = self._check_order(plain & ~suspects, positions)
        filtered = ~counted & (self._nexts > 0)
        suspects |= self._have_impossible_offsets(filtered)
        return RecordPositions(positions, np.flatnonzero(suspects).tolist(), shifted, bool(filtered.any()))

    def _lack_messages(self, responses: Rows) -> Rows:
        """Return a mask of the responses that hold too few or too many messages for the offsets that they cover.

        Only those in the mask `responses` are examined; each must hold an inner batch. A response with an inner batch
        that cannot be unwrapped is left out.
        """
        short = np.zeros(len(responses), np.bool_)
        for response in np.flatnonzero(responses).tolist():
            count = self._maybe_count(response)
            short[response] = count is not None and count != self._covered[response]
        return short

    def _maybe_count(self, response: int) -> int | None:
        """Return how many messages of the response at this index are at offsets that it covers.

        Return None if an inner batch in it cannot be unwrapped.
        """
        first, begin = int(self._firsts[response]), int(self._begins[response])
        end, count = first + int(self._covered[response]), 0
        for row in range(begin, begin + int(self._counts[response])):
            record = self._records.record(row)
            base = record.queue_offset
            try:
                count += max(0, min(end, base + message_count_of(record)) - max(first, base))
            except DecodeError:
                return None
        return count

    def _check_order(self, responses: Rows, positions: Integers) -> frozenset[MessageQueue]:
        """Return the shifted queues: those in which offsets written in records are higher than the records' positions.

        Only the responses in the mask `responses` are examined: their positions were counted up from the first offset.
        Raise `AnswerMismatch` if written offsets are in an impossible order. They may go back in one case: after the
        broker restarts, it writes offsets that equal the positions again. Commit-log offsets ascend even then; if they
        do not, one record stands in the place of another.
        """
        ahead = np.where((responses & ~self._are_light)[self._of], self._stored - positions, 0)
        if not ahead.any():
            return frozenset()
        is_shifted = np.zeros(len(responses), np.bool_)
        is_shifted[self._of[ahead != 0]] = True
        moved_back = self._goes_back_in_log & is_shifted[self._of]
        disorder = np.flatnonzero((ahead < 0) | (self._goes_back & (ahead != 0)) | moved_back)
        if len(disorder):
            response, offset = int(self._of[disorder[0]]), self._stored[disorder[0]]
            what = f"holds messages out of order or twice (one has offset {offset})"
            raise mismatch(self._queues[response], int(self._firsts[response]), what)
        return frozenset(map(self._queues.__getitem__, np.unique(self._of[ahead != 0]).tolist()))

    def _have_impossible_offsets(self, responses: Rows) -> Rows:
        """Return a mask of the responses whose written offsets are impossible, or which are of light topics.

        Only the responses in the mask `responses` are examined; all are filtered. Offsets are impossible if they do not
        ascend, or lie outside the offsets that the response covers.
        """
        if not responses.any():
            return responses
        beyond = self._stored >= self._nexts[self._of]
        before = self._stored < self._firsts[self._of]
        before[self._inner] = False  # A batch may begin before the offset that was asked for.
        found = np.zeros(len(responses), np.bool_)
        found[self._of[beyond | before | self._goes_back]] = True
        return responses & (found | self._are_light)

    @cached_property
    def _goes_back(self) -> Rows:
        """Mask of the records whose written offset is not higher than that of the previous record in their response."""
        return self._falls(self._stored)

    @property
    def _goes_back_in_log(self) -> Rows:
        """Mask of the records whose commit-log offset is not higher than that of the previous one in their response."""
        return self._falls(self._records.field("physical_offset"))

    def _falls(self, values: npt.NDArray[np.int64]) -> Rows:
        falls: Rows = np.diff(values, prepend=-1) <= 0
        falls[self._begins[self._counts > 0]] = False
        return falls

    @cached_property
    def _are_light(self) -> Rows:
        """Mask of the responses of light topics, whose records hold offsets of another queue."""
        return np.array(list(map(is_light, self._queues)), np.bool_)


# --- suspects --------------------------------------------------------------------------------------------------------


class Recheck(Protocol):
    """The additional pulls that replace or check responses which cannot be decoded as they are."""

    def read_again(self, block: Block) -> Iterable[Block]:
        """Yield blocks with the wanted records of an incomplete response, pulled again from the master.

        Messages that are missing there too are treated as a loss.
        """

    def place(self, block: Block) -> Iterable[Block]:
        """Yield each wanted record of a filtered response as a block, whose `first` is the record's true queue offset.

        The true offsets are found by pulls without the filter.
        """

    def shifted_at(self, offsets: Mapping[MessageQueue, int]) -> Collection[MessageQueue]:
        """Return those of the queues that are shifted, given one offset to look at in each queue.

        A queue is shifted if the record at this offset has another offset written in it.
        """


class Suspects:
    """Finds and replaces the responses of one task that have to be read again, and remembers which queues are shifted.

    In a shifted queue, the offsets written in records are higher than the records' positions.
    """

    def __init__(self, recheck: Recheck | None, shifted: set[MessageQueue] | None = None) -> None:
        self._recheck = recheck
        self._shifted = set() if shifted is None else shifted

    def without_recheck(self) -> Suspects:
        """Return an object that raises an error instead of reading responses again.

        The two objects share the set of queues that are known to be shifted.
        """
        return Suspects(None, self._shifted)

    def find(self, records: Records, placed: RecordPositions) -> list[int]:
        """Return the indices of the responses that have to be read again; `placed` is the result of `find_positions`.

        This may pull messages, to learn which queues are shifted (have records at other offsets than those written in
        them).
        """
        self._note(placed.shifted)
        if not placed.is_filtered:
            return list(placed.suspects)
        responses = records.responses
        if self._recheck and (cuts := _doubtful_cuts(records)):
            self._note(self._recheck.shifted_at(cuts))
        if not (placed.suspects or self._shifted):
            return []
        filtered = [at for at, end in enumerate(responses.nexts) if end and not responses.covered[at]]
        misfits = {responses.queues[at] for at in placed.suspects if at in filtered}
        self._note(misfits)
        return sorted({*placed.suspects, *(at for at in filtered if responses.queues[at] in self._shifted)})

    def read_again(self, blocks: Sequence[Block], suspects: Collection[int]) -> Iterator[Block]:
        """Yield the blocks in order; in place of those at the indices `suspects`, yield blocks read again.

        Raise `AnswerMismatch` if there is a suspect, and no recheck to read it again.
        """
        for at, block in enumerate(blocks):
            if at not in suspects:
                yield block
            elif self._recheck is None:
                what = f"does not hold the messages of the {block.covered} offsets that it covers"
                raise mismatch(block.wanted.queue, block.first, what)
            else:
                yield from self._recheck.read_again(block) if block.covered else self._recheck.place(block)

    def _note(self, shifted: Collection[MessageQueue]) -> None:
        for queue in set(shifted) - self._shifted:
            self._shifted.add(queue)
            if not is_light(queue):
                _log.warning(_SHIFTED, queue)


def _doubtful_cuts(records: Records) -> dict[MessageQueue, int]:
    """Return {queue: last wanted offset} for the queues where a pull at this offset must show whether they are shifted.

    In a shifted queue, the offsets written in records are higher than the records' positions. So a record may be wanted
    although the offset written in it is beyond the wanted end. The result names the queues that have such a record in a
    filtered response. If a queue has several such responses, the one with the highest wanted end counts.
    """
    responses, response_of = records.responses, records.response_of
    ends = np.array(responses.ends)
    is_cut = (np.array(responses.covered) == 0) & (np.array(responses.nexts) > ends)
    if not is_cut.any():
        return {}
    behind = is_cut[response_of] & (records.stored_offsets >= ends[response_of])
    cut = np.unique(response_of[behind]).tolist()
    return {responses.queues[at]: int(ends[at]) - 1 for at in sorted(cut, key=ends.__getitem__)}
