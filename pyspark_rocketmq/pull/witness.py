"""Vouch for what a reader cannot count.

A filter and compaction leave offsets out, so an answer does not tell whether retention took messages that it should
hold: brokers delete the log first and raise the queue's minimum offset up to ten seconds later. But retention takes
from the front. So the answers of one broker process are gathered in an *interval*, and after the last of them one
message is pulled without the filter at the lowest offset of the interval: the *look*. If its message is there, it was
there when the answers were made, and so was all that follows it. If not, messages of the interval may be missing.

Invariant: an answer belongs to exactly one interval until a look that was sent after it has been answered. Replicas
delete on their own, so each process has intervals of its own. Looks are ordinary pulls in flight, at most one a second
for each process, and one at the end of the range.

No decision rests on time: a task may have been stopped between two looks. What decides is what a look is answered.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..cluster.broker import Brokers
from ..cluster.routes import MASTER_ID, Place
from ..cluster.servers import ServerRequest
from ..errors import DataLossError, DecodeError
from ..model import MessageQueue, QueueRange
from ..net.deadline import Deadline
from ..wire.commands import GetMinOffsetRequestHeader, OffsetResponseHeader
from ..wire.record import decode_record, message_count_of
from ..wire.scan import first_queue_offset, record_starts
from ..wire.sys_flag import SysFlag
from .cursor import Request
from .outcome import PULL_CODES, Outcome, PullStatus, read_outcome
from .settings import PullSettings, Subscription
from .tally import Tally, Unvouched, count_within
from .template import pull_header

if TYPE_CHECKING:
    from .reader import LossPolicy

__all__ = ["Look", "Unvouched", "Witness", "is_readable", "vouch"]

LOOK_INTERVAL_S = 1.0
_LOOKS_AT_A_HOLE = 10
"""So many looks at a hole of a compacted topic, a second apart, before the minimum is asked for: brokers raise it
within `cleanResourceInterval`, 10 s unless set."""
_RESET_PAUSE_S = 0.1
_FILE_STEP = 2**16
"""The files of a commit log begin at multiples of their size, which is a multiple of this."""
_PLACES = struct.Struct(">20xqqi")
"""Where a record holds its queue offset, its place in the log and its system flag."""
_log = logging.getLogger(__name__)


class Look(Request):
    """One offset that is pulled without the filter, to see whether its message is there."""

    place: Place
    """Whose answers it vouches for."""


@dataclass(slots=True)
class Interval:
    """Offsets that answers covered and for which nobody has vouched."""

    first: int
    end: int
    since: float
    """When the first answer came in."""
    hole_looks: int = 0
    """How many looks have found a hole at `first`."""
    tally: Tally = field(default_factory=Tally)
    """What was handed out of it."""

    def join(self, other: Interval) -> None:
        """Span both; looks are counted anew where `first` changes."""
        if other.first < self.first:
            self.first, self.hole_looks = other.first, 0
        self.end, self.since = max(self.end, other.end), min(self.since, other.since)
        self.tally.join(other.tally)


class _Account:
    """The intervals of one broker process."""

    __slots__ = ("asked", "fresh", "last_there", "looked_at")

    def __init__(self) -> None:
        self.fresh: Interval | None = None
        """What has come in since the last look was sent."""
        self.asked: Interval | None = None
        """What the look in flight vouches for."""
        self.looked_at = float("-inf")
        self.last_there: int | None = None
        """An offset whose message came in; a better witness than an offset that may be a hole."""

    def open_intervals(self) -> list[Interval]:
        """Return what nobody has vouched for."""
        return [interval for interval in (self.asked, self.fresh) if interval]

    def reopen(self, interval: Interval) -> None:
        """Have the next look vouch for what the look in flight was to vouch for."""
        self.asked = None
        self.add(interval)

    def add(self, interval: Interval) -> None:
        """Have the next look vouch for an interval, too."""
        if self.fresh:
            interval.join(self.fresh)
        self.fresh = interval


class Witness:
    """Vouches for the answers to one reader, or tells its policy about the loss."""

    def __init__(self, wanted: QueueRange, brokers: Brokers, policy: LossPolicy) -> None:
        self._wanted = wanted
        self._queue = wanted.queue
        self._brokers = brokers
        self._policy = policy
        self._accounts: dict[Place, _Account] = {}
        self._last_place: Place | None = None
        self._last = _Account()
        """The account of the last place; most answers come from there."""
        self._lowest_found: int | None = None
        """The lowest offset of a message that came in; kept for a range with an open front."""
        self._left = Tally()
        """What was answered by processes that are gone for good."""
        self._forgiven: list[tuple[Place, Interval]] = []
        """Holes that lay before the lowest message, and are judged again when a lower one comes in."""

    def __repr__(self) -> str:
        pending = {str(place.address): (each.asked, each.fresh) for place, each in self._accounts.items()}
        return f"<Witness of {self._queue}, {pending}>"

    @property
    def is_settled(self) -> bool:
        """Whether every answer has been vouched for or judged."""
        return not any(each.fresh or each.asked for each in self._accounts.values())

    # --- looking -----------------------------------------------------------------------------------------------------

    def took_in(self, place: Place, wanted: QueueRange, starts: Sequence[int], outcome: Outcome, now: float) -> None:
        """Note the answer from which these offsets are handed out, and where its records begin."""
        account = self._last if place is self._last_place else self._account(place)
        _, start, end, _ = wanted
        interval = account.fresh
        if interval is None or start < interval.first:
            interval = self._open(account, start, end, now)
        elif end > interval.end:
            interval.end = end
        interval.tally.add(start, end, count_within(outcome.body, starts, start, end))
        if outcome.body:
            account.last_there = outcome.next_offset - 1
            if self._wanted.is_front_open:
                self._note_found(first_queue_offset(outcome.body))

    def open(self, place: Place, start: int, end: int) -> None:
        """Note that answers from there for these offsets are to be vouched for."""
        self._open(self._account(place), start, end, 0.0)

    def _account(self, place: Place) -> _Account:
        account = self._accounts.get(place)
        if account is None:
            account = self._accounts[place] = _Account()
        self._last_place, self._last = place, account
        return account

    def _open(self, account: _Account, start: int, end: int, now: float) -> Interval:
        if account.fresh:
            account.fresh.join(Interval(start, end, now))
        else:
            account.fresh = Interval(self._first_to_see(account, start), end, now)
        return account.fresh

    def place_to_look(self, current: Place | None, now: float, *, is_last: bool) -> Place | None:
        """Return the process that is to be looked at now: one that has been left, or whose interval is old enough."""
        for place, account in self._accounts.items():
            if account.fresh is None or account.asked:
                continue
            if is_last or (
                account.looked_at <= now - LOOK_INTERVAL_S and self._is_ripe(account.fresh, place, current, now)
            ):
                return place
        return None

    def look(self, place: Place, now: float) -> Look:
        """Return the look that vouches for all that has come from there until now; it counts as sent."""
        account = self._accounts[place]
        interval = account.asked = account.fresh
        assert interval is not None, "nothing to vouch for"
        account.fresh, account.looked_at = None, now
        look = Look(interval.first, interval.first + 1)
        look.place = place
        return look

    # --- without the process that answered ---------------------------------------------------------------------------

    def leave(self, gone: Place, place: Place) -> None:
        """Give up a process that is gone for good: what it answered is to be counted again.

        Compaction changes counts, and keeps its messages apart from the log that retention deletes. So of a compacted
        topic the front is looked at in another place.
        """
        interval, self._last_place = self._accounts.pop(gone).fresh, None
        if interval is None:
            return
        if self._brokers.compacted.is_compacted(self._queue.topic, self._queue.broker_name):
            self._account(place).add(interval)
        else:
            self._left.join(interval.tally)

    def leave_others(self, current: Place) -> bool:
        """Give up the other processes at which a look is to be sent; return whether there were any."""
        accounts = self._accounts.items()
        others = [place for place, each in accounts if place != current and each.fresh and not each.asked]
        for place in others:
            self.leave(place, current)
        return bool(others)

    def unvouched(self) -> list[Unvouched]:
        """Return what processes answered that are gone for good, without the front of a range that is open there."""
        low = self._wanted.start
        if self._wanted.is_front_open:
            low = self._wanted.end if self._lowest_found is None else self._lowest_found
        return [
            Unvouched(QueueRange(self._queue, max(start, low), end), count)
            for start, end, count in self._left.parts()
            if end > low
        ]

    # --- judging -----------------------------------------------------------------------------------------------------

    def failed(self, look: Look) -> None:
        """A look brought no answer: it is to be sent again."""
        account = self._accounts.get(look.place)
        if account and account.asked:
            account.reopen(account.asked)

    def answered(self, look: Look, outcome: Outcome) -> float:
        """Judge an interval by its look; return for how long its queue is to be left alone before the next look."""
        account = self._accounts.get(look.place)
        if account is None:
            return 0.0  # The queue was given up meanwhile.
        interval = account.asked
        assert interval is not None, "an answer to no look"
        pause_s = self._judge(look.place, account, interval, outcome)
        account.asked = None
        return pause_s

    def give_up(self) -> None:
        """Nobody can vouch any more: tell what is open as a loss."""
        for account in self._accounts.values():
            for interval in account.open_intervals():
                self._policy.gap(self._queue, interval.first, interval.end)
        for wanted, _ in self.unvouched():
            self._policy.gap(self._queue, wanted.start, wanted.end)
        self._accounts.clear()
        self._left = Tally()
        self._last_place = None

    def _judge(self, place: Place, account: _Account, interval: Interval, outcome: Outcome) -> float:
        if outcome.was_reset:
            self._policy.was_reset(self._queue, interval.first, outcome.next_offset)
            account.reopen(interval)
            return _RESET_PAUSE_S
        if is_readable(interval.first, outcome) or self._is_before_the_front(place, account, interval, outcome):
            return 0.0
        return self._doubt(place, account, interval, outcome)

    def _doubt(self, place: Place, account: _Account, interval: Interval, outcome: Outcome) -> float:
        """The message is gone. Without compaction that is a loss; with it, only if the queue's minimum says so."""
        compacted = self._brokers.compacted.is_compacted(self._queue.topic, self._queue.broker_name)
        if not compacted:
            self._lose(interval, outcome, is_policy_known=compacted is not None)
        elif interval.hole_looks < _LOOKS_AT_A_HOLE:
            interval.hole_looks += 1
            account.reopen(interval)
            return LOOK_INTERVAL_S
        elif interval.first < fetch_minimum(self._queue, place, self._brokers):
            self._lose(interval, outcome, is_policy_known=True)
        return 0.0

    def _lose(self, interval: Interval, outcome: Outcome, *, is_policy_known: bool) -> None:
        end = interval.end
        if found_further_on(interval.first, outcome):
            end = min(lowest_readable(interval.first, outcome), end)
        try:
            self._policy.gap(self._queue, interval.first, end)
        except DataLossError as error:
            if not is_policy_known:
                error.advice += (
                    "; the broker did not tell whether the topic is compacted, which would make it no loss: grant "
                    "this user GET on the topic (request 351)"
                )
            raise

    # --- the front of a range ----------------------------------------------------------------------------------------

    def _is_before_the_front(self, place: Place, account: _Account, interval: Interval, outcome: Outcome) -> bool:
        """Whether what is missing lies before the first message that was found, in a range that begins with that."""
        if not self._wanted.is_front_open:
            return False
        readable, found = lowest_readable(interval.first, outcome), self._lowest_found
        if found is not None and readable > found:
            return False
        is_extent_known = found_further_on(interval.first, outcome)
        if found is not None and not is_extent_known and readable < interval.end:
            interval.first = readable
            account.reopen(interval)
            return True
        end = min(readable, interval.end) if is_extent_known else interval.end
        self._forgiven.append((place, Interval(interval.first, end, interval.since)))
        _log.info(
            "%s: the first message that can be read is at offset %d; the range was planned from %d (retention)",
            self._queue,
            readable if found is None else found,
            self._wanted.start,
        )
        return True

    def _note_found(self, offset: int) -> None:
        if self._lowest_found is None or offset < self._lowest_found:
            self._lowest_found = offset
            self._judge_forgiven_again(offset)

    def _judge_forgiven_again(self, found: int) -> None:
        """Open the holes again that do not lie before the lowest message any more: answers come in any order."""
        inside = [(place, hole) for place, hole in self._forgiven if hole.end > found]
        self._forgiven = [(place, hole) for place, hole in self._forgiven if hole.end <= found]
        for place, hole in inside:
            self._open(self._account(place), max(hole.first, found), hole.end, hole.since)

    def _first_to_see(self, account: _Account, start: int) -> int:
        """The offset to look at: compaction may have left a hole at `start`, so rather a message before it."""
        there = account.last_there
        if there is None or there >= start:
            return start
        return there if (self._queue.topic, self._queue.broker_name) in self._brokers.compacted.found else start

    def _is_ripe(self, interval: Interval, place: Place, current: Place | None, now: float) -> bool:
        return place != current or interval.since <= now - LOOK_INTERVAL_S


def vouch(
    wanted: QueueRange,
    brokers: Brokers,
    policy: LossPolicy,
    settings: PullSettings,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Look at the master whether retention has taken the front of a range, and tell the policy if so; waits for that.

    It vouches for every answer that came before, from the start of the range on.
    """
    queue, start, end, _ = wanted
    unfiltered = replace(settings, subscription=Subscription())
    broker = brokers.routes.route(queue.topic).broker(queue.broker_name)
    place = Place(MASTER_ID, broker.master())
    witness, stall = Witness(wanted, brokers, policy), Deadline.after(settings.stall_timeout_s)
    witness.open(place, start, end)
    while not (witness.is_settled or stall.expired):
        look = witness.look(place, now=0.0)
        header = pull_header(queue, unfiltered, look.start, 1)
        request = ServerRequest(place.address, header, b"", queue.broker_name, place.broker_id)
        outcome = read_outcome(brokers.servers.ask(request, welcome=PULL_CODES).command)
        sleep(witness.answered(look, outcome))
    witness.give_up()


def is_readable(offset: int, outcome: Outcome) -> bool:
    """Whether a pull of one message from `offset` was answered with the message of this offset.

    The offset that the record itself holds does not count: producers can make brokers store a wrong one.
    """
    if outcome.status is not PullStatus.FOUND or not _is_one_record(outcome.body):
        return False
    queue_offset, physical_offset, sys_flag = _PLACES.unpack_from(outcome.body)
    if sys_flag & SysFlag.INNER_BATCH:
        return _maybe_first_of_batch(outcome, queue_offset) <= offset < outcome.next_offset
    # Asked for the message at place 0 of its log, once that is deleted, 5.5.0 answers with the head of its first file.
    is_file_head = queue_offset != offset and physical_offset > 0 and physical_offset % _FILE_STEP == 0
    return outcome.next_offset == offset + 1 and not is_file_head


def _is_one_record(body: memoryview) -> bool:
    try:
        return len(record_starts(body)) == 1
    except DecodeError:
        return False


def _maybe_first_of_batch(outcome: Outcome, stated: int) -> int:
    """Where an inner batch begins, by where it ends and how many it holds; what it states if it cannot be unpacked."""
    try:
        return outcome.next_offset - message_count_of(decode_record(outcome.body)[0])
    except DecodeError:
        return stated


def found_further_on(offset: int, outcome: Outcome) -> bool:
    """Whether a pull of one message from `offset`, whose message is gone, was answered with a later one.

    An answer without a message only tells where the broker stopped searching.
    """
    return outcome.status is PullStatus.FOUND and outcome.next_offset > offset + 1


def lowest_readable(offset: int, outcome: Outcome) -> int:
    """Return the lowest offset whose message may be there; known only where the pull found one."""
    if found_further_on(offset, outcome):
        return outcome.next_offset - 1
    return max(outcome.next_offset, offset + 1)


def fetch_minimum(queue: MessageQueue, place: Place, brokers: Brokers) -> int:
    """Ask one process for the minimum offset of a queue; pulls of a compacted topic name that of its survivors."""
    header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
    request = ServerRequest(place.address, header, b"", queue.broker_name, place.broker_id)
    return brokers.servers.ask(request).header(OffsetResponseHeader).offset
