"""Which calls does Spark make on a streaming read?

In the driver's long-lived process: the offset methods, `partitions`, `commit`. In another driver process: nothing but
the constructor. On executors: `read`, on an unpickled copy. So a planner is made at the first offset call and
never travels.

Spark announces the end of a query to this process by SIGTERM and does not wait; see `ending`.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..errors import OptionError
from ..offsets.position import SENTINEL, Position, parse_position, position_json
from ..options.reader_options import ReaderOptions
from .ending import Ending
from .partition import RangePartition, read_partition
from .planner import Planner

if TYPE_CHECKING:
    from ..decode.decoder import RecordBatch

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1 has no admission control.
    HAS_ADMISSION = False
else:
    HAS_ADMISSION = True

__all__ = ["HAS_ADMISSION", "PlainStreamReader", "StreamReader", "make_stream_reader", "require_plain"]

_FLUSH_S = 10.0
"""Spark does not wait for it: a slow broker has time for the last batch."""
_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader):
    """What every supported PySpark calls."""

    def __init__(self, options: ReaderOptions, nullable: Collection[str] = ()) -> None:
        self.options = options
        self._nullable = frozenset(nullable)
        self._planner: Planner | None = None
        self._ending = Ending()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.options, self._nullable)

    @property
    def planner(self) -> Planner:
        """The query's planner, made in the process that plans."""
        if self._planner is None:
            from ..cluster.cluster import open_cluster

            self._planner = Planner(open_cluster(self.options.planning_cluster), self.options)
            self._ending.await_signal()
            gc.freeze()  # What is imported by now stays, and need not be looked at while a query waits.
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """A constant: Spark does not store it, so it must not depend on time."""
        return dict(SENTINEL)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """The tasks between two offsets; a function of these alone."""
        last = parse_position(end)
        with self._ending.call():
            return [] if last is None else self.planner.partitions(parse_position(start), last)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The rows of one task."""
        return read_partition(cast(RangePartition, partition), self.options, self._nullable)

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is finished; comes late, and never for the last one."""
        if position := parse_position(end):
            with self._ending.call():
                self.planner.acknowledge(position)

    def stop(self) -> None:
        """The query ended."""
        with self._ending.stopping():
            if self._planner:
                self._planner.finish(_FLUSH_S)
                self._planner = None


if HAS_ADMISSION:

    class AdmittingStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """With admission control, from PySpark 4.2 on.

        An idle query asks about a hundred times a second where it stands; answers to that are remembered.
        """

        def __init__(self, options: ReaderOptions, nullable: Collection[str] = ()) -> None:
            super().__init__(options, nullable)
            self._idle_at: dict[str, Any] | None = None
            self._report: dict[str, Any] | None = None

        def getDefaultReadLimit(self) -> Any:
            """A finite number whenever some cap is set, so that "all" can only mean a trigger without caps."""
            limits = self.options.limits
            capped = limits.max_per_trigger or limits.max_per_queue or limits.min_per_trigger
            return ReadMaxRows(capped) if capped else ReadAllAvailable()

        def prepareForTriggerAvailableNow(self) -> None:
            """Freeze the ends to read to."""
            with self._ending.call():
                self.planner.freeze_target()

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            """The end of the next batch; the start itself if there is none."""
            with self._ending.call():
                if start == self._idle_at and self.planner.is_settled:
                    return start
                position = parse_position(start)
                end = self.planner.latest(position, without_caps=isinstance(limit, ReadAllAvailable))
            self._report = None
            self._idle_at = start if end is position else None
            return self._idle_at or position_json(end)

        def reportLatestOffset(self) -> dict[str, Any] | None:
            """How far the queues went, for the lag in the query's progress."""
            self._report = self._report or position_json(self.planner.last_known_ends())
            return self._report


class PlainStreamReader(StreamReader):
    """Without admission control: PySpark 4.1 does not say where the query stands, so its last batch must tell."""

    def __init__(self, options: ReaderOptions, nullable: Collection[str] = ()) -> None:
        super().__init__(options, nullable)
        self._last_end: Position | None = None

    @property
    def planner(self) -> Planner:
        """The query's planner; says once what caps cannot do here."""
        limits = self.options.limits
        if self._planner is None and (limits.max_per_trigger or limits.max_per_queue):
            _log.warning("before PySpark 4.2 availableNow ends after one batch, which maxOffsetsPer... caps")
        return super().planner

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """The tasks between two offsets, and from now on where the query stands."""
        self._last_end = parse_position(end)
        return super().partitions(start, end)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # PySpark 4.1 has no arguments here
        """The end of the next batch after the last one that was planned."""
        with self._ending.call():
            return position_json(self.planner.latest(self._last_end, is_done=False))


def make_stream_reader(options: ReaderOptions, nullable: Collection[str] = ()) -> StreamReader:
    """The reader for this PySpark."""
    if HAS_ADMISSION:
        return AdmittingStreamReader(options, nullable)
    require_plain(options)
    return PlainStreamReader(options, nullable)


def require_plain(options: ReaderOptions) -> None:
    """Refuse what needs to know where a query stands whenever it plans."""
    for option, value, wanted in (("groupMembership", "shared", options.share), ("lockQueues", "true", options.locks)):
        if wanted:
            advice = f"update PySpark, or drop {option}"
            raise OptionError(option, value, "needs PySpark 4.2", advice=advice, code="OPTION_CONFLICT")
