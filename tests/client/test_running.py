"""Consumers and producers start once, can be waited for, and close once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyspark_rocketmq.client import SUCCESS, PushConsumer, ReceivedMessage
from pyspark_rocketmq.errors import LocalProtocolError
from tests.client.fixtures import GROUP, TIMEOUT_S, Group, Log, until


@pytest.mark.parametrize("make", [Group.concurrent, Group.orderly], ids=["concurrent", "orderly"])
def test_a_listener_may_close_its_consumer(make: Callable[..., PushConsumer], group: Group) -> None:
    """If the listener closes its consumer, `wait` returns and the member leaves its group."""
    group.put("a", queue_id=0)
    is_made = threading.Event()

    def close(_: Sequence[ReceivedMessage]) -> Any:
        is_made.wait(TIMEOUT_S)
        consumer.close()
        return SUCCESS

    consumer = make(group, close)
    is_made.set()
    assert consumer.wait(TIMEOUT_S)
    assert group.stub.groups() == {}
    assert group.committed().get(0, 0) in (0, 1)


def test_waiting_ends_when_another_thread_closes(group: Group) -> None:
    """`wait` returns False at its timeout, and True once the consumer is closed; a second `close` does nothing."""
    consumer = group.concurrent(Log())
    assert not consumer.wait(0.05)
    threading.Timer(0.05, consumer.close).start()

    assert consumer.wait(TIMEOUT_S)
    consumer.close()
    assert consumer.wait()


def test_a_second_close_waits_for_the_first(group: Group) -> None:
    """If several threads call `close`, each call returns only when brokers no longer list the consumer."""
    consumer = group.concurrent(Log())
    until(lambda: GROUP in group.stub.groups())
    listed: list[object] = []

    def close() -> None:
        consumer.close()
        listed.append(group.stub.groups())

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert listed == [{}] * 4


def test_nothing_starts_twice_or_after_its_end(group: Group) -> None:
    """A second start, a start after closing, and waiting before the start raise errors with advice."""
    consumer, producer = group.concurrent(Log()), group.producer()
    with pytest.raises(LocalProtocolError, match="with block"):
        consumer.start()
    consumer.close()
    producer.close()
    for closed in (consumer, producer):
        with pytest.raises(LocalProtocolError, match="make a new one"):
            closed.start()
    unstarted = PushConsumer.concurrent(group.cluster_settings, group.settings(), Log())
    with pytest.raises(LocalProtocolError, match="call start"):
        unstarted.wait(0)
    unstarted.close()


def test_an_interrupt_ends_waiting_and_closes(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ctrl-C interrupts `wait`, the `with` block closes the consumer and raises `KeyboardInterrupt`."""
    consumer = PushConsumer.concurrent(group.cluster_settings, group.settings(), Log())

    def interrupt(_: float | None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(consumer._closed, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt), consumer:
        consumer.wait()
    assert consumer._closed.is_set()
    assert group.stub.groups() == {}
