"""Provide pytest fixtures that start stubs; pytest finds them wherever the package is installed.

`rocketmq_broker` is one broker, `rocketmq_topic` a topic of it, and `make_rocketmq` starts clusters to measure. All of
them end with the test. A test that passes, though a scripted fault happened fewer times than scripted, is an error; one
that fails or is skipped had no chance to provoke it.

pytest imports this module in every run, so it imports the stub only when a test uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .stub import StubBroker, StubCluster
    from .topic import StubTopic

__all__ = ["make_rocketmq", "pytest_runtest_call", "rocketmq_broker", "rocketmq_topic"]

HAS_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Note for the fixtures whether the function of a test has returned."""
    outcome = yield
    item.stash[HAS_PASSED] = outcome.excinfo is None


@contextmanager
def _until_end_of(test: pytest.Item, stub: StubCluster) -> Iterator[None]:
    """Close a stub at the end; if its test has passed, raise if a scripted fault did not happen."""
    try:
        yield
        if test.stash.get(HAS_PASSED, False):
            with stub:
                pass
    finally:
        stub.close()


@pytest.fixture
def rocketmq_broker(request: pytest.FixtureRequest) -> Iterator[StubBroker]:
    """A RocketMQ with one broker: `name_server`, `put`, `messages`, `faults`, and time by `clock.advance(ms)`."""
    from .stub import StubBroker

    broker = StubBroker()
    with _until_end_of(request.node, broker):
        yield broker


@pytest.fixture
def rocketmq_topic(rocketmq_broker: StubBroker) -> StubTopic:
    """A topic of four queues, with the options with which Spark reads and writes it."""
    return rocketmq_broker.topic("test-topic")


@pytest.fixture
def make_rocketmq(request: pytest.FixtureRequest) -> Iterator[Callable[..., StubCluster]]:
    """A function that starts a `StubCluster` with the arguments it gets: brokers, slaves, topics, TLS, users."""
    from .stub import StubCluster

    def make(*shape: Any, **options: Any) -> StubCluster:
        stub = StubCluster(*shape, **options)
        made.enter_context(_until_end_of(request.node, stub))
        return stub

    with ExitStack() as made:
        yield make
