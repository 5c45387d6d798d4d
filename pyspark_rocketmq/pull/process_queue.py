"""Buffer one queue's messages between pulling and consuming, and tell when pulling must wait.

This is RocketMQ's ProcessQueue, operation by operation. It counts messages and body bytes, keeps entries in offset
order, and knows the smallest offset that is not consumed yet, which a group member may commit.

An *entry* is one or more consecutive messages: some messages for a group member, a whole response for the Spark reader,
so that adding hundreds of messages costs as much as adding one. The queue uses only an entry's first and last offset,
message count and size of bodies. Entries must not overlap; an entry that is put again is not counted again.

Other modules wait, pull and send. The methods here only change state, under one lock, and return.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from threading import Lock
from typing import Generic, NamedTuple, Protocol, TypeVar

from sortedcontainers import SortedDict

from ..errors import LocalProtocolError, RocketMQError

__all__ = [
    "NOTHING",
    "Cached",
    "Entry",
    "Expected",
    "FlowLimits",
    "Hold",
    "ProcessQueue",
    "expect",
    "find_exceeded",
]

MEBIBYTE = 2**20
ANSWER_BYTES = 256 * 2**10
"""The most bytes that a broker returns from memory in one pull."""

_CLEANED_AT_ONCE = 16
_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Cached(Protocol):
    """The attributes of an entry that a process queue uses."""

    @property
    def offset(self) -> int:
        """The offset of the entry's first message."""

    @property
    def last_offset(self) -> int:
        """The offset of the entry's last message."""

    @property
    def message_count(self) -> int:
        """The number of messages in the entry."""

    @property
    def body_bytes(self) -> int:
        """The size of the entry's message bodies, in bytes."""


_E = TypeVar("_E", bound=Cached)


class Entry(NamedTuple, Generic[_T]):
    """One or more consecutive messages of a process queue; `item` holds them, in any form."""

    offset: int
    last_offset: int
    message_count: int
    body_bytes: int
    item: _T


# --- flow control -----------------------------------------------------------------------------------------------------


class Hold(Enum):
    """The limits because of which a pull must wait; a value is the name of the option that sets the limit."""

    MESSAGES = "pullThresholdForQueue"
    BYTES = "pullThresholdSizeForQueue"
    SPAN = "consumeConcurrentlyMaxSpan"


class FlowLimits(NamedTuple):
    """Limits of what a queue may hold while it is pulled; a queue that holds more is not pulled."""

    message_count: int = 1000
    body_mib: int = 100
    span: int = 2000

    def divided(self, topic_messages: int | None, topic_mib: int | None, queue_count: int) -> FlowLimits:
        """Return the limits of each of `queue_count` queues of a topic.

        A limit of the topic that is not None replaces the limit per queue: it is divided by the number of queues, and
        the result is at least 1.
        """
        return self._replace(
            message_count=self.message_count if topic_messages is None else max(1, topic_messages // queue_count),
            body_mib=self.body_mib if topic_mib is None else max(1, topic_mib // queue_count),
        )


class Expected(NamedTuple):
    """The most messages and bytes that pulls in flight may still bring."""

    message_count: int
    body_bytes: int


NOTHING = Expected(0, 0)


@lru_cache  # Called before every pull, mostly with the same few numbers.
def expect(pulls_in_flight: int, messages_per_pull: int, stretches: tuple[int, ...] = ()) -> Expected:
    """Return the most messages and bytes that pulls in flight, and pulls to be repeated, may still bring.

    `stretches` holds one number for each pull to be repeated: how many offsets it requests.
    """
    return Expected(
        pulls_in_flight * messages_per_pull + sum(stretches), (pulls_in_flight + len(stretches)) * ANSWER_BYTES
    )


def find_exceeded(
    message_count: int, body_bytes: int, span: int | None, limits: FlowLimits, expected: Expected = NOTHING
) -> Hold | None:
    """Return the first exceeded limit, in RocketMQ's order (messages, bytes, span), or None.

    `span` is the queue's largest offset minus its smallest one; None if it is not limited. `expected` is added as if it
    had arrived: each of its messages widens the span by 1. Bytes are rounded down to whole MiB.
    """
    if message_count + expected.message_count > limits.message_count:
        return Hold.MESSAGES
    if (body_bytes + expected.body_bytes) // MEBIBYTE > limits.body_mib:
        return Hold.BYTES
    return None if span is None or span + expected.message_count <= limits.span else Hold.SPAN


# --- the queue --------------------------------------------------------------------------------------------------------


class ProcessQueue(Generic[_E]):
    """Entries that were pulled and are not consumed yet.

    In a concurrent queue, entries are removed by offset when they have been consumed. In an orderly queue, entries are
    taken in offset order and then committed, rolled back or put back. An orderly queue does not limit the span of its
    offsets and does not send back expired entries.
    """

    def __init__(self, *, orderly: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.orderly = orderly
        self.dropped = False
        """Whether the queue is not assigned to this member any more; results of consuming its entries are dropped."""
        self.locked = False
        """Whether this client holds the broker's lock of the queue."""
        self.consume_lock = Lock()
        """Held while the listener processes entries, so that the queue is not given to another member meanwhile."""
        self.is_consuming = False
        self.message_count = 0
        self.body_bytes = 0
        self.newest_offset = 0
        """The last offset of the entry that was added last; not always the largest offset."""
        self.backlog_count = 0
        """The broker's maximum offset minus the last offset put, as of the last `put` that gave a larger maximum."""
        self.last_pull_s = self.last_consume_s = self.last_lock_s = clock()
        self._clock = clock
        self._cached: SortedDict[int, _E] = SortedDict()
        self._taken: dict[int, _E] = {}
        self._started_s: dict[int, float] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        flags = [name for name in ("dropped", "locked", "is_consuming") if getattr(self, name)]
        state = ", ".join([*flags, f"{len(self._taken)} taken"])
        return f"<ProcessQueue {self.message_count} messages, {self.body_bytes} bytes, span {self.max_span}, {state}>"

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def cached_offsets(self) -> list[int]:
        """The first offsets of the cached entries, ascending; taken entries are not among them."""
        with self._lock:
            return list(self._cached)

    @property
    def taken_offsets(self) -> list[int]:
        """The first offsets of the entries that are taken and not committed, ascending."""
        with self._lock:
            return sorted(self._taken)

    @property
    def max_span(self) -> int:
        """The largest minus the smallest offset of the cached entries."""
        with self._lock:
            return self._span()

    def __contains__(self, offset: int) -> bool:
        """Return whether an entry with this first offset is cached."""
        with self._lock:
            return offset in self._cached

    def first(self) -> _E | None:
        """Return the cached entry with the smallest offset; None if no entry is cached."""
        with self._lock:
            return self._first()

    def entries(self) -> list[_E]:
        """Return the cached entries in ascending order of their offsets."""
        with self._lock:
            return list(self._cached.values())

    def held_by(self, limits: FlowLimits, expected: Expected = NOTHING) -> Hold | None:
        """Return the limit that forbids the next pull, or None; `expected` counts as if it had arrived."""
        with self._lock:
            span = None if self.orderly else self._span()
            return find_exceeded(self.message_count, self.body_bytes, span, limits, expected)

    def is_lock_expired(self, max_live_s: float = 30.0) -> bool:
        """Return whether the last renewal of the lock is older than `max_live_s`; then the lock may be lost."""
        return self._clock() - self.last_lock_s > max_live_s

    def is_pull_expired(self, max_idle_s: float = 120.0) -> bool:
        """Return whether no pull was tried for longer than `max_idle_s`, so that a member must start pulling again."""
        return self._clock() - self.last_pull_s > max_idle_s

    # --- filling ------------------------------------------------------------------------------------------------------

    def put(self, entries: Sequence[_E], broker_max_offset: int | None = None) -> bool:
        """Cache entries; return True if the caller must start a consumer, because none is running.

        An entry whose offset is cached already replaces the cached entry; then the counts of messages and bytes do not
        change. `broker_max_offset` is the end of the queue at the broker, from which `backlog_count` is computed.
        """
        with self._lock:
            for entry in entries:
                if entry.offset not in self._cached:
                    self.message_count += entry.message_count
                    self.body_bytes += entry.body_bytes
                    self.newest_offset = entry.last_offset
                self._cached[entry.offset] = entry
                self._started_s.pop(entry.offset, None)
            if entries and broker_max_offset is not None and broker_max_offset > entries[-1].last_offset:
                self.backlog_count = broker_max_offset - entries[-1].last_offset
            starts = bool(self._cached) and not self.is_consuming
            self.is_consuming = self.is_consuming or starts
            return starts

    def clear(self) -> None:
        """Remove all entries and set the counts to 0; `dropped`, `locked` and the other flags stay."""
        with self._lock:
            self._cached.clear()
            self._taken.clear()
            self._started_s.clear()
            self.message_count = self.body_bytes = self.newest_offset = 0

    # --- concurrent consumption ---------------------------------------------------------------------------------------

    def begin_consuming(self, offset: int, now_s: float) -> None:
        """Note the time when the listener got the entry at `offset`, for `clean_expired`."""
        with self._lock:
            if offset in self._cached:
                self._started_s[offset] = now_s

    def remove(self, offsets: Iterable[int]) -> int | None:
        """Remove the consumed entries at `offsets`; return the offset to commit: the smallest that is still cached.

        If no entry is left, it is one past the entry added last. Return None if no entry was cached before the call.
        """
        with self._lock:
            return self._remove(offsets)

    def shrink(self, entry: _E, rest: _E) -> None:
        """Replace a cached entry by `rest`: some of its messages, or the same messages with another size.

        The counts change accordingly. Do nothing if the entry is not cached any more.
        """
        with self._lock:
            if self._cached.pop(entry.offset, None) is not None:
                self._started_s.pop(entry.offset, None)
                self._cached[rest.offset] = rest
                # One assignment, because other threads read the count without the lock: it must never be 0 in between.
                self.message_count += rest.message_count - entry.message_count
                self.body_bytes += rest.body_bytes - entry.body_bytes

    def clean_expired(self, timeout_s: float, send_back: Callable[[_E], object]) -> list[_E]:
        """Send back entries that the listener has processed for longer than `timeout_s`, and remove them.

        Return the removed entries. Begin with the lowest offset and stop at the first entry that is not expired, as
        RocketMQ does. The lock is not held while `send_back` runs.
        """
        removed = []
        for _ in range(min(len(self.cached_offsets), _CLEANED_AT_ONCE)):
            entry = self._first_expired(timeout_s)
            if entry is None:
                break
            try:
                send_back(entry)
            except RocketMQError as error:
                _log.warning("the expired entry at offset %d was not sent back: %s", entry.offset, error)
            else:
                removed += self._remove_if_first(entry)
        return removed

    # --- orderly consumption ------------------------------------------------------------------------------------------

    def take(self, entry_count: int) -> list[_E]:
        """Move the first `entry_count` cached entries to the taken ones, and return them.

        If no entry is cached, return an empty list and set `is_consuming` to False.
        """
        with self._lock:
            entries = [self._cached.popitem(0)[1] for _ in range(min(entry_count, len(self._cached)))]
            for entry in entries:
                self._taken[entry.offset] = entry
            self.is_consuming = self.is_consuming and bool(entries)
            return entries

    def commit(self) -> int:
        """Remove all taken entries; return the offset to commit, one past the last. Raise if none is taken."""
        with self._lock:
            if not self._taken:
                raise LocalProtocolError("a commit without taken entries", advice="take entries first")
            following = self._taken[max(self._taken)].last_offset + 1
            for entry in self._taken.values():
                self._discount(entry)
            self._taken.clear()
            return following

    def rollback(self) -> None:
        """Move all taken entries back to the cached ones."""
        with self._lock:
            self._cached.update(self._taken)
            self._taken.clear()

    def put_back(self, offsets: Iterable[int]) -> None:
        """Move the taken entries at these offsets back to the cached ones."""
        with self._lock:
            for offset in offsets:
                if offset in self._taken:
                    self._cached[offset] = self._taken.pop(offset)

    # --- under the lock -----------------------------------------------------------------------------------------------

    def _first(self) -> _E | None:
        return self._cached.peekitem(0)[1] if self._cached else None

    def _span(self) -> int:
        if not self._cached:
            return 0
        return int(self._cached.peekitem(-1)[1].last_offset - self._cached.peekitem(0)[0])

    def _remove(self, offsets: Iterable[int]) -> int | None:
        self.last_consume_s = self._clock()
        if not self._cached:
            return None
        for offset in offsets:
            if offset in self._cached:
                self._discount(self._cached.pop(offset))
                self._started_s.pop(offset, None)
        return self._cached.peekitem(0)[0] if self._cached else self.newest_offset + 1

    def _discount(self, entry: _E) -> None:
        """Subtract a removed entry from the counts of messages and bytes.

        When no message is left, set the bytes to 0, because they may be wrong: an entry that replaces another one at
        the same offset is not counted.
        """
        self.message_count -= entry.message_count
        self.body_bytes = self.body_bytes - entry.body_bytes if self.message_count else 0

    def _first_expired(self, timeout_s: float) -> _E | None:
        now = self._clock()
        with self._lock:
            first = self._first()
            if first is None or self.orderly:
                return None
            return first if now - self._started_s.get(first.offset, now) > timeout_s else None

    def _remove_if_first(self, entry: _E) -> list[_E]:
        with self._lock:
            first = self._first()
            if first is None or first.offset != entry.offset:
                return []
            self._remove([entry.offset])
            return [entry]
