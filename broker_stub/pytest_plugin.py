"""Provide pytest fixtures that start stubs; pytest finds them wherever the package is installed.

`rocketmq_broker` is one broker, `rocketmq_topic` a topic of it, and `make_rocketmq` starts clusters to measure. All of
them end with the test, which fails if a scripted fault happened fewer times than scripted.

pytest imports this module in every run, so it imports the stub only when a test uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .stub import StubBroker, StubCluster
    from .topic import StubTopic

__all__ = ["make_rocketmq", "rocketmq_broker", "rocketmq_topic"]


@pytest.fixture
def rocketmq_broker() -> Iterator[StubBroker]:
    """A RocketMQ with one broker: `name_server`, `put`, `messages`, `faults`, and time by `clock.advance(ms)`."""
    from .stub import StubBroker

    with StubBroker() as broker:
        yield broker


@pytest.fixture
def rocketmq_topic(rocketmq_broker: StubBroker) -> StubTopic:
    """A topic of four queues, with the options with which Spark reads and writes it."""
    return rocketmq_broker.topic("test-topic")


@pytest.fixture
def make_rocketmq() -> Iterator[Callable[..., StubCluster]]:
    """A function that starts a `StubCluster` with the arguments it gets: brokers, slaves, topics, TLS, users."""
    from .stub import StubCluster

    def make(*shape: Any, **options: Any) -> StubCluster:
        return made.enter_context(StubCluster(*shape, **options))

    with ExitStack() as made:
        yield make
