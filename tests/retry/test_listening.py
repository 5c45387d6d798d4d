"""Results of a user's function decide about its row."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.sql import Row

from pyspark_rocketmq.retry import RECONSUME_LATER, SUCCESS, SUSPEND
from pyspark_rocketmq.retry.row_results import Listener

ROW = Row(body=b"x")


class Awkward:
    """A value that cannot be compared, like an array."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]  # like an array


def fails(_: object) -> object:
    """Raise an error."""
    raise ValueError("broken")


def answering(answers: Iterable[object]) -> Callable[[Any], object]:
    """Return a function that returns these results in turn."""
    rest = iter(answers)
    return lambda _: next(rest)


@pytest.mark.parametrize("answer", [SUCCESS, "SUCCESS"])
def test_success_is_said_by_name(answer: object) -> None:
    """The constant and its text mean success."""
    assert Listener(lambda _: answer).concurrently(ROW) == "SUCCESS"


@pytest.mark.parametrize("answer", [RECONSUME_LATER, SUSPEND, None, True, "success", 0, Awkward()])
def test_everything_else_is_a_failure(answer: object) -> None:
    """A result of the other model, and a value that is no result, are failures."""
    assert Listener(lambda _: answer).concurrently(ROW) == "RECONSUME_LATER"


def test_raising_is_failing() -> None:
    """An exception is a failure in both models."""
    assert Listener(fails).concurrently(ROW) == "RECONSUME_LATER"
    assert Listener(fails).in_order(ROW) == "SUSPEND"


def test_a_slip_is_told_once_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A million rows do not log a million lines; a regular failure logs none."""
    broken, nonsense = Listener(fails), Listener(answering([7, 8, "SUCESS", RECONSUME_LATER]))
    with caplog.at_level(logging.WARNING, logger="pyspark_rocketmq"):
        for _ in range(3):
            broken.concurrently(ROW)
        for _ in range(4):
            nonsense.concurrently(ROW)
    assert [record.getMessage() for record in caplog.records] == [
        "the function raised an exception, which counts as RECONSUME_LATER",
        "the function returned 7, which is no result here and counts as RECONSUME_LATER",
        "the function returned 'SUCESS', which is no result here and counts as RECONSUME_LATER",
    ]
    assert caplog.records[0].exc_info


def test_in_order_a_failure_is_tried_again_in_place() -> None:
    """The function runs again after a pause each, until it succeeds."""
    pauses: list[float] = []
    listener = Listener(answering([SUSPEND, RECONSUME_LATER, None, SUCCESS]), 5, 0.5, pauses.append)
    assert listener.in_order(ROW) == "SUCCESS"
    assert pauses == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(("times", "pauses"), [(None, 3), (0, 3), (2, 1), (3, 0), (9, 0)])
def test_in_order_retries_are_counted_over_all_deliveries(times: int | None, pauses: int) -> None:
    """A row that was delivered before has fewer retries left."""
    slept: list[float] = []
    listener = Listener(lambda _: SUSPEND, 3, 1.0, slept.append)
    assert listener.in_order(Row(reconsumeTimes=times)) == "SUSPEND"
    assert len(slept) == pauses
