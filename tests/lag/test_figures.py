"""Test how the lag of queues becomes a total: unknown figures are counted, and never taken for 0."""

from __future__ import annotations

from typing import Any

from pyspark_rocketmq.lag.figures import Figure, QueueLag, TotalLag

UNKNOWN = Figure(unknown="the broker is away")


def queue_lag(**figures: Any) -> QueueLag:
    """Return the lag of a queue with these figures; the others are 0."""
    names = ("position", "end", "messages", "gone", "bytes", "seconds", "retention_seconds")
    return QueueLag("T", "a", 0, **{**dict.fromkeys(names, Figure(0)), **figures})


def test_a_total_leaves_unknown_queues_out_and_counts_them() -> None:
    """Messages and bytes are summed over known queues; the total says how many are unknown."""
    known = queue_lag(messages=Figure(3), bytes=Figure(300), gone=Figure(1))

    total = TotalLag.of([known, known, queue_lag(messages=UNKNOWN, bytes=UNKNOWN)])

    assert (total.queues, total.unknown_queues) == (3, 1)
    assert (total.messages, total.bytes, total.gone) == (6, 600, 2)


def test_a_total_has_the_worst_times() -> None:
    """The total's age is the largest, and its time to retention the smallest; others are skipped."""
    queues = [
        queue_lag(seconds=Figure(5), retention_seconds=Figure(100)),
        queue_lag(seconds=Figure(70), retention_seconds=Figure(20)),
        queue_lag(seconds=UNKNOWN, retention_seconds=UNKNOWN),
        queue_lag(seconds=Figure(0), retention_seconds=Figure()),
    ]

    total = TotalLag.of(queues)

    assert (total.seconds, total.retention_seconds) == (Figure(70), Figure(20))


def test_times_of_unknown_queues_are_unknown() -> None:
    """If no queue has a known age, the total's age is unknown, with a reason; nothing is 0 that was not measured."""
    total = TotalLag.of([queue_lag(seconds=UNKNOWN, retention_seconds=UNKNOWN)])

    assert (total.seconds, total.retention_seconds) == (UNKNOWN, UNKNOWN)


def test_nothing_to_measure_is_not_unknown() -> None:
    """If no message waits anywhere, there is no time to retention, and that is not called unknown."""
    total = TotalLag.of([queue_lag(retention_seconds=Figure())])

    assert total.retention_seconds == Figure()
    assert not total.retention_seconds.is_unknown
