"""How are ranges read from beginning to end?

    fill the window → wait for answers → put them into order → fill again → hand out blocks, until every range is done

Handing out goes on in batches of a wanted size, so that whoever decodes gets enough at once. While the consumer of
the blocks is busy, brokers answer what the full window asks for; nothing is received, the socket's buffer holds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..cluster.broker import Brokers
from ..model import Block, QueueRange
from ..net.deadline import Deadline
from ..net.pool import ConnectionPool
from .reader import LossPolicy, QueueReader
from .settings import PullSettings
from .window import Window

__all__ = ["BatchSize", "read_ranges"]

_SLEEP_S = 0.05


@dataclass(frozen=True, slots=True)
class BatchSize:
    """When blocks are handed out together: as soon as one of the two is reached."""

    messages: int = 10_000
    byte_count: int = 8 * 2**20


def read_ranges(
    ranges: Sequence[QueueRange],
    brokers: Brokers,
    pool: ConnectionPool,
    policy: LossPolicy,
    settings: PullSettings | None = None,
    batch_size: BatchSize | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[Block]]:
    """Every message of the ranges, in blocks; those of one queue in the order of their offsets."""
    settings = (settings or PullSettings()).for_queues(len({wanted.queue for wanted in ranges}))
    batch_size = batch_size or BatchSize()
    readers = [QueueReader(wanted, brokers, settings, policy) for wanted in ranges if wanted.offset_count > 0]
    window = Window(readers, pool, settings)
    try:
        yield from _batches(_blocks(readers, window, settings, clock), batch_size)
    finally:
        window.close()


def _batches(blocks: Iterator[Block], size: BatchSize) -> Iterator[list[Block]]:
    batch: list[Block] = []
    messages = byte_count = 0
    for block in blocks:
        batch.append(block)
        messages += block.message_count
        byte_count += len(block.data)
        if messages >= size.messages or byte_count >= size.byte_count:
            yield batch
            batch, messages, byte_count = [], 0, 0
    if batch:
        yield batch


def _blocks(
    readers: list[QueueReader], window: Window, settings: PullSettings, clock: Callable[[], float]
) -> Iterator[Block]:
    stall = Deadline.after(settings.stall_timeout_s, clock)
    unfinished = dict.fromkeys(readers)
    window.fill(clock())
    while unfinished:
        heard = window.drain(clock(), stall) if window.in_flight else _rest(unfinished)
        blocks = list(chain.from_iterable(reader.take() for reader in heard))
        for reader in heard:
            if reader.cursor.is_finished:
                unfinished.pop(reader, None)
        window.fill(clock())
        yield from blocks
        if any(heard.values()):
            stall = Deadline.after(settings.stall_timeout_s, clock)
        elif stall.expired:
            raise next(iter(unfinished)).stalled()


def _rest(unfinished: Iterable[QueueReader]) -> dict[QueueReader, bool]:
    """Nobody may ask now; a range that was given up in part may be finished all the same."""
    time.sleep(_SLEEP_S)
    return {reader: False for reader in unfinished if reader.cursor.is_finished}
