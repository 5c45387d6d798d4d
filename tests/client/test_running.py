"""Consumers and producers start once, can be waited for, and close once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pyspark_rocketmq.client import SUCCESS, PushConsumer, ReceivedMessage, running
from pyspark_rocketmq.client.running import Running
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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that `close` waits in a listener."""
    monkeypatch.setattr(running, "_OWN_THREAD_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_second_close_waits_however_long_the_first_takes(group: Group) -> None:
    """A second `close` returns only when the first is done, even if a listener holds that up for longer than 5 s."""
    gate, ended = threading.Event(), list[str]()
    group.put("a", queue_id=0)
    log = Log(lambda _: gate.wait(TIMEOUT_S) and SUCCESS)
    consumer = group.concurrent(log, await_termination_s=TIMEOUT_S)
    log.wait_for(1)

    def close() -> None:
        consumer.close()
        ended.append("closed")

    closers = [threading.Thread(target=close) for _ in range(3)]
    for thread in closers:
        thread.start()
    closers[-1].join(0.3)
    assert ended == []
    gate.set()
    for thread in closers:
        thread.join(TIMEOUT_S)
    assert ended == ["closed"] * 3
    assert group.committed().get(0) == 1


@pytest.mark.usefixtures("impatient")
def test_a_listener_that_closes_second_does_not_hold_up_the_first(group: Group) -> None:
    """If a listener calls `close` while closing waits for it, its call returns soon, and its message is committed."""
    is_closing, is_late = threading.Event(), threading.Event()

    def close(_: Sequence[ReceivedMessage]) -> Any:
        is_closing.wait(TIMEOUT_S)
        until(lambda: not consumer._member.state.is_running)
        consumer.close()
        is_late.set()
        return SUCCESS

    group.put("a", queue_id=0)
    log = Log(close)
    consumer = group.concurrent(log, await_termination_s=TIMEOUT_S)
    log.wait_for(1)
    is_closing.set()
    consumer.close()
    assert is_late.is_set()
    assert group.committed().get(0) == 1


@pytest.mark.usefixtures("impatient")
def test_a_close_in_a_signal_handler_does_not_wait_for_itself(group: Group) -> None:
    """If a signal handler interrupts `close` and calls it again, the handler returns and the first call goes on."""
    group.put("a", queue_id=0)
    gate, waited = threading.Event(), list[bool]()

    def handle(*_: object) -> None:
        consumer.close()
        gate.set()

    def interrupt() -> None:
        until(lambda: not consumer._member.state.is_running)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def answer(_: Sequence[ReceivedMessage]) -> Any:
        waited.append(gate.wait(TIMEOUT_S))
        return SUCCESS

    log = Log(answer)
    consumer = group.concurrent(log, await_termination_s=TIMEOUT_S)
    log.wait_for(1)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        threading.Thread(target=interrupt).start()
        consumer.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert waited == [True]
    assert group.committed().get(0) == 1


class _Part(Running):
    """Something that needs a lock of its user to close."""

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__()
        self._lock = lock
        self.got_lock = False

    def _start(self) -> None:
        """Start nothing."""

    def _close(self) -> None:
        self.got_lock = self._lock.acquire(timeout=TIMEOUT_S)


@pytest.mark.usefixtures("impatient")
def test_a_close_in_a_signal_handler_does_not_wait_for_a_lock_of_its_own_thread() -> None:
    """If another thread closes and needs a lock that the main thread holds, a handler's `close` ends all the same."""
    lock = threading.Lock()
    part = _Part(lock)
    closer = threading.Thread(target=part.close)
    before = signal.signal(signal.SIGUSR1, lambda *_: part.close())
    try:
        with lock:
            closer.start()
            until(part._closing.locked)
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    closer.join(TIMEOUT_S)
    assert part.got_lock
