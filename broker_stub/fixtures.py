"""How does a test get a stub?

    pytest_plugins = ["broker_stub.fixtures"]

`stub_broker` is one broker; `make_stub` makes clusters of any shape. Both end with the test, and a scripted fault that
never came to pass fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from .stub import StubBroker, StubCluster

__all__ = ["make_stub", "stub_broker"]


@pytest.fixture
def stub_broker() -> Iterator[StubBroker]:
    """A name server and one broker."""
    with StubBroker() as broker:
        yield broker


@pytest.fixture
def make_stub() -> Iterator[Callable[..., StubCluster]]:
    """Makes clusters: what is given to it is given to `StubCluster`."""
    with ExitStack() as made:
        yield lambda *shape, **options: made.enter_context(StubCluster(*shape, **options))
