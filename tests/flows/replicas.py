"""Helpers for scenarios with a master and its slave."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark_rocketmq.model import MessageQueue
from tests.flows.world import World


def replicated_queue(world: World, count: int) -> MessageQueue:
    """Make a queue of `count` messages, wait until the slave has all of them, and return the queue."""
    queue = world.make_queue()
    world.fill(queue, count)
    world.servers.replicate([queue])
    return queue


@contextmanager
def master_down(world: World, queue: MessageQueue) -> Iterator[None]:
    """Stop the queue's master, run the `with` block, and start the master again."""
    world.servers.stop(queue.broker_name)
    try:
        yield
    finally:
        world.servers.start(queue.broker_name)
        world.cluster.routes.expire(queue.topic)


@contextmanager
def watch_log(words: str) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether the library has logged `words` since the `with` block began."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    library = logging.getLogger("pyspark_rocketmq")
    library.addHandler(handler)
    try:
        yield lambda: any(words in line for line in lines)
    finally:
        library.removeHandler(handler)
