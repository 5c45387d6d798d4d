"""Lines of the library are shown in Spark's Python processes, and nowhere twice."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark import TaskContext

from pyspark_rocketmq.boundary.calls import place_in_spark
from pyspark_rocketmq.boundary.lines import LEVEL_VARIABLE, LineHandler, show_lines
from tests.boundary.fixtures import LOGGER

pytestmark = pytest.mark.usefixtures("spark_process")


@contextmanager
def bare_root() -> Iterator[None]:
    """Take the handlers from the root logger, as Spark's processes have none; put them back after the block."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = handlers


def test_a_line_has_time_level_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    """An INFO line is on stderr, with time, level and place; a DEBUG line is not."""
    show_lines("driver, orders")
    with bare_root():
        logging.getLogger("pyspark_rocketmq.source.planner").info("reads %d queues", 4)
        LOGGER.debug("hidden")

    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO rocketmq \[driver, orders\]: reads 4 queues\n"
    assert re.fullmatch(line, capsys.readouterr().err)


def test_a_process_shows_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A process that serves many calls has one handler; its lines name the place of the last call."""
    for place in ("first", "second"):
        show_lines(place)
    with bare_root():
        LOGGER.warning("news")

    assert [type(each) for each in LOGGER.handlers] == [LineHandler]
    assert capsys.readouterr().err.endswith("WARNING rocketmq [second]: news\n")


@pytest.mark.parametrize(
    ("given", "shown"), [("debug", ["low", "high"]), ("WARNING", ["high"]), ("", ["high"]), ("loud", ["high"])]
)
def test_a_variable_sets_the_level(
    given: str, shown: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment sets the lowest level that is shown; a word that is no level counts as none."""
    monkeypatch.setenv(LEVEL_VARIABLE, given)
    show_lines("driver")
    with bare_root():
        LOGGER.debug("low")
        LOGGER.warning("high")

    assert [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()] == shown


def test_a_handler_of_the_program_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """If the root logger has a handler, as pytest gives it one, the library writes nothing of its own."""
    show_lines("driver")
    LOGGER.warning("news")

    assert capsys.readouterr().err == ""


def test_a_place_on_the_driver() -> None:
    """A process without a task works for the driver."""
    assert place_in_spark("orders") == "driver, orders"


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({}, "task 3, orders"),
        (
            {"sql.streaming.queryId": "0123456789", "streaming.sql.batchId": "7"},
            "task 3 of batch 7 of query 01234567, orders",
        ),
    ],
)
def test_a_place_in_a_task(properties: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task is named by its number, and in a stream by its batch and query."""
    context = object.__new__(TaskContext)
    context._partitionId, context._localProperties = 3, properties
    monkeypatch.setattr(TaskContext, "_taskContext", context)

    assert place_in_spark("orders") == place
