"""Tests of `broker_stub.clock`."""

from __future__ import annotations

import time
from functools import partial

from broker_stub.clock import Clock


def test_a_frozen_clock_moves_by_advance_only() -> None:
    """If the clock is frozen, elapsed time and wall time change only by `advance`."""
    clock = Clock(frozen=True)
    before = clock.now_ms(), clock.elapsed_ms()

    clock.advance(1_500)

    assert (clock.now_ms() - before[0], clock.elapsed_ms() - before[1]) == (1_500, 1_500)


def test_a_running_clock_follows_the_machine() -> None:
    """If the clock is not frozen, time passes by itself, and `advance` adds to it."""
    clock = Clock()
    start = clock.elapsed_ms()
    while clock.elapsed_ms() == start:
        time.sleep(0)

    clock.advance(60_000)

    assert clock.elapsed_ms() - start > 60_000


def test_advance_makes_calls_in_the_order_of_their_times() -> None:
    """During `advance` each timer that becomes due runs at its own time; later timers do not run."""
    clock, seen = Clock(frozen=True), list[tuple[str, float]]()

    def note(name: str) -> None:
        seen.append((name, clock.elapsed_ms()))

    for name, delay_ms in (("late", 300), ("soon", 100), ("never", 1_001)):
        clock.call_later(delay_ms, partial(note, name))

    clock.advance(1_000)

    assert seen == [("soon", 100), ("late", 300)]


def test_a_call_may_ask_for_another_that_is_due_on_the_way() -> None:
    """If a timer's call schedules another one within the advanced time, that one runs, too."""
    clock, seen = Clock(frozen=True), list[float]()

    def tick() -> None:
        seen.append(clock.elapsed_ms())
        clock.call_later(100, tick)

    clock.call_later(100, tick)
    clock.advance(350)

    assert seen == [100, 200, 300]


def test_a_cancelled_call_is_not_made() -> None:
    """A cancelled timer does not run, and cancelling it again has no effect."""
    clock, seen = Clock(frozen=True), list[int]()
    timer = clock.call_later(10, lambda: seen.append(1))

    timer.cancel()
    timer.cancel()
    clock.advance(100)

    assert seen == []
    assert clock.wait_ms() is None


def test_a_jump_sets_the_wall_time_and_makes_nothing_due() -> None:
    """A jump changes the wall time, and each timer keeps the time that it still has to wait."""
    clock, seen = Clock(frozen=True), list[int]()
    clock.call_later(1_000, lambda: seen.append(clock.now_ms()))
    begin = clock.now_ms()

    clock.jump(-3_600_000)
    assert clock.now_ms() == begin - 3_600_000
    clock.advance(999)
    assert seen == []
    clock.advance(1)

    assert seen == [begin - 3_600_000 + 1_000]


def test_the_owner_learns_when_the_next_call_is_due() -> None:
    """`wait_ms` returns the time until the next timer, and `on_schedule` is called when this may have changed."""
    clock, oneways = Clock(), list[float | None]()
    clock.on_schedule = lambda: oneways.append(clock.wait_ms())

    clock.call_later(50_000, lambda: None)
    clock.call_later(10_000, lambda: None)

    assert [wait is not None and wait <= limit for wait, limit in zip(oneways, (50_000, 10_000), strict=True)] == [
        True
    ] * 2


def test_run_due_makes_the_calls_whose_time_has_come() -> None:
    """`run_due` runs the timers that are due; before that it has no effect."""
    clock, seen = Clock(), list[str]()
    clock.call_later(0, lambda: seen.append("now"))
    clock.call_later(60_000, lambda: seen.append("later"))

    clock.run_due()

    assert seen == ["now"]
