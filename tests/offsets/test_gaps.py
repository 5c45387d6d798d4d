"""Gaps of a queue are joined into few warnings and one total."""

from __future__ import annotations

from pyspark_rocketmq.model import Finding, MessageQueue
from pyspark_rocketmq.offsets.loss import GapLog, LossWarning
from tests.offsets.fixtures import A0, A1


def gap(number: int, missing_count: int | None = 1, queue: MessageQueue = A0) -> LossWarning:
    """Return the gap of three offsets at ten times `number`."""
    return LossWarning(Finding.MESSAGES_MISSING, queue, 10 * number, 10 * number + 3, missing_count)


def test_a_warning_comes_whenever_the_gaps_have_doubled() -> None:
    """The first gap is reported alone, the next two together, then four, eight, sixteen."""
    log = GapLog()

    warnings = [log.add(gap(number)) for number in range(1, 40)]

    assert [number for number, warning in enumerate(warnings, start=1) if warning] == [1, 3, 7, 15, 31]
    assert [warning.missing_count for warning in warnings if warning] == [1, 2, 4, 8, 16]
    assert [(rest.planned, rest.missing_count) for rest in log.rest()] == [(320, 8)]


def test_a_total_needs_two_gaps() -> None:
    """A queue with one gap has no total, since the warning says the same; a queue with two gaps has one."""
    log = GapLog()
    for each in (gap(1), gap(1, queue=A1), gap(2, queue=A1)):
        log.add(each)

    assert [str(total) for total in log.totals()] == ["T/a/1: in total 2 messages are gone, in 2 gaps of [10, 23)"]


def test_gaps_are_joined_in_any_order() -> None:
    """A joined warning spans both gaps, whichever of them is found first."""
    joined = LossWarning(Finding.MESSAGES_MISSING, A0, 10, 23, 2)

    assert gap(1).joined(gap(2)) == gap(2).joined(gap(1)) == joined


def test_an_unknown_count_stays_unknown() -> None:
    """If the number of missing messages is unknown for one gap, it is unknown for both; a known zero is added."""
    log = GapLog()
    for each in (gap(1, None), gap(2)):
        log.add(each)

    assert gap(1).joined(gap(2, None)).missing_count is None
    assert gap(1, 0).joined(gap(2, 0)).missing_count == 0
    assert [str(total) for total in log.totals()] == ["T/a/0: in total messages are gone, in 2 gaps of [10, 23)"]
