"""Tell Spark that a streaming read is refused, in a place where Spark passes the error on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..boundary.calls import spark_call
from ..errors import RocketMQError

__all__ = ["RefusedStreamReader"]


class RefusedStreamReader(DataSourceStreamReader):
    """Stands in for a reader whose options are refused: the first call raises the error."""

    def __init__(self, error: RocketMQError) -> None:
        self._error = error

    def place(self) -> str:
        """Return the place of log lines."""
        return "options"

    @spark_call
    def initialOffset(self) -> NoReturn:
        """Raise the error."""
        raise self._error

    @spark_call
    def latestOffset(self, *_: Any) -> NoReturn:
        """Raise the error."""
        raise self._error

    @spark_call
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        """Raise the error: a replayed batch is planned before anything else is called."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return nothing: no batch is ever planned."""
        return iter(())
