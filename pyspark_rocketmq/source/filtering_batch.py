"""Plan and read a batch query that Spark tells of its WHERE (`pushFilters=true`).

All conditions go back to Spark, which applies them again. So a plan that reads too much gives the right rows, and the
plan may read everything whenever it is not certain what a condition leaves out.

PySpark 4.1 to 4.3 keeps the plan of the last query with a WHERE for the loaded DataFrame, and reads a later query
without WHERE by it, without asking anybody: rows would be missing. Only a query with a condition is planned anew. So
each query must have one, the *anchor*: `queueOffset >= 0`, which is always true. The user puts it behind `load()`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from pyspark.sql.datasource import EqualNullSafe, EqualTo, GreaterThanOrEqual, In

from ..boundary.calls import spark_call
from ..errors import OptionError
from ..options.reader_options import ReaderOptions
from .batch import BatchReader
from .narrowing import EVERYTHING, narrowing_of
from .planned_wheres import note_where

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from .partition import RangePartition

__all__ = ["FilteringBatchReader"]

_OFFSETS = ("queueOffset", "offset")
_log = logging.getLogger(__name__)


class FilteringBatchReader(BatchReader):
    """The reader of a batch query that leaves out messages which the query's WHERE excludes."""

    def __init__(self, options: ReaderOptions, nullable: Collection[str] = (), load_id: str = "") -> None:
        super().__init__(options, nullable)
        self._load_id = load_id
        """Identifies the loaded DataFrame to which the reader belongs."""
        self._conditions: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the conditions, and return them all, so that Spark applies them to the rows."""
        self._conditions = tuple(filters)
        return filters

    @spark_call
    def partitions(self) -> list[RangePartition]:
        """Return the tasks, as `BatchReader` does; narrowed by the WHERE, if the DataFrame is read with no other one.

        Raise `OptionError` if the WHERE lacks the anchor.
        """
        _require_anchor(self._conditions)
        if note_where(self._load_id, self._conditions):
            tasks = self._plan(narrowing_of(self._conditions))
            if note_where(self._load_id, self._conditions):  # Another process may have noted one meanwhile.
                return tasks
        _log.warning(
            "the same DataFrame is also read with another WHERE, so everything is read and Spark filters the rows; "
            "call load() for each WHERE"
        )
        return self._plan(EVERYTHING)


def _require_anchor(conditions: Collection[Filter]) -> None:
    """Raise `OptionError` if none of the conditions is that offsets are 0 or larger."""
    if any(GreaterThanOrEqual((name,), 0) in conditions for name in _OFFSETS):
        return
    what = "the query has no condition queueOffset >= 0 (layout kafka: offset >= 0); without it, Spark would read a "
    what += "later query of the same DataFrame by the plan of an earlier one, and miss rows"
    advice = 'put .where("queueOffset >= 0") right behind load(), or drop pushFilters'
    if any(isinstance(each, EqualTo | EqualNullSafe | In) and each.attribute[0] in _OFFSETS for each in conditions):
        advice += "; beside queueOffset = N Spark drops it: write queueOffset BETWEEN N AND N"
    raise OptionError("pushFilters", "true", what, advice=advice, code="OPTION_MISSING")
