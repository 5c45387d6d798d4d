"""Read the settings of the benchmarks from the environment.

The variables: `BENCH_MESSAGES` (messages of the largest topics), `BENCH_ROUNDS`, `BENCH_DIR` (the folder of results),
and `BENCH_QUICK=1` (only the most important measurements, which take minutes and go to another folder).
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
"""The number of pulls in flight, both of our pull engine and of the raw sockets that it is compared with."""
SLOTS = 2
"""The number of task slots of a Spark session."""


class Shape(NamedTuple):
    """The queues, body bytes and messages of a topic that benchmarks read."""

    queues: int
    size: int
    messages: int
    alike: bool = False
    """Whether all records have the same size; otherwise their properties differ in length, as those of users do."""

    def __str__(self) -> str:
        queues = "1 queue" if self.queues == 1 else f"{self.queues} queues"
        return f"{queues}, {'1 KiB' if self.size == 1024 else f'{self.size} B'}"


def divide_messages(messages: int, divisor: int) -> int:
    """Return `messages` ÷ `divisor` as a multiple of 512 (at least 512), so that all queues get equally many."""
    return max(512, messages // divisor // 512 * 512)


LARGE = Shape(8, 1024, divide_messages(MESSAGES, 1))
SMALL = Shape(8, 100, divide_messages(MESSAGES, 1))
SINGLE = Shape(1, 1024, divide_messages(MESSAGES, 2))
HALF = Shape(8, 1024, divide_messages(MESSAGES, 2))
FEW = Shape(8, 100, 512)
QUARTER = Shape(8, 1024, divide_messages(MESSAGES, 4))
