"""The result of a user's function decides whether its row is sent back."""

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
    """A value that raises an error when it is compared, as an array does."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]  # like an array


def fails(_: object) -> object:
    """Raise an error."""
    raise ValueError("broken")


def answering(answers: Iterable[object]) -> Callable[[Any], object]:
    """Return a function that returns these values, one at each call."""
    rest = iter(answers)
    return lambda _: next(rest)


@pytest.mark.parametrize("answer", [SUCCESS, "SUCCESS"])
def test_success_is_said_by_name(answer: object) -> None:
    """If the function returns `SUCCESS` or its text, the row has succeeded."""
    assert Listener(lambda _: answer).concurrently(ROW) == "SUCCESS"


@pytest.mark.parametrize("answer", [RECONSUME_LATER, SUSPEND, None, True, "success", 0, Awkward()])
def test_everything_else_is_a_failure(answer: object) -> None:
    """If the function returns `SUSPEND`, which only `orderly` knows, or any other value, the row has failed."""
    assert Listener(lambda _: answer).concurrently(ROW) == "RECONSUME_LATER"


def test_raising_is_failing() -> None:
    """If the function raises an exception, the row has failed, with `concurrently` and with `orderly`."""
    assert Listener(fails).concurrently(ROW) == "RECONSUME_LATER"
    assert Listener(fails).in_order(ROW) == "SUSPEND"


def test_a_slip_is_told_once_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    """Exceptions and wrong return values are logged once for each type, and `RECONSUME_LATER` is not logged."""
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
    """With `orderly` a function that fails runs again after a pause, until it succeeds."""
    pauses: list[float] = []
    listener = Listener(answering([SUSPEND, RECONSUME_LATER, None, SUCCESS]), 5, 0.5, pauses.append)
    assert listener.in_order(ROW) == "SUCCESS"
    assert pauses == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(("times", "pauses"), [(None, 3), (0, 3), (2, 1), (3, 0), (9, 0)])
def test_in_order_retries_are_counted_over_all_deliveries(times: int | None, pauses: int) -> None:
    """With `orderly` a row that was delivered before has as many retries less."""
    slept: list[float] = []
    listener = Listener(lambda _: SUSPEND, 3, 1.0, slept.append)
    assert listener.in_order(Row(reconsumeTimes=times)) == "SUSPEND"
    assert len(slept) == pauses
