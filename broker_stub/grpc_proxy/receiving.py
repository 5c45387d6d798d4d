"""Serve gRPC methods that receive and acknowledge messages, change their invisible time, or make them dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_rocketmq.grpc_v2.enums import Code
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.grpc_v2.times import from_duration, to_timestamp
from pyspark_rocketmq.grpc_v2.translation import write_message
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig

from ..long_polling import HeldPull
from ..state import Broker
from .calls import OK, GrpcCall, PendingResponse, StatusError, stored_message
from .clients import ProxyChannel
from .pop import RENEWAL_MS, PoppedMessage, PopQueue, PopRequest, send_to_dead_letters
from .proxy import Proxy, serves
from .sending import common_status
from .validation import check_group, check_topic, filter_of, read_subscription

_Received, _AckResponse, _AckEntry, _ChangeResponse, _ForwardResponse = map(
    message_class,
    (
        "ReceiveMessageResponse",
        "AckMessageResponse",
        "AckMessageResultEntry",
        "ChangeInvisibleDurationResponse",
        "ForwardMessageToDeadLetterQueueResponse",
    ),
)

MAX_BATCH = 32
MAX_POLL_MS = 20_000
MIN_INVISIBLE_MS, MAX_INVISIBLE_MS = 10_000, 12 * 3600 * 1000


@serves("ReceiveMessage")
def receive_message(proxy: Proxy, call: GrpcCall) -> Any:
    """Return popped messages, at once or after waiting for one; the last item of the stream is the delivery time."""
    try:
        return _ReceiveCall(proxy, call).start()
    except StatusError as error:
        return [_Received(status=error.status), _delivery_time(proxy)]


class _ReceiveCall:
    """One call of ReceiveMessage, which may wait for a message."""

    def __init__(self, proxy: Proxy, call: GrpcCall) -> None:
        self._proxy, self._channel = proxy, ProxyChannel(call.remote)
        request = call.request
        self._group, self._topic = check_group(request.group), check_topic(request.message_queue.topic)
        _check_settings(proxy, call)
        self._broker = _find_broker(proxy, self._topic, request.message_queue.broker.name)
        self._config = _find_config(self._broker, self._group)
        self._pop_request = _read_pop_request(proxy, call, self._topic)
        poll_ms = min(from_duration(request.long_polling_timeout), MAX_POLL_MS)
        self._due_ms = proxy.clock.elapsed_ms() + poll_ms
        self._pending = PendingResponse(self._time_out)
        self._is_waiting = False

    def start(self) -> Any:
        """Return the response if there is a message; else start waiting and return a pending response."""
        popped_messages = self._pop()
        if popped_messages or self._is_timed_out():
            return self._response(popped_messages)
        self._wait()
        return self._pending

    def _pop(self) -> list[PoppedMessage]:
        popped_messages: list[PoppedMessage] = []
        for queue in self._queues():
            rest = self._pop_request.for_remaining(len(popped_messages))
            if rest.count:
                popped_messages += queue.pop_messages(
                    rest,
                    is_orderly=bool(self._config.consume_message_orderly),
                    max_attempts=self._config.retry_max_times + 1,
                )
        return popped_messages

    def _queues(self) -> list[PopQueue]:
        """Return the topic's readable queues at the broker; the list begins with another one each time."""
        config = self._broker.topics.find(self._topic)
        number = config.read_queue_nums if config else 0
        first = next(self._proxy.pop_state.turns)
        return [
            self._proxy.pop_state.queue(self._broker, self._group, self._topic, (first + index) % number)
            for index in range(number)
        ]

    def _is_timed_out(self) -> bool:
        return self._proxy.clock.elapsed_ms() >= self._due_ms

    def _wait(self) -> None:
        self._is_waiting = True
        self._proxy.pop_state.add_listener(self._group, self._topic, self._check)
        for queue in self._queues():
            pull = HeldPull(
                self._channel, queue.next_offset, self._pop_request.message_filter, self._due_ms, self._check
            )
            self._broker.held_pulls.hold((self._topic, queue.queue_id), pull)

    def _check(self) -> None:
        if not self._is_waiting:  # two messages may become visible at once
            return
        self._stop_waiting()
        popped_messages = self._pop()
        if popped_messages or self._is_timed_out():
            self._pending.complete(self._response(popped_messages))
        else:
            self._wait()

    def _stop_waiting(self) -> None:
        self._is_waiting = False
        self._broker.held_pulls.drop(self._channel)
        self._proxy.pop_state.remove_listener(self._group, self._topic, self._check)

    def _time_out(self) -> Any:
        self._stop_waiting()
        return self._response([])

    def _response(self, popped_messages: list[PoppedMessage]) -> list[Any]:
        if not popped_messages:
            error = StatusError(Code.MESSAGE_NOT_FOUND, "no new message")
            return [_Received(status=error.status), _delivery_time(self._proxy)]
        messages = [_Received(message=_popped_message(popped)) for popped in popped_messages]
        return [_Received(status=OK), *messages, _delivery_time(self._proxy)]


def _delivery_time(proxy: Proxy) -> Any:
    return _Received(delivery_timestamp=to_timestamp(proxy.clock.now_ms()))


def _popped_message(popped: PoppedMessage) -> Any:
    message = write_message(stored_message(popped.record))
    message.system_properties.receipt_handle = popped.handle
    message.system_properties.delivery_attempt = popped.record.reconsume_times + popped.attempt
    return message


def _check_settings(proxy: Proxy, call: GrpcCall) -> None:
    client = proxy.clients.find(call.client_id)
    if proxy.options.like_apache and (client is None or client.settings is None):
        raise StatusError(Code.INTERNAL_SERVER_ERROR, "the client has sent no settings")


def _find_broker(proxy: Proxy, topic: str, name: str) -> Broker:
    """Return the master of this name; for an empty name, the next in turn of the masters that have the topic.

    Raise StatusError if no reachable master with this name has the topic.
    """
    brokers = [broker for broker, _ in proxy.masters_of(topic) if name in ("", broker.name)]
    if not brokers:
        raise StatusError(Code.BAD_REQUEST, f"no broker {name} has topic {topic}")
    return brokers[next(proxy.pop_state.turns) % len(brokers)]


def _find_config(broker: Broker, group: str) -> SubscriptionGroupConfig:
    config = broker.group_configs.find(group)
    if config is None:
        raise StatusError(Code.CONSUMER_GROUP_NOT_FOUND, f"no group {group}")
    return config


def _read_pop_request(proxy: Proxy, call: GrpcCall, topic: str) -> PopRequest:
    request = call.request
    if request.batch_size <= 0:
        raise StatusError(Code.BAD_REQUEST, f"batch size {request.batch_size} is not positive")
    invisible_ms = RENEWAL_MS if request.auto_renew else from_duration(request.invisible_duration)
    if not MIN_INVISIBLE_MS <= invisible_ms <= MAX_INVISIBLE_MS:
        what = f"invisible duration {invisible_ms} ms is not within {MIN_INVISIBLE_MS} to {MAX_INVISIBLE_MS}"
        raise StatusError(Code.ILLEGAL_INVISIBLE_TIME, what)
    return PopRequest(
        count=min(request.batch_size, MAX_BATCH),
        message_filter=filter_of(read_subscription(topic, request.filter_expression)),
        invisible_ms=invisible_ms,
        attempt_id=request.attempt_id,
        keeps_renewing=_is_client_alive(proxy, call.client_id) if request.auto_renew else None,
    )


def _is_client_alive(proxy: Proxy, client_id: str) -> Callable[[], bool]:
    return lambda: proxy.clients.is_alive(client_id)


# --- acknowledgements ------------------------------------------------------------------------------------------------


@serves("AckMessage")
def ack_message(proxy: Proxy, call: GrpcCall) -> Any:
    """Acknowledge messages by their receipt handles; the response has a status for each handle."""
    group, topic = check_group(call.request.group), check_topic(call.request.topic)
    if not call.request.entries:
        raise StatusError(Code.BAD_REQUEST, "the request acknowledges no message")
    entries = [_ack(proxy, group, topic, entry) for entry in call.request.entries]
    return _AckResponse(status=common_status(entry.status for entry in entries), entries=entries)


def _ack(proxy: Proxy, group: str, topic: str, entry: Any) -> Any:
    try:
        popped = _find_popped(proxy, entry.receipt_handle, group, topic)
        popped.queue.acknowledge(popped)
        status = OK
    except StatusError as error:
        status = error.status
    return _AckEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status)


@serves("ChangeInvisibleDuration")
def change_invisible_duration(proxy: Proxy, call: GrpcCall) -> Any:
    """Set how long a message stays invisible, counted from now, and return its new receipt handle.

    A refusal returns the handle of the request, because clients replace their handle by the one in any response.
    """
    request = call.request
    try:
        popped = _find_popped(proxy, request.receipt_handle, check_group(request.group), check_topic(request.topic))
        popped.queue.extend(popped, _read_invisible_ms(request))
    except StatusError as error:
        return _ChangeResponse(status=error.status, receipt_handle=request.receipt_handle)
    return _ChangeResponse(status=OK, receipt_handle=popped.handle)


def _read_invisible_ms(request: Any) -> int:
    invisible_ms = from_duration(request.invisible_duration)
    if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
        raise StatusError(Code.ILLEGAL_INVISIBLE_TIME, f"invisible duration {invisible_ms} ms is out of range")
    return invisible_ms


@serves("ForwardMessageToDeadLetterQueue")
def forward_to_dead_letters(proxy: Proxy, call: GrpcCall) -> Any:
    """Store a received message as a dead letter of its group, and acknowledge it."""
    request = call.request
    popped = _find_popped(proxy, request.receipt_handle, check_group(request.group), check_topic(request.topic))
    send_to_dead_letters(popped.queue.broker, popped.queue.group, popped.record)
    popped.queue.acknowledge(popped)
    return _ForwardResponse(status=OK)


def _find_popped(proxy: Proxy, handle: str, group: str, topic: str) -> PoppedMessage:
    popped = proxy.pop_state.find(handle, group, topic)
    if popped is None:
        raise StatusError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is unknown or no longer valid")
    return popped
