"""Run queries in processes of their own and end them by signals, as Spark ends the process that plans.

    python -m tests.source.ended_queries NAME_SERVER COUNT

Runs `COUNT` queries to their ends, each with a consumer group of its own, and sends SIGTERM twice to each. The time
between the two signals differs. The library is imported once and each query is forked, so that thirty take seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import SimpleNamespace

from tests.source.driving import TOPIC, Run, options_for

AT_ONCE = 6
TIMEOUT_S = 60.0
LONGEST_GAP_S = 0.15


def group_of(number: int) -> str:
    """Return the name of the consumer group of query `number`."""
    return f"ended-{number}"


def plan(name_server: str, group: str, ready: int) -> None:
    """Run a query to the end, write a byte to `ready`, then sleep until a signal; stop the reader at last."""
    given = {"subscribe": TOPIC, "consumerGroup": group, "ordering": "queue", "lockQueues": "true"}
    run = Run(options_for(SimpleNamespace(name_server=name_server), **given), available_now=True)
    try:
        run.drain()
        os.write(ready, b"!")
        time.sleep(TIMEOUT_S)
    finally:
        run.reader.stop()


def start(name_server: str, number: int) -> tuple[int, int]:
    """Fork a process that runs a query; return its pid, and a pipe that gets a byte when all messages are read."""
    waiting, ready = os.pipe()
    if pid := os.fork():
        os.close(ready)
        return pid, waiting
    try:
        plan(name_server, group_of(number), ready)
    finally:
        os._exit(0)


def end(pid: int, waiting: int, gap_s: float) -> None:
    """Wait until a query has read everything, then send it SIGTERM twice, `gap_s` seconds apart."""
    os.read(waiting, 1)
    os.close(waiting)
    os.kill(pid, signal.SIGTERM)
    time.sleep(gap_s)
    os.kill(pid, signal.SIGTERM)


def main(name_server: str, count: int) -> None:
    """Run and end `count` queries, at most six at the same time."""
    for first in range(0, count, AT_ONCE):
        queries = [(number, *start(name_server, number)) for number in range(first, min(first + AT_ONCE, count))]
        for number, pid, waiting in queries:
            end(pid, waiting, LONGEST_GAP_S * number / count)
        for _, pid, _ in queries:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
