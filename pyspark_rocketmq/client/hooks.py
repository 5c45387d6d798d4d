"""Call the user's hooks before and after each call of a listener, for example to trace or measure consumption.

These are the consume hooks of RocketMQ's Java client. An exception of a hook is logged and has no other effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..model import MessageQueue
from .message import ReceivedMessage

__all__ = ["ConsumeContext", "ConsumeHook", "ConsumeReturnType", "Hooks"]

_log = logging.getLogger(__name__)


class ConsumeReturnType(Enum):
    """The ways in which a call of the listener can end, by the Java client's names.

    If several apply to one call, it counts as the one that is listed first here.
    """

    EXCEPTION = "EXCEPTION"
    """The listener raised."""
    RETURNNULL = "RETURNNULL"
    """The listener returned None, or another value that is no result."""
    TIME_OUT = "TIME_OUT"
    """The listener took `consume_timeout_s` or longer, whatever it returned."""
    FAILED = "FAILED"
    """The listener returned that the whole batch failed."""
    SUCCESS = "SUCCESS"
    """Anything else. As in the Java client, ROLLBACK of a batch in order counts as SUCCESS."""


@dataclass(slots=True)
class ConsumeContext:
    """The data that hooks get about one call of the listener; the same object before and after the call."""

    group: str
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    props: dict[str, Any] = field(default_factory=dict)
    """Empty at first; hooks may keep values in it that they need after the call."""
    status: str | None = None
    """The Java client's name of the result that is applied, e.g. RECONSUME_LATER; None before the call."""
    is_success: bool = False
    """Whether the result that is applied is a success; False before the call."""
    return_type: ConsumeReturnType | None = None
    """The way in which the call ended; None before the call."""


class ConsumeHook:
    """Base class of hooks. Both methods do nothing unless a subclass overrides them; many threads may call them."""

    def before(self, context: ConsumeContext) -> None:
        """Run before the listener is called."""

    def after(self, context: ConsumeContext) -> None:
        """Run after the listener has returned or raised, and before its result is applied.

        It does not run if an orderly consumer loses the queue between `before` and the listener.
        """


class Hooks:
    """The hooks of a consumer that has some, in the order in which they run."""

    def __init__(self, hooks: Sequence[ConsumeHook], group: str, timeout_s: float) -> None:
        self._before = tuple(hook.before for hook in hooks)
        self._after = tuple(hook.after for hook in hooks)
        self._group = group
        self._timeout_s = timeout_s

    def before(self, queue: MessageQueue, messages: Sequence[ReceivedMessage]) -> ConsumeContext:
        """Run the hooks before a call of the listener, and return the context for `after`."""
        context = ConsumeContext(self._group, queue, messages)
        _call(self._before, context)
        return context

    def after(self, context: ConsumeContext, status: str, is_success: bool, kind: ConsumeReturnType) -> None:
        """Run the hooks after a call of the listener; the other arguments say how the call ended."""
        context.status, context.is_success, context.return_type = status, is_success, kind
        _call(self._after, context)

    def judge(self, spent_s: float, *, is_failed: bool) -> ConsumeReturnType:
        """Return how a call that took `spent_s` ended: TIME_OUT if the timeout was reached, else FAILED or SUCCESS."""
        if spent_s >= self._timeout_s:
            return ConsumeReturnType.TIME_OUT
        return ConsumeReturnType.FAILED if is_failed else ConsumeReturnType.SUCCESS


def _call(methods: Sequence[Callable[[ConsumeContext], object]], context: ConsumeContext) -> None:
    for method in methods:
        try:
            method(context)
        except BaseException:  # `sys.exit()`, too: it must not end the thread.
            _log.exception("the hook %r failed on messages of %s and is ignored", method, context.queue)
