"""Hooks run before and after each call of a listener, and learn how it ended, as in RocketMQ's Java client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.client import (
    COMMIT,
    RECONSUME_LATER,
    ROLLBACK,
    SUCCESS,
    SUSPEND,
    ConsumeContext,
    ConsumeHook,
    PushConsumer,
    ReceivedMessage,
    later,
    success_of_first,
    with_auto_commit,
)
from tests.client.fixtures import GROUP, QUICK, TIMEOUT_S, TOPIC, Group, Log, ManualClock, queue, until

MAKES = pytest.mark.parametrize("make", [Group.concurrent, Group.orderly], ids=["concurrent", "orderly"])
CONSUMED, AGAIN, WAIT = "CONSUME_SUCCESS", "RECONSUME_LATER", "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class Trace(ConsumeHook):
    """A hook that records what it is called with."""

    def __init__(self) -> None:
        self.begun: list[tuple[object, ...]] = []
        self.ended: list[tuple[object, ...]] = []

    def before(self, context: ConsumeContext) -> None:
        """Record the state before the listener is called."""
        self.begun.append((context.status, context.is_success, context.return_type))

    def after(self, context: ConsumeContext) -> None:
        """Record how the call ended."""
        assert context.return_type is not None
        self.ended.append((context.return_type.name, context.status, context.is_success))


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (lambda _: SUCCESS, ("SUCCESS", CONSUMED, True)),
        (lambda _: success_of_first(1), ("SUCCESS", CONSUMED, True)),
        (lambda _: RECONSUME_LATER, ("FAILED", AGAIN, False)),
        (lambda _: later(5), ("FAILED", AGAIN, False)),
        (lambda _: None, ("RETURNNULL", AGAIN, False)),
        (lambda _: "done", ("RETURNNULL", AGAIN, False)),
        (lambda _: 1 / 0, ("EXCEPTION", AGAIN, False)),
        (lambda _: _raise(SystemExit()), ("EXCEPTION", AGAIN, False)),
    ],
)
def test_a_concurrent_call_ends_as_in_java(
    group: Group, answer: Callable[[Sequence[ReceivedMessage]], Any], ended: tuple[object, ...]
) -> None:
    """After each end of a concurrent listener, hooks get its type, the name of the result, and whether it succeeded."""
    hook = Trace()
    group.put("a", "b", queue_id=0)
    group.concurrent(answer, hooks=[hook], batch_size=2)

    until(lambda: hook.ended)
    assert (hook.begun[0], hook.ended[0]) == ((None, False, None), ended)


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (lambda _: SUCCESS, ("SUCCESS", "SUCCESS", True)),
        (lambda _: with_auto_commit(COMMIT, False), ("SUCCESS", "COMMIT", True)),
        (lambda _: with_auto_commit(ROLLBACK, False), ("SUCCESS", "ROLLBACK", False)),
        (lambda _: SUSPEND, ("FAILED", WAIT, False)),
        (lambda _: RECONSUME_LATER, ("FAILED", WAIT, False)),
        (lambda _: None, ("RETURNNULL", WAIT, False)),
        (lambda _: 1 / 0, ("EXCEPTION", WAIT, False)),
        (lambda _: _raise(SystemExit()), ("EXCEPTION", WAIT, False)),
    ],
)
def test_an_orderly_call_ends_as_in_java(
    group: Group, answer: Callable[[Sequence[ReceivedMessage]], Any], ended: tuple[object, ...]
) -> None:
    """After each end of an orderly listener, hooks get the same; ROLLBACK has the type SUCCESS, but is no success."""
    hook = Trace()
    group.put("a", queue_id=0)
    group.orderly(answer, hooks=[hook])

    until(lambda: hook.ended)
    assert (hook.begun[0], hook.ended[0]) == ((None, False, None), ended)


@MAKES
@pytest.mark.parametrize(
    ("result", "kind"), [(SUCCESS, "TIME_OUT"), (RECONSUME_LATER, "TIME_OUT"), (None, "RETURNNULL")], ids=repr
)
def test_a_call_that_takes_too_long_is_a_time_out(
    make: Callable[..., PushConsumer], result: object, kind: str, group: Group
) -> None:
    """A listener that takes `consume_timeout_s` has the type TIME_OUT, but its result is applied all the same."""
    clock, hook = ManualClock(), Trace()
    group.put("a", queue_id=0)

    def answer(_: Sequence[ReceivedMessage]) -> Any:
        clock.advance(10.0)
        return result

    rhythm = replace(QUICK, pull_max_idle_s=3600, lock_max_live_s=3600, unlock_delay_s=3600)
    make(group, answer, hooks=[hook], clock=clock, rhythm=rhythm, consume_timeout_s=10.0)
    clock.advance_until(lambda: hook.ended)
    kinds = [hook.ended[0][0], hook.ended[0][2]]
    assert kinds == [kind, result == SUCCESS]


@MAKES
def test_a_call_just_below_the_timeout_is_a_success(make: Callable[..., PushConsumer], group: Group) -> None:
    """A listener that takes a little less than `consume_timeout_s` has the type SUCCESS."""
    hook = Trace()
    group.put("a", queue_id=0)
    make(group, Log(), hooks=[hook], consume_timeout_s=TIMEOUT_S)

    until(lambda: hook.ended)
    assert hook.ended[0][0] == "SUCCESS"


@MAKES
def test_hooks_surround_the_listener(make: Callable[..., PushConsumer], group: Group) -> None:
    """Hooks run in their order before and after the listener, with its messages and one context for both."""
    events: list[object] = []

    class Note(ConsumeHook):
        def __init__(self, name: str) -> None:
            self.name = name

        def before(self, context: ConsumeContext) -> None:
            context.props[self.name] = [message.body for message in context.messages]
            events.append(f"before {self.name}")

        def after(self, context: ConsumeContext) -> None:
            events.extend([f"after {self.name}", context.group, context.queue, context.props[self.name]])

    def answer(_: Sequence[ReceivedMessage]) -> Any:
        events.append("listener")
        return SUCCESS

    group.put("a", queue_id=0)
    make(group, answer, hooks=[Note("one"), Note("two")])
    until(lambda: group.committed().get(0) == 1)
    seen = [GROUP, queue(0), [b"a"]]
    assert events == ["before one", "before two", "listener", "after one", *seen, "after two", *seen]


@MAKES
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_a_hook_that_fails_harms_nothing(
    make: Callable[..., PushConsumer], error: type[BaseException], group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """If a hook raises, that is logged, later hooks run, and every message is consumed and committed."""

    class Fails(ConsumeHook):
        def before(self, context: ConsumeContext) -> None:
            context.messages = ()
            raise error

        after = before

    hook, log = Trace(), Log()
    group.put("a", "b", queue_id=0)
    make(group, log, hooks=[Fails(), hook], thread_count=1)
    until(lambda: group.committed().get(0) == 2)
    assert log.bodies == [b"a", b"b"]
    assert hook.ended == [("SUCCESS", hook.ended[0][1], True)] * 2
    assert caplog.text.count("and is ignored") == 4
    assert error.__name__ in caplog.text


@MAKES
def test_a_hook_need_not_do_anything(make: Callable[..., PushConsumer], group: Group) -> None:
    """A hook that overrides neither method changes nothing."""
    log = Log()
    group.put("a", queue_id=0)
    make(group, log, hooks=[ConsumeHook()])

    until(lambda: group.committed().get(0) == 1)


def test_a_queue_lost_before_the_listener_ends_without_a_call(group: Group) -> None:
    """If an orderly consumer loses the queue while `before` runs, neither the listener nor `after` is called."""
    is_made, is_lost, hook, log = threading.Event(), threading.Event(), Trace(), Log()

    class Loses(ConsumeHook):
        def before(self, context: ConsumeContext) -> None:
            is_made.wait(TIMEOUT_S)
            consumer.unsubscribe(TOPIC)
            until(lambda: all(held.topic != TOPIC for held in consumer.queues))
            is_lost.set()

    group.put("a", queue_id=0)
    consumer = group.orderly(log, hooks=[Loses(), hook], await_termination_s=TIMEOUT_S)
    is_made.set()
    assert is_lost.wait(TIMEOUT_S)
    consumer.close()
    assert (len(hook.begun), hook.ended, log.messages) == (1, [], [])
