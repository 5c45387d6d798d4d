"""The programs of docs/client.md run on real brokers, and a topic without a route is created as Java creates it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_rocketmq.client import Message, Producer, ProducerSettings
from tests.client.guide import run_section, sections
from tests.real.java_clients import JavaClients
from tests.real.java_fixtures import ScenarioServer

pytest_plugins = ["tests.real.client_fixtures"]
pytestmark = pytest.mark.real


@pytest.fixture
def java_server(mixed_server: ScenarioServer) -> ScenarioServer:
    """A real broker of every version under test, then the stub."""
    return mixed_server


@pytest.mark.parametrize("title", sections())
def test_programs_of_the_guide_run(
    title: str, java_server: ScenarioServer, topic: str, unique: str, tmp_path: Path
) -> None:
    """A reader who copies a section's programs sees the output that the page shows."""
    run_section(title, tmp_path, java_server.name_server, topic=topic, group_prefix=f"{unique}_")


