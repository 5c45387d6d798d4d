"""Settings of the bench: number of messages and rounds, and the folder of results.

They come from the environment: `BENCH_MESSAGES`, `BENCH_ROUNDS`, `BENCH_QUICK=1` (the essential measurements in
minutes, into another folder), `BENCH_DIR`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
IS_QUICK = os.environ.get("BENCH_QUICK") == "1"
MESSAGES = int(os.environ.get("BENCH_MESSAGES") or ("200000" if IS_QUICK else "2000000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS") or ("3" if IS_QUICK else "5"))
PAGES = Path(os.environ.get("BENCH_DIR") or ROOT / ("build/benchmarks" if IS_QUICK else "docs/benchmarks"))
RESULTS = PAGES / "results"
DEPTH = 32
"""Pulls in flight, of our engine and of the raw sockets it is compared with."""
SLOTS = 2
"""Task slots of a Spark session."""


class Shape(NamedTuple):
    """A topic to drain."""

    queues: int
    size: int
    messages: int
    alike: bool = False
    """Whether all records have one size; else lengths of properties differ, as keys and names do."""

    def __str__(self) -> str:
        queues = "1 queue" if self.queues == 1 else f"{self.queues} queues"
        return f"{queues}, {'1 KiB' if self.size == 1024 else f'{self.size} B'}"


def divide_messages(messages: int, divisor: int) -> int:
    """Return a part of the messages that fills batches and queues evenly."""
    return max(512, messages // divisor // 512 * 512)


LARGE = Shape(8, 1024, divide_messages(MESSAGES, 1))
SMALL = Shape(8, 100, divide_messages(MESSAGES, 1))
SINGLE = Shape(1, 1024, divide_messages(MESSAGES, 2))
HALF = Shape(8, 1024, divide_messages(MESSAGES, 2))
FEW = Shape(8, 100, 512)
QUARTER = Shape(8, 1024, divide_messages(MESSAGES, 4))
