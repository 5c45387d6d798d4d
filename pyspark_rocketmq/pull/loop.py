"""How are ranges read from beginning to end?

    fill the window → wait for answers → put them into order → fill again → hand out blocks, until every range is done

Blocks are handed out as they come, so that their consumer can take what it needs while they are still in the cache of
the processor. While it is busy, brokers answer what the full window asks for; nothing is received, the socket's buffer
holds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ..cluster.broker import Brokers
from ..errors import NoBrokerAvailable
from ..model import Block, QueueRange
from ..net.deadline import Deadline
from ..net.pool import ConnectionPool
from .reader import LossPolicy, QueueReader
from .recount import recount
from .settings import PullSettings
from .window import Window

__all__ = ["read_ranges"]

_SLEEP_S = 0.05
_RECOUNTS = 3


def read_ranges(
    ranges: Sequence[QueueRange],
    brokers: Brokers,
    pool: ConnectionPool,
    policy: LossPolicy,
    settings: PullSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    recounts: int = _RECOUNTS,
) -> Iterator[Block]:
    """Yield every message of the ranges, in blocks; those of one queue in the order of their offsets.

    What nobody could vouch for is read and counted again in the end; while that is done, the same may happen at most
    so many times.
    """
    settings = (settings or PullSettings()).for_queues(len({wanted.queue for wanted in ranges}))
    readers = [QueueReader(wanted, brokers, settings, policy) for wanted in ranges if wanted.offset_count > 0]
    window = Window(readers, pool, settings, clock)
    try:
        yield from _blocks(readers, window, settings, clock)
    finally:
        window.close()
    if unvouched := list(chain.from_iterable(reader.unvouched for reader in readers)):
        if not recounts:
            raise _restless(unvouched[0].wanted)
        recount(
            unvouched,
            lambda again, filter_: read_ranges(
                again, brokers, pool, policy, replace(settings, subscription=filter_), clock, recounts - 1
            ),
            settings.subscription,
            policy,
        )


def _restless(wanted: QueueRange) -> NoBrokerAvailable:
    return NoBrokerAvailable(
        "one broker process after the other goes away before it can vouch for what it answered",
        advice="look at the brokers, and let the task be tried again",
        topic=wanted.queue.topic,
        broker=wanted.queue.broker_name,
        queue_id=wanted.queue.queue_id,
        offset=wanted.start,
    )


def _blocks(
    readers: list[QueueReader], window: Window, settings: PullSettings, clock: Callable[[], float]
) -> Iterator[Block]:
    stall = Deadline.after(settings.stall_timeout_s, clock)
    unfinished = dict.fromkeys(readers)
    window.fill()
    while unfinished:
        heard = window.drain(stall) if window.in_flight else _rest(unfinished)
        blocks = list(chain.from_iterable(reader.take() for reader in heard))
        for reader in heard:
            if reader.is_finished:
                unfinished.pop(reader, None)
        window.fill()
        yield from blocks
        is_forward = bool(blocks) or any(heard.values())  # The consumer may have held what it was given for long.
        if stall.expired and not is_forward:
            for reader in unfinished:
                reader.give_up()
        if stall.expired or is_forward:
            stall = Deadline.after(settings.stall_timeout_s, clock)


def _rest(unfinished: Iterable[QueueReader]) -> dict[QueueReader, bool]:
    """Nobody may ask now; a range that was given up in part may be finished all the same."""
    time.sleep(_SLEEP_S)
    return {reader: False for reader in unfinished if reader.is_finished}
