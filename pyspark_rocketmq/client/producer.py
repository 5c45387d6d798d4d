"""Send messages, each to one of its topic's queues.

    with Producer("localhost:9876", ProducerSettings(group="shop")) as producer:
        receipt = producer.send(Message("orders", b"..."))

Queues are used in turn. A failed send is tried again at other brokers, as often and as long as the settings allow. If
the response to an attempt was lost, the message may then be stored twice, as with every RocketMQ producer; the receipt
says so (`may_be_doubled`). Messages of one key go to one queue and are not tried at another, because that would break
their order. If a topic does not exist, the broker that gets its first message creates it, provided that brokers allow
it (`autoCreateTopicEnable`).

A *transaction* stores a half message, which no consumer sees, and calls a function of the user. The function's result
commits the message or rolls it back. If the broker is not told the result, it asks the producer, which calls `check`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from enum import IntEnum
from typing import NamedTuple

from ..broker_errors import (
    BrokerSystemError,
    GoAway,
    NoBuyerId,
    NoPermission,
    NotInCurrentUnit,
    ServiceNotAvailable,
    SystemBusy,
    TopicNotExist,
)
from ..cluster.cluster import open_shared_cluster
from ..cluster.messages import Receipt, Sending
from ..cluster.settings import ClusterSettings
from ..errors import (
    AddressNotAllowed,
    ConnectionLost,
    NoBrokerAvailable,
    OptionError,
    RemoteProtocolError,
    RequestTimeout,
    RocketMQError,
    TransportError,
)
from ..model import Address, Message, MessageQueue, SendRequest
from ..net.deadline import Deadline
from ..wire.codes import RequestCode, ResponseCode, TransactionState
from ..wire.commands import CheckTransactionStateRequestHeader, EndTransactionRequestHeader, from_fields
from ..wire.header import Command
from ..wire.message_id import decode_offset_message_id
from ..wire.properties import java_hash
from ..wire.record import decode_record
from .async_sends import AsyncSends, send_error
from .checks import check_callable, check_instance, check_queue, to_cluster_settings
from .clock import Clock, SystemClock
from .loop import Loop
from .membership import Presence, make_client_id, producer_heartbeat
from .message import Pulled, ReceivedMessage, view_record
from .outgoing import Packing, Payload
from .registry import Names, register, unregister
from .running import Running
from .settings import ProducerSettings

__all__ = ["Producer", "QueueSelector", "TransactionChecker", "TransactionReceipt", "TransactionResolution"]

CLOSING_S = 5.0
_ELSEWHERE = (
    TransportError,
    AddressNotAllowed,
    TopicNotExist,
    ServiceNotAvailable,
    BrokerSystemError,
    SystemBusy,
    NoPermission,
    NoBuyerId,
    NotInCurrentUnit,
    GoAway,
)
"""Errors after which the producer tries another broker."""
_MAY_BE_STORED = (ConnectionLost, RequestTimeout, RemoteProtocolError)
"""Errors that leave open whether the message is stored: no response came, or one that cannot be understood."""

_log = logging.getLogger(__name__)


class TransactionResolution(IntEnum):
    """The ways in which a transaction can end, with the numbers that sysFlag has for them."""

    UNKNOWN = TransactionState.NONE
    COMMIT = TransactionState.COMMIT
    ROLLBACK = TransactionState.ROLLBACK


QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Takes the topic's writable queues and a message, and returns the queue that gets the message."""
TransactionChecker = Callable[[ReceivedMessage], TransactionResolution]
"""Takes a half message, and returns how its transaction ends; called when a broker asks for that."""


class TransactionReceipt(NamedTuple):
    """The receipt of a half message, and how its transaction ended."""

    receipt: Receipt
    resolution: TransactionResolution


class Producer(Running):
    """Sends messages, from any thread. It starts with its `with` block and closes with it."""

    def __init__(
        self,
        cluster: ClusterSettings | str,
        settings: ProducerSettings,
        *,
        check: TransactionChecker | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        check_instance("settings", settings, ProducerSettings, "ProducerSettings(group=...)")
        if check is not None:
            check_callable("check", check, "of a message, which returns a TransactionResolution")
        self._settings = settings
        self._check = check
        self._clock = clock or SystemClock()
        self.client_id = make_client_id(settings.instance_name, settings.unit_name)
        self._cluster = open_shared_cluster(to_cluster_settings(cluster), self._serve)
        self._presence = Presence(self._cluster, self.client_id)
        where = self._cluster.settings
        self._names = Names(where.name_servers, where.namespace, settings.group, self.client_id, kind="producer")
        self._packing = Packing(settings, self._clock)
        self._turns = itertools.count()
        self._async = AsyncSends(self._cluster, settings)
        self._timer = Loop(f"producer {settings.group}", self._clock)
        self._checks = Loop(f"checks {settings.group}", self._clock)

    def __repr__(self) -> str:
        return f"<Producer {self.client_id} of {self._settings.group}>"

    def _start(self) -> None:
        """Begin to send heartbeats. Raise if another producer of this process has the same group and client id."""
        register(self, self._names)
        self._timer.start()
        self._checks.start()
        self._timer.repeat(self._settings.heartbeat_s, self._settings.heartbeat_s, self._beat)

    def _close(self) -> None:
        """Wait for asynchronous sends, unregister, close the connections, and free the client id for others."""
        try:
            self._async.close()
            self._timer.stop(CLOSING_S)
            self._checks.stop(CLOSING_S)
            self._presence.leave(producer_group=self._settings.group)
        finally:
            unregister(self, self._names)
            self._cluster.close()

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(
        self, message: Message, queue: MessageQueue | None = None, *, select: QueueSelector | None = None
    ) -> Receipt:
        """Store a message and return its receipt. Raise `SendError` if no attempt succeeds.

        A given queue, or the one that `select` returns, is tried once. Otherwise the topic's queues are used in turn,
        with retries at other brokers.
        """
        payload = self._packing.pack(message)
        return self._send(message.topic, payload, self._choose(message, queue, select))

    def send_async(
        self, message: Message, queue: MessageQueue | None = None, *, select: QueueSelector | None = None
    ) -> Future[Receipt]:
        """Send a message without waiting; return a future that gets its receipt, or raises `SendError`.

        A failed attempt is repeated at the given queue, or the one that `select` returns, and otherwise at other
        brokers. So two messages sent to one queue at the same time may be stored in another order. While too many sends
        have no result, wait for room; raise `SendError` if there is none within the timeout of a send. Callbacks of
        futures run in the thread that sends, and must be brief.
        """
        payload = self._packing.pack(message)
        chosen = self._choose(message, queue, select)
        request = SendRequest(message.topic, chosen, payload.body, payload.properties, ())
        return self._async.submit(request._replace(flag=payload.flag, sys_flag=payload.sys_flag))

    def send_ordered(self, message: Message, key: str) -> Receipt:
        """Store a message in the queue that the key's hash selects, as in Java's client; return the receipt."""
        check_instance("key", key, str, "the key as text")
        return self.send(message, select=lambda queues, _: queues[abs(java_hash(key)) % len(queues)])

    def send_batch(self, messages: Sequence[Message], queue: MessageQueue | None = None) -> Receipt:
        """Store messages of one topic together in one queue, and return the receipt of the batch."""
        payload = self._packing.pack_batch(messages)
        return self._send(messages[0].topic, payload, check_queue(queue), count=len(messages))

    def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send a message without waiting for a response, so that a refusal stays unknown."""
        payload = self._packing.pack(message)
        chosen = check_queue(queue) or next(self._candidates(message.topic))
        self._cluster.messages.send_oneway(self._sending(chosen, payload), self._deadline())

    def send_in_transaction(
        self, message: Message, execute: Callable[[Message], TransactionResolution]
    ) -> TransactionReceipt:
        """Store a half message, call `execute`, and end the transaction as `execute` returns.

        If `execute` returns UNKNOWN or raises, the broker asks later, and `check` decides. If the half message may not
        be on disk or on a replica, `execute` is not called and the transaction is rolled back.
        """
        check_callable("execute", execute, "of the message, which returns a TransactionResolution")
        half = {"TRAN_MSG": "true", "PGROUP": self._cluster.settings.namespace.wrap(self._settings.group)}
        payload = self._packing.pack(message, half)
        payload = payload._replace(sys_flag=payload.sys_flag | TransactionState.PREPARED)
        self._beat_at(message.topic)
        receipt = self._send(message.topic, payload, None)
        is_safe = receipt.status is ResponseCode.SUCCESS
        resolution = self._execute(message, execute) if is_safe else TransactionResolution.ROLLBACK
        self._end(receipt, payload.unique_id, resolution)
        return TransactionReceipt(receipt, resolution)

    def _choose(
        self, message: Message, queue: MessageQueue | None, select: QueueSelector | None
    ) -> MessageQueue | None:
        """Return the given queue, or the one that `select` returns; raise `OptionError` if it is no queue."""
        if select is None:
            return check_queue(queue)
        if queue is not None:
            raise OptionError("select", None, "given with a queue", advice="give one of them")
        check_callable("select", select, "of queues and a message, which returns one of the queues")
        chosen = select(self._queues(message.topic), message)
        check_instance("select", chosen, MessageQueue, "a function that returns one of the queues it gets")
        return chosen

    # --- one send ----------------------------------------------------------------------------------------------------

    def _send(self, topic: str, payload: Payload, queue: MessageQueue | None, count: int = 1) -> Receipt:
        """Send to one queue after another until a broker stores the message; a given queue is tried once."""
        deadline = self._deadline()
        candidates = iter([queue]) if queue else self._candidates(topic)
        attempts = 1 if queue else 1 + self._settings.retries
        is_unknown = False
        for attempt, chosen in enumerate(itertools.islice(candidates, attempts), 1):
            try:
                receipt = self._cluster.messages.send(self._sending(chosen, payload), deadline)
                return receipt._replace(may_be_doubled=is_unknown)
            except RocketMQError as error:
                is_unknown |= isinstance(error, _MAY_BE_STORED)
                if attempt == attempts or deadline.expired or not isinstance(error, _ELSEWHERE):
                    raise send_error(error, count, is_unknown) from error
                _log.warning("a send failed and is tried at another queue: %s", error)
        raise AssertionError("there is always a candidate")

    def _candidates(self, topic: str) -> Iterator[MessageQueue]:
        """Yield the topic's queues in turn without end; two in a row are of different brokers if possible."""
        queues = self._queues(topic)
        at = next(self._turns)
        last = None
        for step in itertools.count():
            others = [queue for queue in queues if queue.broker_name != last] or queues
            chosen = others[(at + step) % len(others)]
            last = chosen.broker_name
            yield chosen

    def _queues(self, topic: str) -> Sequence[MessageQueue]:
        return self._cluster.writable.queues(topic)

    def _sending(self, queue: MessageQueue, payload: Payload) -> Sending:
        return Sending(
            producer_group=self._settings.group,
            queue=queue,
            body=payload.body,
            properties=payload.properties,
            born_timestamp_ms=self._clock.wall_ms(),
            sys_flag=payload.sys_flag,
            flag=payload.flag,
            is_batch=payload.is_batch,
            route_topic=self._cluster.writable.route_topic(queue.topic),
        )

    def _deadline(self) -> Deadline:
        return Deadline.after(self._settings.send_timeout_s)

    # --- transactions ------------------------------------------------------------------------------------------------

    def _execute(self, message: Message, execute: Callable[[Message], TransactionResolution]) -> TransactionResolution:
        """Return how `execute` ends the transaction; UNKNOWN if it raises, so that the broker asks later."""
        try:
            return _check_resolution("execute", execute(message))
        except Exception:
            _log.exception("execute of a transaction failed; the broker will ask for the resolution")
            return TransactionResolution.UNKNOWN

    def _end(self, receipt: Receipt, unique_id: str, resolution: TransactionResolution) -> None:
        header = EndTransactionRequestHeader(
            topic=receipt.queue.topic,
            producer_group=self._settings.group,
            tran_state_table_offset=receipt.queue_offset,
            commit_log_offset=decode_offset_message_id(receipt.message_id).physical_offset,
            commit_or_rollback=resolution,
            from_transaction_check=False,
            msg_id=unique_id,
            transaction_id=receipt.transaction_id,
        )
        self._tell_end(receipt.queue.broker_name, header)

    def _tell_end(self, broker_name: str, header: EndTransactionRequestHeader) -> None:
        """Tell the broker how a transaction ended; if that fails, log it, and the broker asks later."""
        try:
            self._cluster.messages.end_transaction(broker_name, header, self._deadline())
        except RocketMQError as error:
            _log.warning("the end of a transaction was not sent; the broker will ask for it: %s", error)

    def _serve(self, address: Address, request: Command) -> Command | None:
        """Return the response to a request of a broker; None declines it.

        Only the question how a transaction ended is accepted; another thread calls `check` and sends the answer.
        """
        if request.code != RequestCode.CHECK_TRANSACTION_STATE:
            return None
        header = from_fields(CheckTransactionStateRequestHeader, request.fields)
        body = bytes(request.body)
        self._checks.call_soon(lambda: self._answer_check(address, header, body))
        return Command(ResponseCode.SUCCESS)

    def _answer_check(self, address: Address, header: CheckTransactionStateRequestHeader, body: bytes) -> None:
        unwrap = self._cluster.settings.namespace.unwrap
        record = decode_record(body)[0]
        queue = MessageQueue(unwrap(record.topic), self._broker_name(address), record.queue_id)
        message = view_record(Pulled(queue, memoryview(b""), 0, 0, unwrap), record)
        resolution = self._execute_check(message)
        self._tell_end(
            queue.broker_name,
            EndTransactionRequestHeader(
                topic=queue.topic,
                producer_group=self._settings.group,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=resolution,
                from_transaction_check=True,
                msg_id=message.message_id,
                transaction_id=header.transaction_id,
            ),
        )

    def _execute_check(self, message: ReceivedMessage) -> TransactionResolution:
        if self._check is None:
            _log.warning("a broker asks for the end of the transaction of %s; give the producer a check", message)
            return TransactionResolution.UNKNOWN
        try:
            return _check_resolution("check", self._check(message))
        except BaseException:  # `sys.exit()`, too: the broker waits for a resolution.
            _log.exception("the check of %s failed; its broker will ask again", message)
            return TransactionResolution.UNKNOWN

    def _broker_name(self, address: Address) -> str:
        for name, broker in self._cluster.routes.known_brokers().items():
            if any(endpoint.address == address for endpoint in broker.endpoints):
                return name
        what = "a broker that is in no known route asks for the end of a transaction"
        raise NoBrokerAvailable(what, address=str(address))

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._presence.beat(producer_heartbeat(self.client_id, self._settings.group), masters_only=True)

    def _beat_at(self, topic: str) -> None:
        """Send heartbeats if the topic has brokers that this producer did not know before.

        A broker asks only producers whose heartbeat it has received how their transactions ended.
        """
        known = set(self._cluster.routes.known_brokers())
        self._queues(topic)
        if not known or set(self._cluster.routes.known_brokers()) - known:
            self._beat()


def _check_resolution(name: str, resolution: object) -> TransactionResolution:
    """Return what the user's function `name` returned; if that is no resolution, log it and return UNKNOWN."""
    if isinstance(resolution, TransactionResolution):
        return resolution
    text = "%s returned %r, which leaves the transaction open; return TransactionResolution.COMMIT, ROLLBACK or UNKNOWN"
    _log.warning(text, name, resolution)
    return TransactionResolution.UNKNOWN
