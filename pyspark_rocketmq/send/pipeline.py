"""Keep sends in flight to all brokers of a cluster, for one thread.

    pipeline = SendPipeline(cluster, SendSettings(producer_group="g"), cluster.writable.queues)
    for request in requests:
        pipeline.submit(request)
    pipeline.flush()
    outcomes = pipeline.take_outcomes()

No error of a single request is raised; it is the request's outcome, and the caller decides what to do. Every request
has exactly one outcome. An attempt that failed without a response may have stored the request all the same. It is sent
again, with the same message ids, so that readers can drop the repetition; `Outcome.is_unknown` says whether a request
that failed in the end may be stored.

With `keeps_order`, a queue gets nothing more after a request to it has failed: those behind it end unsent, unless the
caller has said with `pass_over` that it deals with such a failure.

Bytes move only within calls of the methods below. While the caller is elsewhere, the deadlines of sends stand still,
since receipts may have arrived that nobody has read. Requests leave in groups, since a system call for each of them
would cost more than the request.
"""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from ..cluster.cluster import Cluster
from ..cluster.messages import Receipt
from ..errors import FrameTooLarge, RequestTimeout, RocketMQError, TopicNotFound
from ..model import SendRequest
from ..net.deadline import Deadline
from ..net.pipeline import Pipeline, RequestKind
from ..net.pool import pool_for
from ..net.transport import Waker
from ..wire.codes import RequestCode
from ..wire.header import Command
from .failures import NextStep, earlier_send_failed_error, interrupted_error, judge, status_error, stopped_error
from .frames import SendTemplate, encode_text, read_receipt, read_response
from .outcome import Outcome, SendStatistics
from .schedule import BrokerState, ListQueues, QueuedSend, Schedule
from .settings import SendSettings

__all__ = ["SendPipeline"]

PassOver = Callable[[SendRequest, RocketMQError], bool]
"""Returns whether later requests to the queue of one that has failed with this error may be sent all the same."""
_GROUP = 16
"""The number of submitted requests that leave together."""
_BURST_S = 0.1
"""With a rate limit: the time after a pause for which rows may be taken at once."""
_LONGEST_WAIT_S = 3600.0
_AWAY_S = 0.1
"""The shortest absence of the caller for which the deadlines of sends stand still."""
_MOST_HEADER_BYTES = 8 * 1024
"""An upper bound of a send's header without its properties."""


class SendPipeline:
    """Requests on their way to brokers, over one connection per broker. Not thread-safe."""

    def __init__(
        self,
        cluster: Cluster,
        settings: SendSettings,
        queues: ListQueues,
        clock: Callable[[], float] = time.monotonic,
        waker: Waker | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        kind = RequestKind(
            RequestCode.SEND_MESSAGE_V2,
            "a send",
            settings.attempt_timeout_s,
            f"it may be stored; check the broker's load, or raise {settings.attempt_option}",
            read_response,
        )
        pool = pool_for(cluster.settings.net)
        self._port: Pipeline[BrokerState, QueuedSend, Command] = Pipeline(pool, kind, clock, waker)
        self._waker = waker
        """With it another thread can end `wait`."""
        self._schedule = Schedule(settings, queues)
        self._is_passed_over: PassOver = lambda request, error: False
        self._templates: dict[tuple[str, str, bool], SendTemplate] = {}
        self._reached: set[str] = set()
        """Topics that had a route in this pipeline."""
        self._delivered: deque[tuple[BrokerState, QueuedSend, Command | RocketMQError]] = deque()
        """The results of attempts that are not settled yet; only an interrupt leaves any behind."""
        self._outcomes: list[Outcome] = []
        self._unsent = 0
        self._left_at = clock()
        """The moment since which no bytes were moved."""
        self._next_at = -math.inf
        """With a rate limit: the moment at which the next request may be taken."""
        self._text, self._encoded_text = "", encode_text("")
        self._statistics = SendStatistics()

    def __repr__(self) -> str:
        return f"<SendPipeline {self._schedule!r}, {len(self._outcomes)} outcomes>"

    @property
    def count(self) -> int:
        """The number of requests that have not ended."""
        return self._schedule.count

    @property
    def is_full(self) -> bool:
        """Whether `submit` would wait, because too many bytes of other requests wait."""
        return self._schedule.is_full

    @property
    def statistics(self) -> SendStatistics:
        """Counts and times since the pipeline was made."""
        self._statistics.retries, self._statistics.pauses = self._schedule.retries, self._schedule.pauses
        return self._statistics

    # --- use ---------------------------------------------------------------------------------------------------------

    def pass_over(self, is_passed_over: PassOver) -> None:
        """Set which failed requests do not close their queue, where the order is kept.

        The function is called for each request that fails, before the next one to its queue may go.
        """
        self._is_passed_over = is_passed_over

    def submit(self, request: SendRequest) -> None:
        """Take a request; wait while too many bytes of other requests wait, or while the rate limit forbids it."""
        if self._settings.rows_per_second is not None:
            self._limit_rate(len(request.rows) / self._settings.rows_per_second)
        while self._schedule.is_full:
            self._pump(math.inf)
        try:
            properties = self._check(request)
            self._schedule.add(request, properties, self._clock())
        except RocketMQError as error:
            self._fail(request, error.locate(topic=request.topic), is_unknown=False)
            if request.queue is not None and not self._is_passed_over(request, error):
                self._schedule.close_queue(request.queue)
            return
        self._unsent += 1
        if self._unsent >= _GROUP:
            self._pump(-math.inf)

    def take_outcomes(self) -> list[Outcome]:
        """Return the requests that have ended since the last call, without waiting.

        If there are none, first send what may go, and take the responses that have arrived. So it costs little to call
        this once for many submitted requests, and much after each of them.
        """
        if not self._outcomes and self._schedule.count:
            self._pump(-math.inf)
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def wait(self) -> list[Outcome]:
        """Send what may go, and return the requests that have ended; if there are none, wait for responses first.

        Return an empty list when the waker is set, and when a pause ends.
        """
        self._pump(-math.inf if self._outcomes else math.inf)
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def flush(self) -> None:
        """Wait until all submitted requests have ended, the last one at its deadline."""
        while self._schedule.count:
            self._pump(math.inf)

    def stop(self) -> None:
        """End the requests that are not in flight, without sending them, and wait until the others have ended.

        Their attempts in flight are the last ones, so this takes no longer than the timeout of an attempt. Requests
        that are submitted later are refused. After an interrupt, such as `KeyboardInterrupt`, the outcomes of requests
        whose responses were just taken may be lost; these end as unknown.
        """
        for send in self._schedule.stop():
            self._fail(send.request, self._locate(stopped_error(), send), is_unknown=send.is_unknown)
        while self._schedule.count and (self._port.in_flight or self._delivered):
            self._pump(math.inf)
        for send in self._schedule.end_rest():
            self._fail(send.request, self._locate(interrupted_error(), send), is_unknown=True)

    def close(self) -> None:
        """Return the connections; requests that have not ended get no outcome."""
        self._port.close()

    # --- sending -----------------------------------------------------------------------------------------------------

    def _limit_rate(self, seconds: float) -> None:
        """Wait until the next request may be taken, which takes `seconds` of the rate limit."""
        begun = now = self._clock()
        while now < self._next_at:
            if self._schedule.count:
                self._pump(self._next_at)
            else:
                time.sleep(min(self._next_at - now, _LONGEST_WAIT_S))
            now = self._clock()
        self._statistics.limited_s += now - begun
        self._next_at = max(self._next_at, now - _BURST_S) + seconds

    def _check(self, request: SendRequest) -> bytes:
        """Return the encoded properties of a request; raise if it does not fit a frame, or if they are no text."""
        if request.properties is not self._text:
            self._text, self._encoded_text = request.properties, encode_text(request.properties)
        size, limit = len(request.body) + len(self._encoded_text), self._cluster.settings.net.max_frame_bytes
        if size > limit - _MOST_HEADER_BYTES:
            what = f"a send of {size} bytes, the limit of a frame is {limit}"
            raise FrameTooLarge(what, advice="send less at once, or raise maxFrameSize here and on the server")
        return self._encoded_text

    def _pump(self, until: float) -> None:
        """Send what may go, then take responses; wait for the first ones, at most until the clock shows `until`."""
        now = self._clock()
        if now - self._left_at > _AWAY_S:
            # Receipts wait in the sockets meanwhile, and what was not sent could not be.
            self._schedule.postpone(now - self._left_at)
        self._expire(now)
        self._unsent = 0
        for broker, sends in self._schedule.take(now):
            for (topic, is_batch), run in groupby(sends, _kind_of):
                self._write(broker, topic, is_batch, list(run))
        self._port.send()
        self._drain(until)
        self._left_at = self._clock()
        self._expire(self._left_at)

    def _write(self, broker: BrokerState, topic: str, is_batch: bool, sends: list[QueuedSend]) -> None:
        """Write sends of one topic to a broker; take them back if there is no way to it now."""
        begun = self._clock()
        try:
            queue = sends[0].queue
            assert queue is not None
            deadline = Deadline.after(self._settings.attempt_timeout_s)
            address = self._cluster.writable.master(queue, deadline, once=True)
            self._reached.add(topic)
        except RocketMQError as error:
            self._handle_no_route(broker, topic, sends, error)
            return
        try:
            is_connected = self._port.connect(address)
        except RocketMQError as error:
            self._handle_unreachable(broker, topic, sends, error, self._clock() - begun)
            return
        finally:
            self._statistics.connecting_s += self._clock() - begun
        if is_connected:
            template = self._template(topic, broker.name, is_batch)
            self._port.enqueue(address, broker, sends, partial(template.write, sends, _wall_ms))
        else:
            self._schedule.put_back(sends, broker, None)

    def _template(self, topic: str, broker_name: str, is_batch: bool) -> SendTemplate:
        key = topic, broker_name, is_batch
        template = self._templates.get(key)
        if template is None:
            settings, group = self._cluster.settings, self._settings.producer_group
            template = self._templates[key] = SendTemplate(settings, group, topic, broker_name, is_batch=is_batch)
        return template

    def _handle_no_route(
        self, broker: BrokerState, topic: str, sends: Sequence[QueuedSend], error: RocketMQError
    ) -> None:
        # A name server that was started a moment ago does not know all topics.
        exists = self._settings.waits_for_topics or topic in self._reached
        if error.retriable or (exists and isinstance(error, TopicNotFound)):
            self._cluster.routes.expire(topic)
            self._schedule.delay(sends, broker, error, self._clock())
        else:
            self._fail_all(broker, sends, error)

    def _handle_unreachable(
        self, broker: BrokerState, topic: str, sends: Sequence[QueuedSend], error: RocketMQError, cost_s: float
    ) -> None:
        self._cluster.routes.expire(topic)
        if error.retriable:
            self._schedule.pause(broker, error, self._clock(), broker.epoch, cost_s)
            self._schedule.put_back(sends, broker, error)
        else:
            self._fail_all(broker, sends, error)

    def _fail_all(self, broker: BrokerState, sends: Sequence[QueuedSend], error: RocketMQError) -> None:
        now = self._clock()
        for send in sends:
            self._settle_failed(broker, send, error, now)

    # --- responses ---------------------------------------------------------------------------------------------------

    def _drain(self, until: float) -> None:
        begun = self._clock()
        until = min(until, self._schedule.next_event(begun), begun + _LONGEST_WAIT_S)
        if not (self._port.in_flight or self._delivered or self._waker):
            time.sleep(max(0.0, until - begun) if self._schedule.count else 0.0)
            self._statistics.waiting_s += self._clock() - begun
            return
        if not self._delivered:
            self._delivered.extend(self._port.drain(until))
        now = self._clock()
        self._statistics.waiting_s += now - begun
        while self._delivered:
            broker, send, result = self._delivered.popleft()
            if isinstance(result, Command):
                self._settle_stored(broker, send, result, now)
            else:
                self._settle_failed(broker, send, result, now)

    def _settle_stored(self, broker: BrokerState, send: QueuedSend, response: Command, now: float) -> None:
        assert send.queue is not None
        try:
            receipt = read_receipt(response, send.queue, send.request)
        except RocketMQError as error:
            self._settle_failed(broker, send, error, now)
            return
        if not self._schedule.succeed(send, broker):
            return
        request, statistics = send.request, self._statistics
        if receipt.status not in self._settings.accepted_statuses:
            self._end_failed(send, self._locate(status_error(response), send), receipt=receipt)
            return
        rows = len(request.rows)
        statistics.requests += 1
        statistics.rows += rows
        statistics.bytes += len(request.body)
        statistics.rows_by_broker[broker.name] = statistics.rows_by_broker.get(broker.name, 0) + rows
        receipt = receipt._replace(may_be_doubled=True) if send.is_unknown else receipt
        self._outcomes.append(Outcome(request, receipt, None, False))

    def _settle_failed(self, broker: BrokerState, send: QueuedSend, error: RocketMQError, now: float) -> None:
        judgement = judge(error)
        if error.refresh_routes:
            self._cluster.routes.expire(send.request.topic)
        send.is_unknown |= judgement.is_unknown
        if judgement.next_step is NextStep.PAUSE:
            has_ended = self._schedule.throttle(send, broker, error, now)
        else:
            if judgement.is_of_broker:
                self._schedule.pause(broker, error, now, send.epoch)
            has_ended = self._schedule.fail(send, broker, error, now, judgement.next_step)
        if has_ended:
            self._end_failed(send, self._explain(send), is_unknown=send.is_unknown)

    def _expire(self, now: float) -> None:
        for send in self._schedule.expire(now):
            is_unknown = send.is_unknown or send.is_in_flight
            self._end_failed(send, self._overdue_error(send, is_unknown), is_unknown=is_unknown)

    def _overdue_error(self, send: QueuedSend, is_unknown: bool) -> RocketMQError:
        """Return the error of a send whose deadline has passed; the reason for it may be that of another send."""
        error, settings = self._explain(send), self._settings
        error.what += f", not {'acknowledged' if is_unknown else 'stored'} within {settings.deadline_s:g} s"
        if isinstance(error, RequestTimeout):
            slow = f"if the broker is slow, raise {settings.attempt_option}; if it stands still, look for the cause"
            advice = slow if settings.attempt_timeout_s < settings.deadline_s else "check the broker's load"
            error.advice = "it may be stored; " * is_unknown + f"{advice}, or raise {settings.deadline_option}"
        return error

    def _end_failed(
        self, send: QueuedSend, error: RocketMQError, *, receipt: Receipt | None = None, is_unknown: bool = False
    ) -> None:
        """Note the outcome of a send that has failed, and end those in its lane, unless it is passed over."""
        self._fail(send.request, error, receipt=receipt, is_unknown=is_unknown)
        if self._settings.keeps_order and not self._is_passed_over(send.request, error):
            for behind in self._schedule.close_lane(send):
                self._fail(behind.request, self._locate(earlier_send_failed_error(), behind), is_unknown=False)

    def _fail(
        self, request: SendRequest, error: RocketMQError, *, receipt: Receipt | None = None, is_unknown: bool
    ) -> None:
        self._statistics.failed_rows += len(request.rows)
        self._outcomes.append(Outcome(request, receipt, error, is_unknown))

    def _explain(self, send: QueuedSend) -> RocketMQError:
        """Return the error of a send that has failed, with its place and the number of its attempts."""
        reason = self._schedule.reason(send)
        if reason is None:
            what = "no answer to a send" if send.attempts else "other sends were waiting for the same brokers"
            advice = f"check the brokers' load, or raise {self._settings.deadline_option}"
            return self._locate(RequestTimeout(what, advice=advice), send)
        error = self._locate(copy.copy(reason), send)
        if send.attempts > 1:
            error.what += f" ({send.attempts} attempts)"
        return error

    def _locate(self, error: RocketMQError, send: QueuedSend) -> RocketMQError:
        request = RequestCode.SEND_BATCH_MESSAGE if send.request.is_batch else RequestCode.SEND_MESSAGE_V2
        error.locate(request=request.name, topic=send.request.topic)
        if send.queue is not None:
            error.locate(broker=send.queue.broker_name, queue_id=send.queue.queue_id)
        return error


def _kind_of(send: QueuedSend) -> tuple[str, bool]:
    return send.request.topic, send.request.is_batch


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
