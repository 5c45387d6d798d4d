"""Answer the calls that Spark makes on the reader of a streaming query.

Spark makes the reader in several processes. In the planning process of the driver, which lives as long as the query,
it calls the offset methods, `partitions` and `commit`. In another driver process it only calls the constructor. On
executors it calls `read` of a pickled copy. So the planner is made when it is first needed, and is never pickled.

Spark announces the end of a query to the planning process by SIGTERM and does not wait; see `shutdown`.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..boundary.arrival import travel
from ..boundary.calls import spark_call, spark_rows
from ..errors import OptionError
from ..offsets.position import SENTINEL, Position, parse_position, position_json
from ..options.reader_options import ReaderOptions
from .announcing import describe_work
from .partition import RangePartition, read_partition
from .planner import Planner
from .rhythm import NORMAL, PlannerRhythm
from .shutdown import ShutdownHandler

if TYPE_CHECKING:
    from ..decode.decoder import RecordBatch

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1 has no admission control.
    HAS_ADMISSION = False
else:
    HAS_ADMISSION = True

__all__ = ["HAS_ADMISSION", "PlainStreamReader", "StreamReader", "make_stream_reader", "require_plain"]

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader):
    """The reader of a streaming query, with the methods that every supported PySpark calls."""

    def __init__(self, options: ReaderOptions, nullable: Collection[str] = (), rhythm: PlannerRhythm = NORMAL) -> None:
        self.options = options
        self._nullable = frozenset(nullable)
        self._rhythm = rhythm
        self._planner: Planner | None = None
        self._shutdown = ShutdownHandler(self._rhythm)
        self._place = describe_work(options)

    def __reduce__(self) -> tuple[Any, ...]:
        return travel(type(self), self.options, self._nullable, self._rhythm)

    def place(self) -> str:
        """Return the topics and the group that log lines name."""
        return self._place

    @property
    def planner(self) -> Planner:
        """The query's planner, made when it is first used."""
        if self._planner is None:
            from ..cluster.cluster import open_cluster

            self._planner = Planner(open_cluster(self.options.planning_cluster), self.options, self._rhythm)
            self._shutdown.install()
            gc.freeze()  # Modules imported by now stay for ever; garbage collection need not visit them.
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Return a constant that stands for "no position yet".

        It must not depend on time, because Spark does not store it. The planner resolves the real start.
        """
        return dict(SENTINEL)

    @spark_call
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """Return the tasks that read from `start` to `end`; equal arguments give equal tasks."""
        last = parse_position(end)
        self._note_end(last)
        with self._shutdown.call():
            return [] if last is None else self.planner.partitions(parse_position(start), last)

    def _note_end(self, end: Position | None) -> None:
        """Note the end of the batch that is planned; PySpark 4.1 passes it to no other call."""

    @spark_rows
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the rows of one task as record batches."""
        return read_partition(cast(RangePartition, partition), self.options, self._nullable)

    @spark_call
    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge a finished batch, which ends at `end`.

        Spark calls this only when it plans the next batch, so never for the last batch of a run.
        """
        if position := parse_position(end):
            with self._shutdown.call():
                self.planner.acknowledge(position)

    @spark_call
    def stop(self) -> None:
        """End the query: commit what is acknowledged, and release locks and claims.

        Spark calls this while it handles the error that ends the query, and shows the last error only. So an error of
        this method is then logged and not raised.
        """
        is_failing = sys.exc_info()[0] is not None
        with self._shutdown.stopping():
            planner, self._planner = self._planner, None
            try:
                if planner:
                    planner.finish(self._rhythm.flush_s)
            except Exception:
                if not is_failing:
                    raise
                _log.exception("the query could not be ended as it should")


if HAS_ADMISSION:

    class AdmittingStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """The reader for PySpark 4.2 and later, which passes the query's position and limits to each planning.

        Spark asks an idle query about a hundred times a second for its latest offset, so the result is cached.
        """

        _idle_at: dict[str, Any] | None = None
        _report: dict[str, Any] | None = None

        def getDefaultReadLimit(self) -> Any:
            """Return a finite limit if the options set a limit, else no limit.

            Spark passes it to `latestOffset`. For a trigger that reads everything, Spark passes no limit instead; then
            the limits in the options have no effect.
            """
            limits = self.options.limits
            capped = limits.max_per_trigger or limits.max_per_queue or limits.min_per_trigger
            return ReadMaxRows(capped) if capped else ReadAllAvailable()

        @spark_call
        def prepareForTriggerAvailableNow(self) -> None:
            """Fetch the present ends of the queues, at which this run of availableNow stops."""
            with self._shutdown.call():
                self.planner.freeze_target()

        @spark_call
        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            """Return the end of the next batch; the start itself if there is nothing new."""
            with self._shutdown.call():
                if start == self._idle_at and self.planner.is_settled:
                    return start
                position = parse_position(start)
                end = self.planner.latest(position, without_caps=isinstance(limit, ReadAllAvailable))
            self._report = None
            self._idle_at = start if end is position else None
            return self._idle_at or position_json(end)

        @spark_call
        def reportLatestOffset(self) -> dict[str, Any] | None:
            """Return the ends of the queues and the planner's status, which Spark shows in the query's progress."""
            if self._report is None:
                planner = self.planner
                self._report = {**position_json(planner.last_known_ends()), "status": planner.status().as_json()}
            return self._report


class PlainStreamReader(StreamReader):
    """The reader for PySpark 4.1, which does not pass the query's position: the end of the last batch stands for it."""

    _last_end: Position | None = None

    @property
    def planner(self) -> Planner:
        """The query's planner, made when it is first used.

        Making it logs a warning if the options limit batches, because a run of availableNow then reads one batch only.
        """
        limits = self.options.limits
        if self._planner is None and (limits.max_per_trigger or limits.max_per_queue):
            _log.warning(
                "before PySpark 4.2 an availableNow run reads one batch, limited by maxOffsetsPerTrigger and "
                "maxOffsetsPerQueue; the next run reads the rest"
            )
        return super().planner

    def _note_end(self, end: Position | None) -> None:
        """Note the end of the batch as the query's position."""
        self._last_end = end

    @spark_call
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # PySpark 4.1 has no arguments here
        """Return the end of the next batch, which starts at the end of the last one."""
        with self._shutdown.call():
            return position_json(self.planner.latest(self._last_end, is_done=False))


def make_stream_reader(
    options: ReaderOptions, nullable: Collection[str] = (), rhythm: PlannerRhythm = NORMAL
) -> StreamReader:
    """Return the reader for the installed PySpark; raise `OptionError` for options that it does not support."""
    if HAS_ADMISSION:
        return AdmittingStreamReader(options, nullable, rhythm)
    require_plain(options)
    return PlainStreamReader(options, nullable, rhythm)


def require_plain(options: ReaderOptions) -> None:
    """Raise `OptionError` for options that PySpark 4.1 cannot support, as it does not pass on the query's position."""
    for option, value, wanted in (("groupMembership", "shared", options.share), ("lockQueues", "true", options.locks)):
        if wanted:
            advice = f"update PySpark, or drop {option}"
            raise OptionError(option, value, "needs PySpark 4.2", advice=advice, code="OPTION_CONFLICT")
