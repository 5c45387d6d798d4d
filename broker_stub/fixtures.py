"""Provide pytest fixtures that start stubs.

    pytest_plugins = ["broker_stub.fixtures"]

`stub_broker` is one broker; `make_stub` starts clusters. All stubs end with the test, which fails if a scripted fault
happened fewer times than scripted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from .stub import StubBroker, StubCluster

__all__ = ["make_stub", "stub_broker"]


@pytest.fixture
def stub_broker() -> Iterator[StubBroker]:
    """Yield a `StubBroker`: a name server with one broker."""
    with StubBroker() as broker:
        yield broker


@pytest.fixture
def make_stub() -> Iterator[Callable[..., StubCluster]]:
    """Yield a function that starts a `StubCluster` with the arguments it gets; the clusters close after the test."""
    with ExitStack() as made:
        yield lambda *shape, **options: made.enter_context(StubCluster(*shape, **options))
