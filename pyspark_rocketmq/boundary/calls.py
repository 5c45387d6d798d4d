"""Wrap the methods that Spark calls: an error of the library becomes one line, and log lines name their place.

Spark sends an error from its Python processes to the driver as text: the traceback with every frame, and every chained
cause. The sentence that helps stands in the middle of hundreds of lines. So where Spark calls the library, an error

- is logged first, as a line at ERROR, and with its traceback and causes at DEBUG;
- goes on to Spark without causes and frames of the library, and asks Spark to leave out its own frames, too.

It keeps its class, code and fields. Outside of Spark's own processes, such as in a test that calls a reader, nothing
changes.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ..errors import RocketMQError
from .lines import show_lines

__all__ = ["Placed", "place_in_spark", "runs_in_spark", "spark_call", "spark_rows"]

_HIDE_FRAMES = "SPARK_HIDE_TRACEBACK"
"""Spark's switch of a Python process: the text of an error has no frames. Spark ends the process after the error."""
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
_SHOWN_ID = 8
"""The number of characters of a query's id that lines show."""

_log = logging.getLogger(__name__)


class Placed(Protocol):
    """An object whose methods Spark calls."""

    def place(self) -> str:
        """Return what the object works for, for example `orders, group etl`."""


Caller = TypeVar("Caller", bound=Placed)
Given = ParamSpec("Given")
Result = TypeVar("Result")


def runs_in_spark() -> bool:
    """Return whether this is one of Spark's own Python processes, whose program is a module of PySpark."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def spark_call(
    method: Callable[Concatenate[Caller, Given], Result],
) -> Callable[Concatenate[Caller, Given], Result]:
    """Wrap a method that Spark calls."""

    @wraps(method)
    def call(self: Caller, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if not runs_in_spark():
            return method(self, *args, **kwargs)
        show_lines(place_in_spark(self.place()))
        try:
            return method(self, *args, **kwargs)
        except RocketMQError as error:
            _tell(error)
            raise error.with_traceback(None) from None

    return call


def spark_rows(
    method: Callable[Concatenate[Caller, Given], Iterator[Result]],
) -> Callable[Concatenate[Caller, Given], Iterator[Result]]:
    """Wrap a method that Spark calls for an iterator, which may raise errors, too."""

    @wraps(method)
    def call(self: Caller, /, *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Result]:
        if not runs_in_spark():
            yield from method(self, *args, **kwargs)
            return
        show_lines(place_in_spark(self.place()))
        try:
            yield from method(self, *args, **kwargs)
        except RocketMQError as error:
            _tell(error)
            raise error.with_traceback(None) from None

    return call


def _tell(error: RocketMQError) -> None:
    """Log an error that goes to Spark, and have Spark leave out the frames of its traceback."""
    _log.error("%s", error)
    _log.debug("the traceback of this error", exc_info=error)
    os.environ[_HIDE_FRAMES] = "1"


def place_in_spark(work: str) -> str:
    """Return the place of this process: a task with its batch and query, or else the driver."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    if context is None:
        return f"driver, {work}"
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    part = f"task {context.partitionId()}"
    return f"{part} of batch {batch} of query {query[:_SHOWN_ID]}, {work}" if query else f"{part}, {work}"
