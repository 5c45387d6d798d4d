"""Test the process queue against sequences recorded from the Java class, and with random sequences of operations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import ConnectError, LocalProtocolError
from pyspark_rocketmq.pull.process_queue import (
    MEBIBYTE,
    NOTHING,
    Entry,
    Expected,
    FlowLimits,
    Hold,
    ProcessQueue,
    expect,
    find_exceeded,
)

CASES = json.loads((Path(__file__).parents[1] / "golden" / "process_queue.json").read_text(encoding="utf-8"))["cases"]
MINUTE_S = 60.0


def message_entry(offset: int, body_bytes: int, item: str) -> Entry[str]:
    """Return the entry of one message."""
    return Entry(offset, offset, 1, body_bytes, item)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Player:
    """Carries out recorded operations on a process queue, and gives the results in the format of the records."""

    def __init__(self, *, orderly: bool = False) -> None:
        self.clock = Clock()
        self.queue: ProcessQueue[Entry[str]] = ProcessQueue(orderly=orderly, clock=self.clock)

    def play(self, operation: str) -> str:
        """Carry out one operation; return its result as text."""
        name, *words = operation.split()
        handlers: dict[str, Callable[[list[str]], str]] = {
            "put": self._put,
            "remove": lambda words: str(-1 if (got := self.queue.remove(map(int, words))) is None else got),
            "take": lambda words: self._list(entry.offset for entry in self.queue.take(int(words[0]))),
            "commit": self._commit,
            "rollback": lambda _: self._null(self.queue.rollback),
            "again": lambda words: self._null(lambda: self.queue.put_back(map(int, words))),
            "clear": lambda _: self._null(self.queue.clear),
            "start": self._start,
            "clean": self._clean,
        }
        return handlers[name](words)

    def _put(self, words: list[str]) -> str:
        pairs = [tuple(map(int, word.split("/"))) for word in words]
        return str(self.queue.put([message_entry(offset, max(0, size), "") for offset, size in pairs])).lower()

    def _commit(self, _: list[str]) -> str:
        try:
            return str(self.queue.commit())
        except LocalProtocolError:
            return "EX:NoSuchElementException"

    def _start(self, words: list[str]) -> str:
        offset, minutes = map(int, words)
        self.queue.begin_consuming(offset, self.clock.now_s - minutes * MINUTE_S)
        return "null"

    def _clean(self, _: list[str]) -> str:
        sent: list[str] = []
        self.queue.clean_expired(15 * MINUTE_S, lambda entry: sent.append(f"{entry.offset}:3"))
        return self._list(sent)

    @staticmethod
    def _list(items: Any) -> str:
        return f"[{','.join(map(str, items))}]"

    @staticmethod
    def _null(action: Callable[[], None]) -> str:
        action()
        return "null"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_sequence(case: dict[str, Any]) -> None:
    """After each recorded operation, the return value and the whole state equal those of the Java class."""
    player = Player(orderly=any(step["op"] == "clean orderly" for step in case["steps"]))
    queue = player.queue

    for step in case["steps"]:
        assert player.play(step["op"]) == step["returns"], step["op"]
        assert (queue.message_count, queue.body_bytes) == (step["msgCount"], step["msgSize"])
        assert (queue.cached_offsets, queue.taken_offsets) == (step["tree"], step["consumingOrderly"])
        assert (queue.max_span, queue.is_consuming) == (step["maxSpan"], step["consumingFlag"])
        assert queue.newest_offset == step["queueOffsetMax"]


def test_all_sequences_are_played() -> None:
    """The file of recorded sequences holds all seventeen."""
    assert [case["id"] for case in CASES] == [f"PQ-{number:02}" for number in range(1, 18)]


def filled(offsets: range | list[int], **others: Any) -> ProcessQueue[Entry[str]]:
    """Return a process queue that holds a message of ten bytes at each of these offsets."""
    queue: ProcessQueue[Entry[str]] = ProcessQueue(**others)
    queue.put([message_entry(offset, 10, f"m{offset}") for offset in offsets])
    return queue


@given(st.sets(st.integers(0, 50), min_size=1), st.randoms(use_true_random=False))
def test_the_commit_never_passes_what_is_not_done(offsets: set[int], random: Any) -> None:
    """In any order of consumption, the offset to commit is the smallest one not consumed; at the end, the next one."""
    queue = filled(sorted(offsets))
    order = sorted(offsets, key=lambda _: random.random())

    for done, offset in enumerate(order, 1):
        left = order[done:]
        assert queue.remove([offset]) == (min(left) if left else max(offsets) + 1)
        assert queue.message_count == len(left) and queue.body_bytes == 10 * len(left)


@given(st.lists(st.sampled_from(["take 1", "take 3", "commit", "rollback", "again"]), max_size=20))
def test_orderly_consumption_hands_out_in_order_and_loses_nothing(operations: list[str]) -> None:
    """After any orderly operations, each entry is cached, taken or committed, and commits ascend without a gap."""
    queue = filled(range(10))
    committed = 0
    for operation in operations:
        match operation.split():
            case ["take", count]:
                lowest = queue.cached_offsets[: int(count)]
                assert [entry.offset for entry in queue.take(int(count))] == lowest
            case ["commit"] if queue.taken_offsets:
                committed = queue.commit()
            case ["rollback"]:
                queue.rollback()
            case ["again"]:
                queue.put_back(queue.taken_offsets)
        assert queue.taken_offsets + queue.cached_offsets == list(range(committed, 10))
        assert queue.message_count == 10 - committed


def test_answers_count_as_their_messages() -> None:
    """If an entry is a whole response, counts, span and commits are those of its messages."""
    queue: ProcessQueue[Entry[bytes]] = ProcessQueue()
    queue.put([Entry(132, 163, 32, 3200, b"second"), Entry(100, 131, 30, 3000, b"first")])

    assert (queue.message_count, queue.body_bytes, queue.max_span) == (62, 6200, 63)
    assert [entry.item for entry in queue.take(2)] == [b"first", b"second"]
    assert (queue.commit(), queue.message_count, queue.body_bytes) == (164, 0, 0)


def test_an_answer_without_messages_keeps_its_place() -> None:
    """If an entry holds no messages, it keeps its place in offset order and adds nothing to the counts."""
    queue: ProcessQueue[Entry[bytes]] = ProcessQueue()
    queue.put([Entry(0, 31, 0, 0, b""), Entry(32, 63, 5, 50, b"five")])

    first = queue.first()

    assert first is not None and first.last_offset == 31
    assert (queue.message_count, queue.remove([0]), 32 in queue, 0 in queue) == (5, 32, True, False)


def test_broker_lag_is_kept_while_it_is_known() -> None:
    """The backlog changes only when a `put` gives a broker's maximum offset that is above the last entry."""
    queue: ProcessQueue[Entry[str]] = ProcessQueue()

    for offset, broker_max_offset in [(4, 100), (5, None), (6, 6)]:
        queue.put([message_entry(offset, 1, "")], broker_max_offset)

    assert queue.backlog_count == 96


def test_the_last_entry_of_a_put_decides_about_the_backlog() -> None:
    """If several entries are put, the backlog begins after the last of them, and nothing changes without entries."""
    queue: ProcessQueue[Entry[str]] = ProcessQueue()

    queue.put([message_entry(4, 1, ""), message_entry(9, 1, "")], 100)
    queue.put([message_entry(10, 1, ""), message_entry(20, 1, "")], 15)
    queue.put([], 1000)

    assert queue.backlog_count == 91


def test_a_new_queue_is_empty_and_neither_locked_nor_dropped() -> None:
    """A new queue holds nothing, and nobody consumes it."""
    queue: ProcessQueue[Entry[str]] = ProcessQueue()

    assert repr(queue) == "<ProcessQueue 0 messages, 0 bytes, span 0, 0 taken>"
    assert (queue.newest_offset, queue.backlog_count, queue.orderly) == (0, 0, False)


def test_locks_and_pulls_expire() -> None:
    """A lock expires after more than 30 s and a pull after more than 120 s, unless an argument gives another time."""
    clock = Clock()
    queue: ProcessQueue[Entry[str]] = ProcessQueue(clock=clock)

    clock.now_s += 30
    assert not queue.is_lock_expired() and queue.is_lock_expired(max_live_s=29)
    clock.now_s += 90
    assert queue.is_lock_expired() and not queue.is_pull_expired()
    queue.last_lock_s = clock.now_s
    clock.now_s += 1
    assert queue.is_pull_expired() and not queue.is_lock_expired()


def test_removing_tells_that_somebody_consumes() -> None:
    """Every call of `remove`, even without offsets, sets the time of the last consumption."""
    clock = Clock()
    queue: ProcessQueue[Entry[str]] = ProcessQueue(clock=clock)
    clock.now_s += 7

    queue.remove([])

    assert queue.last_consume_s == clock.now_s


def test_clearing_keeps_the_flags() -> None:
    """After `clear`, no entries are left and the counts are 0, but the flags are the same."""
    queue = filled(range(3))
    queue.dropped = queue.locked = True
    queue.take(1)

    queue.clear()

    assert repr(queue) == "<ProcessQueue 0 messages, 0 bytes, span 0, dropped, locked, is_consuming, 0 taken>"


def test_cleaning_stops_at_sixteen() -> None:
    """If twenty entries have expired, one call of `clean_expired` sends back sixteen."""
    clock = Clock()
    queue = filled(range(20), clock=clock)
    for offset in range(20):
        queue.begin_consuming(offset, clock.now_s)
    clock.now_s += 901

    removed = queue.clean_expired(900, lambda entry: None)

    assert [entry.offset for entry in removed] == list(range(16))


def test_cleaning_keeps_what_cannot_be_sent_back(caplog: pytest.LogCaptureFixture) -> None:
    """If sending an expired entry back fails, the entry stays, and the log names the reason."""
    clock = Clock()
    queue = filled(range(2), clock=clock)
    for offset in range(2):
        queue.begin_consuming(offset, clock.now_s)
    clock.now_s += 901

    def refuse(entry: Entry[str]) -> None:
        raise ConnectError("connection refused")

    assert queue.clean_expired(900, refuse) == []
    assert queue.cached_offsets == [0, 1] and "connection refused" in caplog.text


def test_cleaning_leaves_what_was_done_meanwhile() -> None:
    """If an entry is removed while it is sent back, it is not removed twice."""
    clock = Clock()
    queue = filled(range(2), clock=clock)
    queue.begin_consuming(0, clock.now_s)
    clock.now_s += 901

    removed = queue.clean_expired(900, lambda entry: queue.remove([entry.offset]))

    assert (removed, queue.cached_offsets, queue.message_count) == ([], [1], 1)


def test_an_entry_put_again_is_not_expired() -> None:
    """If an entry is put again, it does not expire, because the listener has not got it yet."""
    clock = Clock()
    queue = filled([5], clock=clock)
    queue.begin_consuming(5, clock.now_s)
    clock.now_s += 901
    queue.put([message_entry(5, 10, "again")])

    assert queue.clean_expired(900, lambda entry: None) == []


# --- flow control -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message_count", "body_bytes", "span", "hold"),
    [
        (1000, 101 * MEBIBYTE - 1, 2000, None),
        (1001, 0, 0, Hold.MESSAGES),
        (0, 101 * MEBIBYTE, 0, Hold.BYTES),
        (0, 0, 2001, Hold.SPAN),
        (1001, 101 * MEBIBYTE, 2001, Hold.MESSAGES),
        (0, 101 * MEBIBYTE, 2001, Hold.BYTES),
    ],
)
def test_limits_are_strict_and_tested_in_order(
    message_count: int, body_bytes: int, span: int, hold: Hold | None
) -> None:
    """A limit is exceeded only above its value, in whole MiB; messages are tested first, then bytes, then the span."""
    assert find_exceeded(message_count, body_bytes, span, FlowLimits()) is hold


def test_pulls_under_way_count_as_what_they_may_bring() -> None:
    """Pulls in flight count with the most that they may bring, so a limit is exceeded by one pull at most."""
    limits = FlowLimits(message_count=100, body_mib=1)

    assert find_exceeded(36, 0, 0, limits, expect(2, 32)) is None
    assert find_exceeded(37, 0, 0, limits, expect(2, 32)) is Hold.MESSAGES
    assert find_exceeded(0, 0, 0, limits, expect(7, 1, stretches=(3,))) is Hold.BYTES
    assert expect(2, 32, stretches=(5, 7)) == Expected(76, 4 * 262_144)
    assert expect(0, 32) == NOTHING


@given(st.integers(1, 200), st.integers(1, 32), st.integers(1, 40))
def test_a_queue_overshoots_by_one_pull_at_most(limit: int, per_pull: int, window: int) -> None:
    """For any number of allowed pulls in flight, their messages exceed the limit by one pull at most."""
    limits = FlowLimits(message_count=limit)
    in_flight = 0
    while in_flight < window and find_exceeded(0, 0, 0, limits, expect(in_flight, per_pull)) is None:
        in_flight += 1

    assert in_flight * per_pull <= limit + per_pull
    assert in_flight == window or in_flight * per_pull > limit


def test_only_unordered_queues_check_the_span() -> None:
    """If offsets span more than the limit, a concurrent queue must wait, but an orderly one may be pulled."""
    offsets = [0, 2001]

    assert filled(offsets).held_by(FlowLimits()) is Hold.SPAN
    assert filled(offsets, orderly=True).held_by(FlowLimits()) is None
    assert filled([0]).held_by(FlowLimits(message_count=10), expect(1, 10)) is Hold.MESSAGES


def test_limits_of_a_topic_are_divided() -> None:
    """If a topic has a limit, each queue gets its integer share of it, but at least 1, instead of its own limit."""
    limits = FlowLimits(message_count=7, body_mib=8)

    assert limits.divided(1000, None, 9) == FlowLimits(111, 8)
    assert limits.divided(None, 5, 9) == FlowLimits(7, 1)
    assert limits.divided(None, None, 9) == limits


def test_an_entry_may_shrink_to_what_is_left() -> None:
    """If an entry is replaced by its last part, counts and first offset change, and this part has not expired."""
    clock = Clock()
    queue: ProcessQueue[Entry[str]] = ProcessQueue(clock=clock)
    whole, rest = Entry(0, 9, 10, 1000, "whole"), Entry(6, 9, 4, 400, "rest")
    queue.put([whole])
    queue.begin_consuming(0, clock.now_s)

    queue.shrink(whole, rest)
    clock.now_s += 901

    assert (queue.cached_offsets, queue.message_count, queue.body_bytes) == ([6], 4, 400)
    assert queue.clean_expired(900, lambda entry: None) == []


def test_an_entry_that_is_gone_does_not_come_back() -> None:
    """If an entry has been removed before it shrinks, it is not added again."""
    queue = filled([0, 1])
    gone = message_entry(0, 10, "0")
    queue.remove([0])

    queue.shrink(gone, gone)

    assert (queue.cached_offsets, queue.message_count) == ([1], 1)


def test_an_entry_that_shrinks_never_seems_to_be_gone() -> None:
    """If an entry shrinks, the message count is never 0 meanwhile, because pulling reads it without the lock."""
    counts: list[int] = []

    class Watched(ProcessQueue[Entry[str]]):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            counts.append(self.__dict__.get("message_count", 0))

    queue, whole = Watched(), Entry(0, 9, 10, 1000, "whole")
    queue.put([whole])
    counts.clear()
    queue.shrink(whole, Entry(6, 9, 4, 400, "rest"))

    assert set(counts) == {4}
