"""An error of the library that goes to Spark is one line there, and stays whole everywhere else."""

from __future__ import annotations

import inspect
import io
import logging
import pickle
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.util import handle_worker_exception

from pyspark_rocketmq.boundary.calls import spark_call, spark_rows
from pyspark_rocketmq.datasource import RocketMQDataSource
from pyspark_rocketmq.errors import ConnectError, OptionError
from pyspark_rocketmq.source.refused import RefusedStreamReader

BODY = StructType([StructField("body", BinaryType())])
GIVEN = {"nameserver": "localhost:9876", "subscribe": "orders"}
SENTENCE = "[CONNECT] nobody answers (address h:1); start it"


class Reader:
    """Fails as a reader does, with an error that has a cause."""

    def place(self) -> str:
        """Return the place of log lines."""
        return "orders"

    @spark_call
    def plan(self, start: int, *, end: int) -> int:
        """Return the difference, or raise."""
        if end < start:
            self._fail()
        return end - start

    @spark_rows
    def read(self, count: int) -> Iterator[int]:
        """Yield some numbers, then raise."""
        yield from range(count)
        self._fail()

    def _fail(self) -> None:
        try:
            raise OSError("refused")
        except OSError as cause:
            raise ConnectError("nobody answers", advice="start it", address="h:1") from cause


def seen_by_spark(error: BaseException) -> str:
    """Return the text of an error that a Python process sends to Spark's JVM."""
    sent = io.BytesIO()
    try:
        raise error
    except BaseException as caught:
        handle_worker_exception(caught, sent)
    sent.seek(8)  # A mark and the length come before the text.
    return sent.read().decode()


@pytest.mark.usefixtures("spark_process")
def test_an_error_reaches_spark_as_one_line() -> None:
    """Spark gets the class and the sentence, without frames and causes."""
    with pytest.raises(ConnectError) as failed:
        Reader().plan(1, end=0)

    assert seen_by_spark(failed.value) == f"pyspark_rocketmq.errors.ConnectError: {SENTENCE}\n"


@pytest.mark.usefixtures("spark_process")
def test_a_wrong_option_reaches_spark_as_one_line() -> None:
    """The data source itself is wrapped: Spark makes it in `load`."""
    with pytest.raises(OptionError) as failed:
        RocketMQDataSource({**GIVEN, "subscibe": "x"})

    text = seen_by_spark(failed.value)
    assert text.startswith("pyspark_rocketmq.errors.OptionError: [OPTION_UNKNOWN]") and text.count("\n") == 1


@pytest.mark.usefixtures("spark_process")
def test_an_error_keeps_its_class_code_and_fields() -> None:
    """An error that went to Spark can be pickled, and has its fields."""
    with pytest.raises(ConnectError) as failed:
        Reader().plan(1, end=0)

    copy = pickle.loads(pickle.dumps(failed.value))
    assert (type(copy), copy.code, copy.where, str(copy)) == (ConnectError, "CONNECT", {"address": "h:1"}, SENTENCE)


@pytest.mark.usefixtures("spark_process")
def test_the_traceback_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The sentence is logged at ERROR, and the traceback with the cause at DEBUG."""
    caplog.set_level(logging.DEBUG, "pyspark_rocketmq")

    with pytest.raises(ConnectError):
        Reader().plan(1, end=0)

    first, second = caplog.records
    assert (first.levelno, first.getMessage()) == (logging.ERROR, SENTENCE)
    assert second.levelno == logging.DEBUG and second.exc_info and second.exc_info[1] is not None
    assert "refused" in caplog.text and "_fail" in caplog.text


@pytest.mark.usefixtures("spark_process")
def test_rows_before_an_error_arrive() -> None:
    """An iterator of rows yields what it has; then its error is one line, too."""
    rows = Reader().read(2)

    assert [next(rows), next(rows)] == [0, 1]
    with pytest.raises(ConnectError) as failed:
        next(rows)
    assert seen_by_spark(failed.value).count("\n") == 1


@pytest.mark.usefixtures("spark_process")
def test_an_error_that_is_not_ours_keeps_its_frames() -> None:
    """A defect shows where it is: its traceback and its cause stay."""

    class Broken(Reader):
        def _fail(self) -> None:
            raise KeyError("a defect")

    with pytest.raises(KeyError) as failed:
        Broken().plan(1, end=0)
    assert "in _fail" in seen_by_spark(failed.value)


def test_outside_of_spark_nothing_changes() -> None:
    """In a program that calls a reader itself, an error has its cause and its frames."""
    with pytest.raises(ConnectError) as failed:
        Reader().plan(1, end=0)
    with pytest.raises(ConnectError) as read:
        list(Reader().read(1))

    for error in (failed.value, read.value):
        assert isinstance(error.__cause__, OSError) and "in _fail" in seen_by_spark(error)


def test_a_wrapped_method_keeps_its_signature() -> None:
    """Spark counts the parameters of `latestOffset`, so a wrapper must not hide them."""
    assert list(inspect.signature(Reader().plan).parameters) == ["start", "end"]
    assert Reader().plan(1, end=3) == 2


@pytest.mark.usefixtures("spark_process")
def test_a_refused_stream_says_so_in_its_first_call() -> None:
    """Spark hides an error of `streamReader`, so there the reader's first call raises it."""
    reader = RocketMQDataSource({**GIVEN, "endingoffsets": "latest"}).streamReader(BODY)

    assert isinstance(reader, RefusedStreamReader) and len(inspect.signature(reader.latestOffset).parameters) == 1
    for call in (reader.initialOffset, lambda: reader.latestOffset({}, None), lambda: reader.partitions({}, {})):
        with pytest.raises(OptionError, match="OPTION_SCOPE"):
            call()
    assert pickle.loads(pickle.dumps(reader)) and list(reader.read(InputPartition(None))) == []


@pytest.mark.usefixtures("spark_process")
def test_a_spark_that_shows_frames_gets_neither_causes_nor_inner_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Spark does not leave out frames, those of the library and the cause are gone all the same."""
    with pytest.raises(ConnectError) as failed:
        Reader().plan(1, end=0)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")

    text = seen_by_spark(failed.value)
    assert "Traceback" in text and text.endswith(f"{SENTENCE}\n")
    assert "_fail" not in text and "refused" not in text
