"""What does one Spark task do?

It reads its ranges over this worker process's pooled connections and yields record batches. Reading the same
partition again gives the same rows: ranges are explicit, and nothing is remembered between tasks but connections,
routes, and which topics are compacted.
"""

from __future__ import annotations

import gc
import logging
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

if TYPE_CHECKING:
    from ..decode.decoder import RecordBatch

__all__ = ["RangePartition", "read_partition"]

_SUMMARY = (
    "%d rows of %d ranges; %d records were read one by one, as packed bodies, IPv6 hosts, inner batches and broken "
    "properties are"
)

_log = logging.getLogger(__name__)


@dataclass
class RangePartition(InputPartition):
    """The ranges that one task reads."""

    ranges: tuple[QueueRange, ...]


@cache
def keep_imports() -> None:
    """Let this process keep what it has: after every task the worker collects garbage, and would look at all of it.

    Once is enough, but not before a first batch is decoded: that imports the most.
    """
    gc.freeze()


def read_partition(
    partition: RangePartition, options: ReaderOptions, nullable: Collection[str] = ()
) -> Iterator[RecordBatch]:
    """The rows of one task; `nullable` are columns that the user's own schema declares so."""
    from ..decode.decoder import BatchSize, ColumnDecoder

    losses = LossJournal(options.fail_on_data_loss)
    decoder = ColumnDecoder(options.columns, options.content, nullable, _recheck(options, losses))
    rows = handed_over = dropped = 0
    blocks = _advised(_read_blocks(partition, options, losses), options)
    try:
        for decoded in decoder.decode_all(blocks, BatchSize(options.rows_per_batch)):
            keep_imports()
            rows += decoded.batch.num_rows
            handed_over += decoded.handed_over
            dropped += decoded.dropped
            yield from _cut(decoded.batch, options.rows_per_batch)
    finally:
        losses.finish()
    _log.log(logging.INFO if handed_over else logging.DEBUG, _SUMMARY, rows, len(partition.ranges), handed_over)
    if dropped:
        _log.warning("%d messages were left out because they cannot be read (mode=DROPMALFORMED)", dropped)


def _recheck(options: ReaderOptions, losses: LossJournal) -> Recheck:
    brokers, pool = worker_cluster(options.cluster).brokers, pool_for(options.cluster.net)
    return Recheck(brokers, pool, losses, options.pull)


def _read_blocks(partition: RangePartition, options: ReaderOptions, losses: LossJournal) -> Iterator[Block]:
    cluster = worker_cluster(options.cluster)
    return read_ranges(partition.ranges, cluster.brokers, pool_for(options.cluster.net), losses, options.pull)


def _advised(blocks: Iterator[Block], options: ReaderOptions) -> Iterator[Block]:
    """The same; readers who are refused under the default group are told that they may name another."""
    try:
        yield from blocks
    except (CredentialsRefused, NoPermission) as error:
        if options.pull.group == READER_GROUP:
            error.advice += "; no group was given: set consumerGroup to one that this user may read with"
        raise


def _cut(batch: RecordBatch, rows: int) -> Iterator[RecordBatch]:
    """Pieces of at most so many rows; blocks are not cut before they are decoded."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
