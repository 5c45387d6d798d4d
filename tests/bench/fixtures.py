"""Which stage do benchmarks share? One broker for a whole run, so that a topic is filled once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.stage import Stage, open_stage


@pytest.fixture(scope="session")
def stage(real_version: str) -> Iterator[Stage]:
    """A real broker at full speed."""
    with open_stage(real_version) as opened:
        yield opened
