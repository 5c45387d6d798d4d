"""How does a scripted fault befall a call of the gRPC door?

The call is carried out all the same, as at a broker, unless it is answered with a code. What goes wrong is on the way
back: the answer comes late by the stub's clock, it never comes, or the call ends as on a broken connection.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from pyspark_rocketmq.grpc_v2.enums import Code

from ..doors import Run
from ..faults import PROXY, Fault
from ..registry import Manner
from .calls import Denied
from .proxy import Proxy, denial_of

LONGEST_WAIT_S = 60.0


class Hindrance:
    """What the script of faults has in mind for the calls of a door."""

    def __init__(self, proxy: Proxy, run: Run) -> None:
        self._script, self._clock, self._run = proxy.behaviour.script, proxy.clock, run

    @contextmanager
    def of(self, method: str, context: Any) -> Iterator[Denied | None]:
        """Around a call: what it is denied with, if it is; leaving waits, or ends the call, as the fault wants."""
        fault = self._run(lambda: self._script.take(PROXY, method)) if self._script else None
        yield _denial(fault) if fault else None
        if fault and fault.manner:
            self._hinder(fault.manner, context)

    def _hinder(self, manner: Manner, context: Any) -> None:
        if not manner.cut:
            is_over = threading.Event()
            if context.add_callback(is_over.set) and not manner.drop:
                self._run(lambda: self._clock.call_later(manner.delay_ms, is_over.set))
            is_over.wait(LONGEST_WAIT_S)
        if manner.cut or manner.drop:
            context.abort(grpc.StatusCode.UNAVAILABLE, "as scripted")


def _denial(fault: Fault) -> Denied | None:
    """A code of the gRPC protocol as it is, one of a broker as a proxy translates it."""
    if fault.make_answer is None:
        return None
    answer = fault.make_answer()
    known = Code.__members__.values()
    return Denied(Code(answer.code), answer.remark or "") if answer.code in known else denial_of(answer)
