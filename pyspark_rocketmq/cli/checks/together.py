"""Run checks of many servers at the same time, so that a server that does not answer takes no time from the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

__all__ = ["map_together"]

T = TypeVar("T")
R = TypeVar("R")
_THREADS = 32


def map_together(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the function's result for each item; calls run in up to 32 threads, and the first error is raised.

    Each call must end by itself, by a deadline. Threads are daemons: Ctrl-C does not wait for them.
    """
    jobs: SimpleQueue[tuple[T, Future[R]]] = SimpleQueue()
    results = [Future[R]() for _ in items]
    for job in zip(items, results, strict=True):
        jobs.put(job)
    for _ in range(min(_THREADS, len(items))):
        threading.Thread(target=_work, args=(function, jobs), name="check", daemon=True).start()
    return [each.result() for each in results]


def _work(function: Callable[[T], R], jobs: SimpleQueue[tuple[T, Future[R]]]) -> None:
    while True:
        try:
            item, result = jobs.get_nowait()
        except Empty:
            return
        try:
            result.set_result(function(item))
        except BaseException as error:
            result.set_exception(error)
