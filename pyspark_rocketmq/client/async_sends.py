"""Send a producer's asynchronous messages, in one thread that owns a pipeline of sends.

Callers in any thread put requests into an inbox and wake the thread; each gets a future, which ends with a receipt or a
`SendError`. The number and the bytes of requests without a result are limited. A caller waits for room as long as a
send may take, so a program that sends faster than brokers store is slowed down, and its memory stays bounded.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future
from itertools import count

from ..cluster.cluster import Cluster
from ..cluster.messages import STORED, Receipt
from ..errors import LocalProtocolError, RequestTimeout, RocketMQError, SendError
from ..model import SendRequest
from ..net.deadline import Deadline
from ..net.transport import Waker
from ..send import Outcome, SendPipeline, SendSettings
from .loop import OwnThread
from .settings import ProducerSettings

__all__ = ["AsyncSends", "send_error"]

_LATE_S = 5.0
"""The longest time, in seconds, that closing waits beyond the deadlines of the sends."""
_log = logging.getLogger(__name__)


class AsyncSends:
    """The asynchronous sends of one producer, and their thread, which starts with the first of them."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings) -> None:
        self._settings = settings
        self._waker = Waker()
        limits = SendSettings(
            producer_group=settings.group,
            attempt_timeout_s=settings.send_timeout_s,
            retries=settings.retries,
            deadline_s=settings.send_timeout_s,
            accepted_statuses=frozenset(STORED),
            max_in_flight=settings.max_in_flight,
        )
        self._pipeline = SendPipeline(cluster, limits, cluster.writable.queues, waker=self._waker)
        self._room = threading.Condition()
        self._count = self._bytes = 0
        """The requests without a result, and the bytes of their bodies."""
        self._inbox: deque[SendRequest] = deque()
        self._numbers = count()
        self._futures: dict[int, Future[Receipt]] = {}
        """The futures of the requests without a result, by the number that stands for a request's row."""
        self._is_closing = False
        self._thread = OwnThread(target=self._run, name=f"sends {settings.group}", daemon=True)

    def __repr__(self) -> str:
        return f"<AsyncSends {self._count} without a result>"

    def submit(self, request: SendRequest) -> Future[Receipt]:
        """Send a request; return a future that gets its receipt, or a `SendError`.

        Wait while too many requests have no result; raise `SendError` if that lasts for the timeout of a send. In the
        own thread, where callbacks of futures run, do not wait, because this is the thread that makes room.
        """
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # It cannot be cancelled: the message may be stored at any time.
        size, number = len(request.body), next(self._numbers)
        with self._room:
            self._wait_for_room(size)
            self._count += 1
            self._bytes += size
            self._futures[number] = future
            self._inbox.append(request._replace(rows=(number,)))
            if not self._thread.ident:
                self._thread.start()
        self._waker.wake()
        return future

    def close(self) -> None:
        """Wait until all sends have ended, the last one at its deadline; fail those that are left then."""
        with self._room:
            self._is_closing = True
            self._room.notify_all()
        self._waker.wake()
        if not self._thread.ident:
            self._free()
        elif threading.current_thread() is not self._thread:
            self._thread.join(self._settings.send_timeout_s + _LATE_S)
        self._fail_rest(LocalProtocolError("the producer was closed", advice="make a new one"))

    def _wait_for_room(self, size: int) -> None:
        """Wait until there is room for a body of this size; a body above the limit waits until it is alone."""
        until = Deadline.after(self._settings.send_timeout_s)
        while not self._is_closing and not self._has_room(size):
            if not self._room.wait(until.remaining()) and until.expired:
                raise SendError(
                    f"{self._count} asynchronous sends of {self._bytes} bytes had no result for {until.seconds:g} s",
                    failed=(0,),
                    advice="wait for their futures, or raise max_in_flight or max_bytes_in_flight",
                )
        if self._is_closing:
            raise LocalProtocolError("the producer was closed", advice="make a new one")

    def _has_room(self, size: int) -> bool:
        if threading.current_thread() is self._thread or not self._count:
            return True
        is_small = self._bytes + size <= self._settings.max_bytes_in_flight
        return is_small and self._count < self._settings.max_in_flight

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not (self._is_closing and not self._count):
                self._waker.clear()
                while self._inbox:
                    self._pipeline.submit(self._inbox.popleft())
                self._settle(self._pipeline.wait())
        except BaseException as cause:
            _log.exception("the thread of asynchronous sends has failed")
            self._is_closing = True
            self._fail_rest(LocalProtocolError(f"the thread of asynchronous sends has failed: {cause!r}"))
        finally:
            self._free()

    def _free(self) -> None:
        self._pipeline.close()
        self._waker.close()

    def _settle(self, outcomes: list[Outcome]) -> None:
        """Make room for the requests that have ended, and set their futures' results."""
        with self._room:
            self._count -= len(outcomes)
            self._bytes -= sum(len(outcome.request.body) for outcome in outcomes)
            ended = [(self._take_future(outcome.request), outcome) for outcome in outcomes]
            self._room.notify_all()
        for future, outcome in ended:
            if outcome.receipt is not None:
                future.set_result(outcome.receipt)
            else:
                assert outcome.error is not None
                future.set_exception(send_error(outcome.error, 1, outcome.is_unknown))

    def _take_future(self, request: SendRequest) -> Future[Receipt]:
        [number] = request.rows
        return self._futures.pop(number)

    def _fail_rest(self, error: RocketMQError) -> None:
        with self._room:
            rest, self._futures = list(self._futures.values()), {}
            self._room.notify_all()
        for future in rest:
            future.set_exception(send_error(error, 1, is_unknown=True))


def send_error(error: RocketMQError, count: int, is_unknown: bool) -> SendError:
    """Return the `SendError` for a failed send of `count` messages; it says whether they may be stored all the same."""
    numbers = range(count)
    status = "no response, so it may be stored" if isinstance(error, RequestTimeout) else "not sent"
    what = f"{status}: {error.what}"
    outcome = {"unknown": numbers} if is_unknown else {"failed": numbers}
    return SendError(what, advice=error.advice or "send again", **outcome, **error.where)
