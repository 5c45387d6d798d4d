"""The programs of docs/client.md run on the stub and print the output that the page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker_stub import Settings, StubCluster
from tests.client.guide import run_section, sections

HASTY = Settings(transaction_timeout_ms=500, transaction_check_interval_ms=500)


@pytest.mark.parametrize("title", sections())
def test_programs_of_the_guide_run(title: str, make_stub: Callable[..., StubCluster], tmp_path: Path) -> None:
    """Each program of a section prints the lines that the page shows for it."""
    stub = make_stub(1, topics={"orders": 4}, settings=HASTY)
    run_section(title, tmp_path, stub.name_server)


def test_the_guide_shows_every_face() -> None:
    """The guide has a program for each kind of sending and consuming."""
    assert set(sections()) == {
        "Send",
        "Without waiting",
        "To a queue of your choice",
        "In order",
        "Batch",
        "Delayed",
        "In a transaction",
        "Consume in any order",
        "Consume in order",
        "Hooks",
        "Broadcast",
        "Pull as a member (lite pull)",
        "Pull given queues",
        "Dead letters",
    }
