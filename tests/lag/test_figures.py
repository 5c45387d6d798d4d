"""Test how the lag of queues becomes a total: unknown figures are counted, and never taken for 0."""

from __future__ import annotations

from typing import Any

from pyspark_rocketmq.lag.figures import Figure, QueueLag, Total, TotalLag

UNKNOWN = Figure(unknown="the broker is away")


def queue_lag(**figures: Any) -> QueueLag:
    """Return the lag of a queue with these figures; the others are 0."""
    names = ("position", "end", "messages", "gone", "bytes", "seconds", "retention_seconds")
    return QueueLag("T", "a", 0, **{**dict.fromkeys(names, Figure(0)), **figures})


def unknown_lag() -> QueueLag:
    """Return the lag of a queue of which nothing is known."""
    return queue_lag(messages=UNKNOWN, gone=UNKNOWN, bytes=UNKNOWN, seconds=UNKNOWN, retention_seconds=UNKNOWN)


def test_a_total_is_a_bound_if_a_queue_is_unknown() -> None:
    """Figures are summed over known queues; the sum says why it is too small, and how many queues are missing."""
    known = queue_lag(messages=Figure(3), bytes=Figure(300), gone=Figure(1))

    total = TotalLag.of([known, known, unknown_lag()])

    assert (total.queues, total.unknown_queues) == (3, 1)
    sums = (total.messages, total.bytes, total.gone)
    assert sums == tuple(Total(number, UNKNOWN.unknown, 1) for number in (6, 600, 2))
    assert all(each.is_bound for each in sums)


def test_each_figure_has_its_own_unknown_queues() -> None:
    """If messages are known and bytes are not, only the bytes are a bound."""
    known = queue_lag(messages=Figure(3), bytes=Figure(300))

    total = TotalLag.of([known, queue_lag(messages=Figure(2), bytes=UNKNOWN)])

    assert (total.messages, total.bytes) == (Total(5), Total(300, UNKNOWN.unknown, 1))
    assert not total.messages.is_bound


def test_a_total_has_the_worst_times() -> None:
    """The total's age is the largest, and its time to retention the smallest; unknown ones make them bounds."""
    queues = [
        queue_lag(seconds=Figure(5), retention_seconds=Figure(100)),
        queue_lag(seconds=Figure(70), retention_seconds=Figure(20)),
        queue_lag(seconds=Figure(0), retention_seconds=Figure()),
    ]

    exact, bounds = TotalLag.of(queues), TotalLag.of([*queues, unknown_lag()])

    assert (exact.seconds, exact.retention_seconds) == (Total(70), Total(20))
    why = UNKNOWN.unknown
    assert (bounds.seconds, bounds.retention_seconds) == (Total(70, why, 1), Total(20, why, 1))


def test_a_total_of_unknown_queues_is_unknown() -> None:
    """If nothing is known of any queue, no figure of the total has a value: nothing is 0 that was not measured."""
    total = TotalLag.of([unknown_lag(), unknown_lag()])

    figures = (total.messages, total.gone, total.bytes, total.seconds, total.retention_seconds)
    assert set(figures) == {Total(None, UNKNOWN.unknown, 2)}
    assert all(each.is_unknown for each in figures)


def test_missing_queues_make_bounds() -> None:
    """Queues that may exist and could not be found are no queues without lag."""
    some, none = TotalLag.of([queue_lag(messages=Figure(3))], "broker-b is away"), TotalLag.of([], "broker-b is away")

    assert (some.messages, none.messages) == (Total(3, "broker-b is away"), Total(None, "broker-b is away"))


def test_nothing_to_measure_is_not_unknown() -> None:
    """If no message waits anywhere, there is no time to retention, and that is not called unknown."""
    total = TotalLag.of([queue_lag(retention_seconds=Figure())])

    assert (total.messages, total.retention_seconds) == (Total(0), Total())
    assert not total.retention_seconds.is_unknown
