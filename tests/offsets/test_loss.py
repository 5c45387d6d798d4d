"""Lost messages fail a query, or cause a warning."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import (
    DataLossError,
    MessagesMissing,
    OffsetBeforeEarliest,
    OffsetBeyondEnd,
    OffsetWentBack,
    QueueVanished,
)
from pyspark_rocketmq.model import Finding, QueueBounds, QueueRange
from pyspark_rocketmq.offsets.loss import (
    LOSS_RULES,
    GapLog,
    LossWarning,
    judge,
    settle_ranges,
    settle_starts,
)
from tests.offsets.fixtures import A0, A1, B0, QUEUES, U0

FATAL = {
    Finding.BELOW_MIN: OffsetBeforeEarliest,
    Finding.ABOVE_MAX: OffsetBeyondEnd,
    Finding.WENT_BACK: OffsetWentBack,
    Finding.VANISHED: QueueVanished,
    Finding.MESSAGES_MISSING: MessagesMissing,
}
HARMLESS = [Finding.NOT_IN_ROUTE, Finding.RESET_BY_ADMIN]


@pytest.mark.parametrize(("finding", "error"), FATAL.items(), ids=lambda value: getattr(value, "name", ""))
def test_losses_fail_with_everything_one_needs(finding: Finding, error: type[DataLossError]) -> None:
    """If a loss fails the query, the error names topic, broker, queue, both offsets, and `failOnDataLoss=false`."""
    with pytest.raises(error) as raised:
        judge(finding, A1, 7, 31, fail_on_data_loss=True)

    text = str(raised.value)
    assert "topic T, broker a, queue 1, offset 7" in text and "31" in text and "failOnDataLoss=false" in text


@pytest.mark.parametrize("finding", Finding, ids=lambda finding: finding.name)
def test_findings_that_are_allowed_warn(finding: Finding) -> None:
    """With `failOnDataLoss=false` every finding becomes a warning that names the queue and counts the offsets."""
    warning = judge(finding, A1, 7, 31, fail_on_data_loss=False)

    assert warning == LossWarning(finding, A1, 7, 31)
    assert str(warning).startswith("T/a/1: ") and str(warning).endswith("(24 offsets)")


@pytest.mark.parametrize("finding", HARMLESS, ids=lambda finding: finding.name)
def test_what_is_no_loss_never_fails(finding: Finding) -> None:
    """If a queue leaves the route or an administrator resets the position, there is a warning but no error."""
    assert judge(finding, A1, 7, 7, fail_on_data_loss=True).offset_count == 0


def test_every_finding_has_its_rule() -> None:
    """Every finding has a rule, and exactly five rules have an error."""
    assert LOSS_RULES.keys() == set(Finding)
    assert {finding: rule.error for finding, rule in LOSS_RULES.items() if rule.error} == FATAL


def test_a_gap_counts_what_is_missing_and_names_causes() -> None:
    """The error about a gap holds the number of missing messages and names likely causes besides retention."""
    with pytest.raises(MessagesMissing) as raised:
        judge(Finding.MESSAGES_MISSING, A1, 7, 31, fail_on_data_loss=True, missing_count=5)

    text = str(raised.value)
    assert "messages within [7, 31) are gone (5 of 24)" in text
    assert "retention" in raised.value.advice and "batch consume queue" in raised.value.advice
    assert str(LossWarning(Finding.MESSAGES_MISSING, A1, 7, 31, 5)).endswith("(5 of 24 offsets)")


def test_a_brokers_name_is_no_format() -> None:
    """Braces in the name of a broker are shown as they are."""
    warning = LossWarning(Finding.MESSAGES_MISSING, A1._replace(broker_name="{planned}{x}{0"), 7, 31)
    assert str(warning).startswith("T/{planned}{x}{0/1: messages")


def test_many_gaps_are_told_in_few_warnings() -> None:
    """If a queue has 1000 gaps, few warnings cover them all, the first one comes at once, and their counts add up."""
    gaps, log = (
        [
            LossWarning(Finding.MESSAGES_MISSING, queue, 10 * n, 10 * n + 3, 2)
            for n in range(1000)
            for queue in (A0, B0)
        ],
        GapLog(),
    )

    at_once = [found for gap in gaps if (found := log.add(gap))]
    told = [*at_once, *log.rest()]

    assert at_once[0] == gaps[0] and len(told) <= 24 and not list(log.rest())
    for gap in gaps:
        assert any(each.queue == gap.queue and each.planned <= gap.planned < gap.found <= each.found for each in told)
    assert sum(each.missing_count or 0 for each in told) == 4000
    assert [(each.gap_count, each.whole.planned, each.whole.found) for each in log.totals()] == 2 * [(1000, 0, 9993)]


def test_starts_move_into_what_is_there() -> None:
    """A start below the queue's minimum moves up to it, a start above the end moves down to it, others stay."""
    bounds = {A0: QueueBounds(10, 20), A1: QueueBounds(10, 20), B0: QueueBounds(10, 20), U0: QueueBounds(10, 20)}

    settled = settle_starts({A0: 9, A1: 21, B0: 10, U0: 20}, bounds, fail_on_data_loss=False)

    assert settled.positions == {A0: 10, A1: 20, B0: 10, U0: 20}
    assert [str(warning) for warning in settled.warnings] == [
        "T/a/0: offset 9 is gone, the queue starts at 10 now (retention); continue at 10 (1 offsets)",
        "T/a/1: offset 21 lies beyond the queue's end 20 (topic made anew, or broker restored); "
        "continue at 20 (1 offsets)",
    ]


def test_a_queue_out_of_the_route_keeps_its_position() -> None:
    """If a queue left the route, it keeps its position with a warning, even with `failOnDataLoss=true`."""
    settled = settle_starts({A0: 9}, {}, fail_on_data_loss=True)

    assert settled.positions == {A0: 9}
    assert [warning.finding for warning in settled.warnings] == [Finding.NOT_IN_ROUTE]


def test_a_replica_is_never_believed() -> None:
    """Bounds of a replica never move starts or cut ranges, since the replica may lag behind its master."""
    bounds = {A0: QueueBounds(10, 20, from_replica=True)}

    assert settle_starts({A0: 21}, bounds, fail_on_data_loss=True) == ({A0: 21}, [])
    assert settle_ranges([QueueRange(A0, 5, 25)], bounds, fail_on_data_loss=True) == ([QueueRange(A0, 5, 25)], [])


def test_ranges_are_cut_to_what_is_there() -> None:
    """A planned range is cut to the queue's bounds; a range outside of them is dropped."""
    bounds = {A0: QueueBounds(10, 20), A1: QueueBounds(10, 20), B0: QueueBounds(10, 20)}
    planned = [QueueRange(A0, 5, 25), QueueRange(A1, 20, 30), QueueRange(B0, 10, 20)]

    kept, warnings = settle_ranges(planned, bounds, fail_on_data_loss=False)

    assert kept == [QueueRange(A0, 10, 20), QueueRange(B0, 10, 20)]
    assert [(each.queue, each.finding, each.offset_count) for each in warnings] == [
        (A0, Finding.WENT_BACK, 5),
        (A0, Finding.BELOW_MIN, 5),
        (A1, Finding.WENT_BACK, 10),
    ]


def test_a_range_whose_queue_vanished_is_skipped_or_fatal() -> None:
    """If a queue with a planned range left the route, the range is skipped with a warning, or the query fails."""
    planned = [QueueRange(A0, 5, 25)]

    kept, warnings = settle_ranges(planned, {}, fail_on_data_loss=False)

    assert (kept, [each.offset_count for each in warnings]) == ([], [20])
    with pytest.raises(QueueVanished, match="offsets 5 to 25 unread"):
        settle_ranges(planned, {}, fail_on_data_loss=True)


def test_nothing_is_lost_at_a_front_that_is_open() -> None:
    """If a queue begins at its first readable message, messages missing at its front are no loss."""
    bounds = dict.fromkeys(QUEUES, QueueBounds(10, 100))
    moved = settle_starts({A0: 5, A1: 5}, bounds, fail_on_data_loss=False, opened={A0})
    cut = settle_ranges([QueueRange(A0, 5, 50, is_front_open=True)], bounds, fail_on_data_loss=True)

    assert (moved.positions, [warning.queue for warning in moved.warnings]) == ({A0: 10, A1: 10}, [A1])
    assert cut == ([QueueRange(A0, 10, 50, is_front_open=True)], [])


def test_a_range_of_one_offset_is_kept() -> None:
    """A planned range of which one offset is left is read; one of which nothing is left is not."""
    bounds = {A0: QueueBounds(10, 20), A1: QueueBounds(10, 20)}
    planned = [QueueRange(A0, 19, 25), QueueRange(A1, 20, 25)]

    kept, _ = settle_ranges(planned, bounds, fail_on_data_loss=False)

    assert kept == [QueueRange(A0, 19, 20)]
