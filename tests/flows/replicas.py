"""What scenarios of a master and its slave have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark_rocketmq.model import MessageQueue
from tests.flows.world import World


def replicated_queue(world: World, count: int) -> MessageQueue:
    """A queue of so many messages, all of which the slave holds, too."""
    queue = world.make_queue()
    world.fill(queue, count)
    world.servers.replicate([queue])
    return queue


@contextmanager
def master_down(world: World, queue: MessageQueue) -> Iterator[None]:
    """The master is stopped, and starts again in the end."""
    world.servers.stop(queue.broker_name)
    try:
        yield
    finally:
        world.servers.start(queue.broker_name)
        world.cluster.routes.expire(queue.topic)


@contextmanager
def hearing(words: str) -> Iterator[Callable[[], bool]]:
    """What tells whether the library has written these words to its log."""
    heard: list[str] = []
    ear = logging.Handler()
    ear.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]  # one function is enough
    library = logging.getLogger("pyspark_rocketmq")
    library.addHandler(ear)
    try:
        yield lambda: any(words in line for line in heard)
    finally:
        library.removeHandler(ear)
