"""Send a producer's asynchronous messages, in one thread that owns a pipeline of sends.

Callers in any thread put requests into an inbox and wake the thread; each gets a future, which ends with a receipt or a
`SendError`. The number and the bytes of requests without a result are limited. A caller waits for room as long as a
send may take, so a program that sends faster than brokers store is slowed down, and its memory stays bounded.

The queues of a topic are looked up by the callers, so that only they wait for name servers, and not the sends of other
topics. The thread renews the address of a broker, which cannot take longer than half of an attempt.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count

from ..cluster.cluster import Cluster
from ..cluster.messages import STORED, Receipt
from ..errors import LocalProtocolError, RocketMQError, RouteError, SendError
from ..model import MessageQueue, SendRequest
from ..net.deadline import Deadline
from ..net.transport import Waker
from ..send.outcome import Outcome
from ..send.pipeline import SendPipeline
from ..send.settings import SendSettings
from .loop import ServingThread, carry_out
from .settings import ProducerSettings

__all__ = ["AsyncSends", "send_error"]

_LATE_S = 5.0
"""The longest time, in seconds, that closing waits beyond the deadlines of the sends."""
_log = logging.getLogger(__name__)


class AsyncSends:
    """The asynchronous sends of one producer, and their thread, which starts with the first of them."""

    def __init__(self, cluster: Cluster, settings: ProducerSettings) -> None:
        self._settings = settings
        self._cluster = cluster
        self._queues: dict[str, Sequence[MessageQueue]] = {}
        """{topic: its queues, when a caller last looked them up}."""
        self._made_in_pid = os.getpid()
        self._waker = Waker()
        limits = SendSettings(
            producer_group=settings.group,
            attempt_timeout_s=settings.send_timeout_s,
            retries=settings.retries,
            deadline_s=settings.send_timeout_s,
            accepted_statuses=frozenset(STORED),
            max_in_flight=settings.max_in_flight,
            attempt_option="send_timeout_s",
            deadline_option="send_timeout_s",
        )
        self._pipeline = SendPipeline(cluster, limits, self._queues.__getitem__, waker=self._waker)
        self._room = threading.Condition()
        self._count = self._bytes = 0
        """The requests without a result, and the bytes of their bodies."""
        self._inbox: deque[SendRequest] = deque()
        self._numbers = count()
        self._futures: dict[int, Future[Receipt]] = {}
        """The futures of the requests without a result, by the number that stands for a request's row."""
        self._ended: deque[tuple[Future[Receipt], Outcome]] = deque()
        """The futures whose requests have ended, until they get their results."""
        self._is_closing = False
        self._thread = ServingThread(target=self._run, name=f"sends {settings.group}", daemon=True)

    def __repr__(self) -> str:
        return f"<AsyncSends {self._count} without a result>"

    def submit(self, request: SendRequest) -> Future[Receipt]:
        """Send a request; return a future that gets its receipt, or a `SendError`.

        Wait for the queues of a topic that is not known yet. Wait while too many requests have no result; raise
        `SendError` if that lasts for the timeout of a send. In the own thread, where callbacks of futures run, do not
        wait for room, because this is the thread that makes it. Raise in a forked child, which has no such thread.
        """
        self._require_own_process()
        self._require_open()
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # It cannot be cancelled: the message may be stored at any time.
        try:
            self._look_up(request)
        except RocketMQError as error:
            future.set_exception(send_error(error, 1, is_unknown=False))
            return future
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
        """Wait until all sends have ended, the last one at its deadline; fail those that are left then.

        In the own thread, where callbacks of futures run, go on sending until then. In a forked child do nothing: the
        sends are those of its parent, which may have held the lock at the fork.
        """
        if os.getpid() != self._made_in_pid:
            self._waker.abandon()
            return
        with self._room:
            self._is_closing = True
            self._room.notify_all()
        self._waker.wake()
        if not self._thread.ident:
            self._free()
        elif threading.current_thread() is self._thread:
            self._serve()
        else:
            self._thread.join(self._settings.send_timeout_s + _LATE_S)
        self._end_futures()
        self._fail_rest(LocalProtocolError("the producer was closed", advice="make a new one"))

    def _require_own_process(self) -> None:
        if os.getpid() != self._made_in_pid:
            raise LocalProtocolError(
                f"this producer was made in process {self._made_in_pid} and cannot send asynchronously in process "
                f"{os.getpid()}, which has no thread for it",
                advice="make a producer in each process",
                group=self._settings.group,
            )

    def _look_up(self, request: SendRequest) -> None:
        """Find the queues of a request's topic; raise if there are none and it does not name one itself."""
        until = Deadline.after(self._settings.send_timeout_s)
        try:
            self._queues[request.topic] = self._cluster.writable.queues(request.topic, until)
        except RouteError:
            if request.queue is None:
                raise

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
        self._require_open()

    def _require_open(self) -> None:
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
            self._serve()
        except BaseException as cause:
            _log.exception("the thread of asynchronous sends has failed")
            self._is_closing = True
            self._fail_rest(LocalProtocolError(f"the thread of asynchronous sends has failed: {cause!r}"))
        finally:
            self._free()

    def _serve(self) -> None:
        """Send what is in the inbox and settle what has ended, until the producer closes and all sends have ended."""
        while not (self._is_closing and not self._count):
            self._waker.clear()
            while self._inbox and not self._pipeline.is_full:
                self._pipeline.submit(self._inbox.popleft())
            self._settle(self._pipeline.wait())

    def _free(self) -> None:
        self._pipeline.close()
        self._waker.close()

    def _settle(self, outcomes: list[Outcome]) -> None:
        """Make room for the requests that have ended, and set their futures' results."""
        with self._room:
            self._count -= len(outcomes)
            self._bytes -= sum(len(outcome.request.body) for outcome in outcomes)
            for outcome in outcomes:
                [number] = outcome.request.rows
                if future := self._futures.pop(number, None):  # None: a thread that closes no longer waits for it.
                    self._ended.append((future, outcome))
            self._room.notify_all()
        self._end_futures()

    def _end_futures(self) -> None:
        """Give the futures whose requests have ended their results, whatever their callbacks raise.

        A callback that closes the producer gets here again, and so does a thread that no longer waits for a callback.
        """
        with suppress(IndexError):
            while True:
                carry_out(partial(_end, *self._ended.popleft()))

    def _fail_rest(self, error: RocketMQError) -> None:
        with self._room:
            rest, self._futures = list(self._futures.values()), {}
            self._room.notify_all()
        for future in rest:
            carry_out(partial(future.set_exception, send_error(error, 1, is_unknown=True)))


def _end(future: Future[Receipt], outcome: Outcome) -> None:
    if outcome.receipt is not None:
        future.set_result(outcome.receipt)
    else:
        assert outcome.error is not None
        future.set_exception(send_error(outcome.error, 1, outcome.is_unknown))


def send_error(error: RocketMQError, count: int, is_unknown: bool) -> SendError:
    """Return the `SendError` for a failed send of `count` messages; it says whether they may be stored all the same."""
    numbers = range(count)
    status = "no receipt, so it may be stored" if is_unknown else "not sent"
    what = f"{status}: {error.what}"
    outcome = {"unknown": numbers} if is_unknown else {"failed": numbers}
    return SendError(what, advice=error.advice or "send again", **outcome, **error.where)
