"""Fixtures that several tests of `source` share."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.source import group_positions, membership, view


@pytest.fixture
def quick_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let members of a group settle, exchange positions and ask for bounds without the pauses of earnest."""
    monkeypatch.setattr(membership, "SETTLE_S", 0.1)
    monkeypatch.setattr(group_positions, "LEAST_INTERVAL_S", 0.0)
    monkeypatch.setattr(group_positions, "SECONDS_PER_QUEUE", 0.0)
    monkeypatch.setattr(view, "SECONDS_PER_REQUEST", 0.0)
