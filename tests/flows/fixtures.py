"""Provide the stub clusters on which the scenarios run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .stub_servers import QUICK_CHECKS, RELEASES, start_stub, stub_world
from .world import World

pytest.register_assert_rewrite("tests.flows.scenarios")


@pytest.fixture(scope="session", params=RELEASES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A stub with one broker, once for each release that the stub emulates; serves all scenarios for one broker."""
    release = str(request.param)
    with start_stub(release) as stub:
        yield stub_world(stub, release)


@pytest.fixture(scope="session", params=RELEASES)
def checking_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A stub that checks half messages ten times a second, and soon gives them up; once for each release."""
    release = str(request.param)
    with start_stub(release, settings=QUICK_CHECKS) as stub:
        yield stub_world(stub, release)


@pytest.fixture(scope="session")
def master_slave_world() -> Iterator[World]:
    """A stub with one master and its slave."""
    with start_stub("5.3.3", 1, 1) as stub:
        yield stub_world(stub)


@pytest.fixture(scope="session")
def two_broker_world() -> Iterator[World]:
    """A stub with two masters."""
    with start_stub("5.3.3", 2) as stub:
        yield stub_world(stub)
