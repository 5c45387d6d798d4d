"""Test deadlines with a clock that the test moves forward."""

from __future__ import annotations

from pyspark_rocketmq.net.deadline import Deadline


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_remaining_time_shrinks_with_the_clock() -> None:
    """One second after a deadline of three seconds is set, two seconds remain."""
    clock = Clock()
    deadline = Deadline.after(3.0, clock)
    clock.now += 1.0

    assert deadline.remaining() == 2.0
    assert not deadline.expired


def test_nothing_remains_once_it_has_passed() -> None:
    """After the deadline has passed, the remaining time is 0, not negative."""
    clock = Clock()
    deadline = Deadline.after(3.0, clock)
    clock.now += 5.0

    assert deadline.remaining() == 0.0
    assert deadline.expired


def test_its_whole_length_stays_known() -> None:
    """`seconds` stays the whole span, whatever time has passed, because error texts name it."""
    clock = Clock()
    deadline = Deadline.after(3.0, clock)
    clock.now += 5.0

    assert deadline.seconds == 3.0


def test_a_deadline_of_no_time_is_expired_at_once() -> None:
    """A deadline of zero seconds has expired from the beginning."""
    assert Deadline.after(0.0).expired
