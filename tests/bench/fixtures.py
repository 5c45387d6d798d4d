"""Provide one broker to all benchmarks of a run, so that each topic is filled only once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.bench_broker import BenchBroker, open_bench_broker


@pytest.fixture(scope="session")
def bench_broker(real_version: str) -> Iterator[BenchBroker]:
    """The real broker of all benchmarks, with the JVM settings of production."""
    with open_bench_broker(real_version) as opened:
        yield opened
