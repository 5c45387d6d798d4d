"""Test deadlines on a clock that only goes forward."""

from __future__ import annotations

from pyspark_rocketmq.net.deadline import Deadline


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_remaining_time_shrinks_with_the_clock() -> None:
    """The time left is counted from now, not from the beginning."""
    clock = Clock()
    deadline = Deadline.after(3.0, clock)
    clock.now += 1.0

    assert deadline.remaining() == 2.0
    assert not deadline.expired


def test_nothing_remains_once_it_has_passed() -> None:
    """The remaining time never becomes negative, so every wait accepts it."""
    clock = Clock()
    deadline = Deadline.after(3.0, clock)
    clock.now += 5.0

    assert deadline.remaining() == 0.0
    assert deadline.expired


def test_its_whole_length_stays_known() -> None:
    """Error texts name the whole timeout, not the time left of it."""
    clock = Clock()
    deadline = Deadline.after(3.0, clock)
    clock.now += 5.0

    assert deadline.seconds == 3.0


def test_a_deadline_of_no_time_is_expired_at_once() -> None:
    """A timeout of zero means one attempt without waiting."""
    assert Deadline.after(0.0).expired
