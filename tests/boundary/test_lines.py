"""Lines of the library are shown in Spark's Python processes, and nowhere twice."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_rocketmq.boundary.calls import place_in_spark
from pyspark_rocketmq.boundary.lines import LEVEL_VARIABLE, LineHandler, show_lines
from pyspark_rocketmq.datasource import RocketMQDataSource
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


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Show a line of each level in a process without handlers, and return the texts that are on stderr."""
    with bare_root():
        show_lines("driver")
        for level in ("DEBUG", "INFO", "WARNING"):
            LOGGER.log(logging.getLevelNamesMapping()[level], level)
    return [line.partition("[driver]: ")[2] for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize(
    ("given", "shown"),
    [("debug", ["DEBUG", "INFO", "WARNING"]), (" WARN ", ["WARNING"]), ("ERROR", []), ("", ["INFO", "WARNING"])],
)
def test_a_variable_sets_the_level(
    given: str, shown: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment sets the lowest level that is shown, by Python's name or log4j's."""
    monkeypatch.setenv(LEVEL_VARIABLE, given)

    assert told(capsys) == shown


@pytest.mark.parametrize("given", ["loud", "NOTSET", "10"])
def test_a_word_that_is_no_level_is_named(
    given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong level is not passed over in silence: INFO is shown, after a warning that names the levels."""
    monkeypatch.setenv(LEVEL_VARIABLE, given)

    first, *others = told(capsys)
    assert first == f"{LEVEL_VARIABLE} = '{given}' is no level, showing INFO; use DEBUG, INFO, WARNING or ERROR"
    assert others == ["INFO", "WARNING"]


@pytest.mark.parametrize(("level", "shown"), [("ERROR", []), ("DEBUG", ["DEBUG", "INFO", "WARNING"])])
def test_a_level_that_the_user_has_chosen_stays(
    level: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """If code of the user has given the root logger a level, such as `sitecustomize`, the library has the same."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(level)
    try:
        assert told(capsys) == shown
    finally:
        root.setLevel(before)


@pytest.mark.parametrize("propagates", [True, False])
def test_a_handler_of_the_package_s_logger_is_enough(
    propagates: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user who gives the package's logger a handler of its own sees each line once."""
    LOGGER.addHandler(logging.StreamHandler(sys.stderr))
    monkeypatch.setattr(LOGGER, "propagate", propagates)
    with bare_root():
        show_lines("driver")
        LOGGER.warning("news")

    assert capsys.readouterr().err == "news\n"


def test_a_root_handler_that_gets_no_lines_does_not_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If lines do not reach the root logger, its handler is no reason for silence."""
    monkeypatch.setattr(LOGGER, "propagate", False)
    show_lines("driver")
    LOGGER.warning("news")

    assert capsys.readouterr().err.endswith("[driver]: news\n")


def test_a_handler_of_the_program_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """If the root logger has a handler, as pytest gives it one, the library writes nothing of its own."""
    show_lines("driver")
    LOGGER.warning("news")

    assert capsys.readouterr().err == ""


def test_a_warning_about_options_of_a_stream_has_time_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    """The first thing that a planner's process does is to make the reader; what that logs is a whole line, too."""
    given = {"nameServer": "h:1", "subscribe": "orders", "strictOptions": "warn", "subscibe": "x"}
    source = RocketMQDataSource(given)
    LOGGER.handlers.clear()
    with bare_root():
        source.streamReader(StructType([StructField("body", BinaryType())]))

    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("WARNING rocketmq [driver, options]: option subscibe is not known here and has no effect")


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
