"""Run one Spark task: read its ranges over this worker process's pooled connections, and yield record batches.

Reading the same partition again yields the same rows: its ranges are explicit. Between tasks, a worker process keeps
only connections, routes, and which topics are compacted.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from ..broker_errors import CredentialsRefused, NoPermission
from ..cluster.cluster import worker_cluster
from ..cluster.names import READER_GROUP
from ..model import Block, QueueRange
from ..net.pool import pool_for
from ..options.reader_options import ReaderOptions
from ..pull.loop import read_ranges
from ..pull.recheck import Recheck
from .losses import LossJournal
from .reports import TaskReport

if TYPE_CHECKING:
    from ..decode.decoder import Decoded, RecordBatch

__all__ = ["RangePartition", "read_partition"]

_log = logging.getLogger(__name__)


@dataclass
class RangePartition(InputPartition):
    """The ranges that one task reads."""

    ranges: tuple[QueueRange, ...]
    tags: frozenset[str] = frozenset()
    """Tags that brokers are asked for because of a condition, instead of those of the options; empty: none."""


@cache
def freeze_imports() -> None:
    """Exclude imported modules from the garbage collection that Spark's worker runs after every task.

    Only the first call has an effect. A batch is decoded before it, because decoding imports the most modules.
    """
    gc.freeze()


def read_partition(
    partition: RangePartition, options: ReaderOptions, nullable: Collection[str] = ()
) -> Iterator[RecordBatch]:
    """Yield the rows of one task as record batches; report losses and figures to the log.

    `nullable` are the columns that are never null but that the user's schema declares nullable.
    """
    from ..decode.decoder import BatchSize, ColumnDecoder

    losses, report = LossJournal(options.fail_on_data_loss), TaskReport(len(partition.ranges))
    brokers, pool = worker_cluster(options.cluster).brokers, pool_for(options.cluster.net)
    recheck = Recheck(brokers, pool, losses, options.pull)
    decoder = ColumnDecoder(options.columns, options.content, nullable, recheck)
    blocks = _count(read_ranges(partition.ranges, brokers, pool, losses, options.pull), report, options)
    try:
        for decoded in _time(decoder.decode_all(blocks, BatchSize(options.rows_per_batch)), report):
            freeze_imports()
            report.rows += decoded.batch.num_rows
            report.irregular_count += decoded.irregular_count
            report.dropped += decoded.dropped
            yield from _cut(decoded.batch, options.rows_per_batch)
    finally:
        losses.finish()
    report.losses = {finding.name: count for finding, count in losses.counts.items()}
    _log.debug("%s", report)
    if report.dropped:
        _log.warning("%d messages were left out because they cannot be read (mode=DROPMALFORMED)", report.dropped)


def _count(blocks: Iterator[Block], report: TaskReport, options: ReaderOptions) -> Iterator[Block]:
    """Yield the blocks, and count them and their bytes in the report.

    If brokers refuse to serve the default group, add to the error the advice to set `consumerGroup`.
    """
    try:
        for block in blocks:
            report.pulls += 1
            report.byte_count += block.data.nbytes
            yield block
    except (CredentialsRefused, NoPermission) as error:
        if options.pull.group == READER_GROUP:
            error.advice += "; no group was given: set consumerGroup to one that this user may read with"
        raise


def _time(batches: Iterator[Decoded], report: TaskReport) -> Iterator[Decoded]:
    """Yield the decoded batches; add to the report the time for which the task waited, without its processor time."""
    while True:
        began_s, busy_s = time.perf_counter(), time.thread_time()
        decoded = next(batches, None)
        report.waited_s += (time.perf_counter() - began_s) - (time.thread_time() - busy_s)
        if decoded is None:
            return
        yield decoded


def _cut(batch: RecordBatch, rows: int) -> Iterator[RecordBatch]:
    """Yield a record batch in pieces of at most `rows` rows."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
