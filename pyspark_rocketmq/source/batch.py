"""Plan and read a batch query: its start and end are resolved once, on the driver, from the same bounds of queues."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..boundary.arrival import travel_whole
from ..boundary.calls import spark_call, spark_rows
from ..offsets.resolve import resolve_batch
from ..options.reader_options import ReaderOptions
from ..planning.ranges import plan_tasks
from .announcing import describe_batch, describe_work
from .catalog import QueueCatalog
from .filters import require_filter
from .losses import LossJournal
from .narrowing import EVERYTHING, narrow_read
from .partition import RangePartition, read_partition
from .view import make_view
from .where import read_condition

if TYPE_CHECKING:
    from ..decode.decoder import RecordBatch

__all__ = ["BatchReader"]

_log = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """The reader of a batch query, which reads from a start position to an end position."""

    def __init__(self, options: ReaderOptions, nullable: Collection[str] = ()) -> None:
        self.options = options
        self._nullable = frozenset(nullable)

    def __reduce__(self) -> tuple[Any, ...]:
        return travel_whole(self)

    def place(self) -> str:
        """Return the topics and the group that log lines name."""
        return describe_work(self.options)

    @spark_call
    def partitions(self) -> list[RangePartition]:
        """Resolve start and end, log warnings about losses and unused options, and return the tasks."""
        from ..cluster.cluster import open_cluster

        options = self.options
        narrowing = read_condition(options.condition) if options.condition else EVERYTHING
        cluster = open_cluster(options.planning_cluster)
        catalog = QueueCatalog(cluster, options)
        queues = catalog.queues()
        catalog.require_match(queues)
        catalog.require_known(queues)
        require_filter(cluster, options.pull, queues)
        view = make_view(cluster, options)
        plan = resolve_batch(
            options.start.requested, options.end.requested, queues, view, fail_on_data_loss=options.fail_on_data_loss
        )
        LossJournal(options.fail_on_data_loss).note(plan.warnings)
        if plan.replica_ends:
            text = "%d queues end where their replicas end, because their masters are away and may hold more: %s ..."
            _log.warning(text, len(plan.replica_ends), plan.replica_ends[0])
        for option in plan.outranked:
            _log.warning("%s has no effect: other options choose for every queue", option)
        left = narrow_read(plan.ranges, narrowing, cluster, options)
        tasks = [RangePartition(task, left.tags) for task in plan_tasks(left.ranges, catalog.plan_settings(queues))]
        _log.info("%s", describe_batch(options, left.ranges, len(tasks)))
        # Spark would replace an empty list by a partition of its own, which has no ranges.
        return tasks or [RangePartition(())]

    @spark_rows
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the rows of one task as record batches."""
        task = cast(RangePartition, partition)
        return read_partition(task, self.options.with_tags(task.tags), self._nullable)
