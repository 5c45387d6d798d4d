"""On which stubs do the scenarios run?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .stub_servers import RELEASES, start_stub, stub_world
from .world import World

pytest.register_assert_rewrite("tests.flows.scenarios")


@pytest.fixture(scope="session", params=RELEASES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One broker of each release that the stub emulates, for all scenarios."""
    release = str(request.param)
    with start_stub(release) as stub:
        yield stub_world(stub, release)
