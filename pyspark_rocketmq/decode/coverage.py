"""Compare what responses hold with the offsets that they cover, and give each record its position in the queue.

A response to a pull without a filter holds one message for each offset that it covers. So record i of a response of
the right count stands at `first + i`, whatever offset is written in it: after a message whose sysFlag its broker could
not store, the offsets written in a queue's records run ahead of their positions for good; such a queue is *shifted*.
Records of inner batches and of filtered responses stand at the offsets written in them, except in light topics, whose
records hold offsets of another queue.

One array step shows whether all responses are complete. A response that does not hold what it covers is a *suspect*
and is read again. A filtered response may hold any number of messages, so it becomes a suspect only by impossible
offsets. In a shifted queue a message may lie before the end of the wanted offsets, and its written offset behind it. So
where a response was cut, and written offsets lie behind the cut, the message before the cut is pulled without the
filter; and once a queue is known to be shifted, all its filtered responses are placed by pulling without the filter.
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
from .spans import Integers

__all__ = ["Placed", "Recheck", "Suspects", "check_queues", "place_records"]

_SHIFTED = (
    "%s: the offsets written in its messages differ from their positions, as after a message with an illegal sysFlag; "
    "queueOffset holds the position, storedQueueOffset the written offset"
)
_log = logging.getLogger(__name__)


# --- queues ----------------------------------------------------------------------------------------------------------


def check_queues(records: Records, stored_topic: Callable[[str], str]) -> None:
    """Raise `AnswerMismatch` unless all records name the queue of their response.

    `stored_topic` tells how records name a topic; empty if they name any. The topic's text is compared in the first
    record of each response, and its length in the others. `irregular` compares the topics of irregular records.
    """
    for row in _of_other_queues(records, stored_topic)[:1].tolist():
        response = int(records.response_of[row])
        record = records.record(row)
        what = f"holds a message of {record.topic}, queue {record.queue_id}"
        raise mismatch(records.responses.queues[response], records.responses.firsts[response], what)


def _of_other_queues(records: Records, stored_topic: Callable[[str], str]) -> Integers:
    queues = records.responses.queues
    begins = records.begins[records.counts > 0]
    names = {topic: stored_topic(topic).encode() for topic in {queue[0] for queue in queues}}
    differs: Rows = records.field("queue_id") != records.queue_ids
    if len(names) == 1 and not np.count_nonzero(differs) and _all_name(records, next(iter(names.values())), begins):
        return begins[:0]
    for topic, name in names.items():
        is_asked = np.array([queue.topic == topic for queue in queues])[records.response_of]
        rows = np.flatnonzero(is_asked)
        if name:
            differs[rows] |= _name_another(records, name, begins[is_asked[begins]])[rows]
        else:
            differs[rows] = False
    return np.flatnonzero(differs)


def _all_name(records: Records, name: bytes, begins: Integers) -> bool:
    """Return whether all records are plain and name this topic; its text is compared at `begins`."""
    sizes = records.topic_sizes
    if not name or np.count_nonzero(sizes == len(name) & 0xFF) < len(sizes):
        return False
    return records.topics_at(begins, len(name)).tobytes() == name * len(begins)


def _name_another(records: Records, name: bytes, begins: Integers) -> Rows:
    """Return which plain records have a topic of another length, or at `begins` another text."""
    plain = records.plain()
    differs: Rows = (records.topic_sizes != len(name) & 0xFF) & plain
    begins = begins[plain[begins] & ~differs[begins]]
    texts = records.topics_at(begins, len(name))
    differs[begins] = (texts != np.frombuffer(name, np.uint8)).any(axis=1)
    return differs


# --- positions -------------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """Positions of the records of some responses, and the responses that do not hold what they cover."""

    positions: Integers
    suspects: Sequence[int] = ()
    shifted: frozenset[MessageQueue] = frozenset()
    """Queues in whose records other offsets are written than they stand at."""
    is_filtered: bool = False
    """Whether there are filtered responses."""
    are_all_wanted: bool = False
    """Whether every record is known to stand at a wanted offset."""


def place_records(records: Records) -> Placed:
    """Return the positions of all records; raise `AnswerMismatch` if they come in an order that no broker stores."""
    responses, inner = records.responses, records.inner_rows()
    if not len(inner):
        if responses.covered == tuple(records.counts.tolist()) and _follow_each_other(records):
            return Placed(records.stored_offsets, are_all_wanted=responses.are_whole)
        if not any(responses.covered) and all(responses.nexts) and _ascend_within(records):
            return Placed(records.stored_offsets, is_filtered=True, are_all_wanted=responses.are_whole)
    return _Placing(records, inner).place()


def _follow_each_other(records: Records) -> bool:
    """Return whether the written offsets of each response go up one by one from its first; none is without records."""
    stored, begins = records.stored_offsets, records.begins
    steps = stored[1:] - stored[:-1]
    steps[begins[1:] - 1] = 1
    firsts = tuple(stored[begins].tolist())
    return np.count_nonzero(steps == 1) == len(steps) and firsts == records.responses.firsts


def _ascend_within(records: Records) -> bool:
    """Return whether the written offsets of each response go up within what it covers; none is empty, or light."""
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


class _Placing:
    """Positions in responses of which some are filtered, short, shifted, or hold inner batches."""

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

    def place(self) -> Placed:
        """Return positions by count where the count is that of the offsets, else as written."""
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

    def _are_short_of_batches(self, responses: Rows) -> Rows:
        """Return which responses with inner batches lack messages."""
        short = np.zeros(len(responses), np.bool_)
        for response in np.flatnonzero(responses).tolist():
            count = self._maybe_count(response)
            short[response] = count is not None and count != self._covered[response]
        return short

    def _maybe_count(self, response: int) -> int | None:
        """Count a response's messages at covered offsets; return None if an inner batch cannot be unwrapped."""
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
        """Return the shifted queues; raise unless the offsets written in counted responses ascend.

        They go back in one lawful case: a broker that was restarted goes on with the positions. Offsets in the log
        ascend even then, which tells it from a record that was put in the place of another.
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

    def _are_misfits(self, responses: Rows) -> Rows:
        """Return which filtered responses are light, or hold offsets that do not ascend within what they cover."""
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
        """Records whose written offset is no higher than that of the record before, in the same response."""
        return self._falls(self._stored)

    @property
    def _goes_back_in_log(self) -> Rows:
        """Records that lie no further in the commit log than the record before, in the same response."""
        return self._falls(self._records.field("physical_offset"))

    def _falls(self, values: npt.NDArray[np.int64]) -> Rows:
        falls: Rows = np.diff(values, prepend=-1) <= 0
        falls[self._begins[self._counts > 0]] = False
        return falls

    @cached_property
    def _are_light(self) -> Rows:
        """Responses whose records hold offsets of another queue."""
        return np.array(list(map(is_light, self._queues)), np.bool_)


# --- suspects --------------------------------------------------------------------------------------------------------


class Recheck(Protocol):
    """The pulls that replace or check responses which do not hold what they cover."""

    def read_again(self, block: Block) -> Iterable[Block]:
        """Yield the wanted records of a short response, pulled from the master; judge missing ones as a loss."""

    def place(self, block: Block) -> Iterable[Block]:
        """Yield the wanted records of a filtered response one by one; each one's `first` is its position."""

    def shifted_at(self, offsets: Mapping[MessageQueue, int]) -> Collection[MessageQueue]:
        """Return the queues in which another offset is written in the record that stands there."""


class Suspects:
    """Responses of one task that do not hold what they cover, and the queues known to be shifted."""

    def __init__(self, recheck: Recheck | None, shifted: set[MessageQueue] | None = None) -> None:
        self._recheck = recheck
        self._shifted = set() if shifted is None else shifted

    def without_recheck(self) -> Suspects:
        """Return suspects of the same queues that are refused instead of read again."""
        return Suspects(None, self._shifted)

    def find(self, records: Records, placed: Placed) -> list[int]:
        """Return the responses that have to be read again; pull the messages before doubtful cuts to know."""
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
        """Yield the blocks, suspects replaced by blocks read again; raise `AnswerMismatch` without a recheck."""
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
    """Return the last offset before each queue's last cut behind which written offsets of a filtered response lie."""
    responses, response_of = records.responses, records.response_of
    ends = np.array(responses.ends)
    is_cut = (np.array(responses.covered) == 0) & (np.array(responses.nexts) > ends)
    if not is_cut.any():
        return {}
    behind = is_cut[response_of] & (records.stored_offsets >= ends[response_of])
    cut = np.unique(response_of[behind]).tolist()
    return {responses.queues[at]: int(ends[at]) - 1 for at in sorted(cut, key=ends.__getitem__)}
