"""How are messages sent, each to a queue that takes it?

    with Producer(cluster_settings, ProducerSettings(group="shop")) as producer:
        receipt = producer.send(Message("orders", b"..."))

Queues take turns. A send that fails is tried at another broker, within its time; one whose answer was lost may so be
stored twice, as with every RocketMQ producer. Sends that belong together by a key go to one queue and are not tried
elsewhere, or their order would be lost.

A *transaction* stores a message out of sight, lets the caller do its part, and then makes the message visible or
throws it away. If nobody says what became of it the broker asks (`check`).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
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
from ..errors import NoBrokerAvailable, RemoteProtocolError, RequestTimeout, RocketMQError, SendError, TransportError
from ..model import Address, Message, MessageQueue
from ..net.deadline import Deadline
from ..wire.codes import RequestCode, ResponseCode
from ..wire.commands import CheckTransactionStateRequestHeader, EndTransactionRequestHeader, from_fields
from ..wire.header import Command
from ..wire.message_id import decode_offset_message_id
from ..wire.properties import java_hash
from ..wire.record import decode_record
from ..wire.sys_flag import TransactionState
from .clock import Clock, SystemClock
from .loop import Loop
from .membership import Presence, make_client_id, producer_heartbeat
from .message import Pulled, ReceivedMessage, view_record
from .outgoing import Packing, Payload
from .running import Running
from .settings import ProducerSettings

__all__ = ["Checker", "Fate", "Producer", "TransactionReceipt"]

CLOSING_S = 5.0
_ELSEWHERE = (
    TransportError,
    TopicNotExist,
    ServiceNotAvailable,
    BrokerSystemError,
    SystemBusy,
    NoPermission,
    NoBuyerId,
    NotInCurrentUnit,
    GoAway,
)
"""Errors after which another broker may take the message."""
_MAY_BE_STORED = (TransportError, RemoteProtocolError)
"""Errors after which nobody knows what the broker did: no answer came, or one that cannot be understood."""

_log = logging.getLogger(__name__)


class Fate(IntEnum):
    """What becomes of a message sent in a transaction; the values are sysFlag's."""

    UNKNOWN = TransactionState.NONE
    COMMIT = TransactionState.COMMIT
    ROLLBACK = TransactionState.ROLLBACK


Checker = Callable[[ReceivedMessage], Fate]
"""Says what became of a transaction, when its broker asks."""


class TransactionReceipt(NamedTuple):
    """Where the message was stored, and what its sender made of it."""

    receipt: Receipt
    fate: Fate


class Producer(Running):
    """Sends messages, from any thread. Starts with its `with` block and ends with it."""

    def __init__(
        self,
        cluster_settings: ClusterSettings,
        settings: ProducerSettings,
        *,
        check: Checker | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._check = check
        self._clock = clock or SystemClock()
        self.client_id = make_client_id(settings.instance_name, settings.unit_name)
        self._cluster = open_shared_cluster(cluster_settings, self._serve)
        self._presence = Presence(self._cluster, self.client_id)
        self._packing = Packing(settings, self._clock)
        self._turns = itertools.count()
        self._timer = Loop(f"producer {settings.group}", self._clock)
        self._checks = Loop(f"checks {settings.group}", self._clock)

    def __repr__(self) -> str:
        return f"<Producer {self.client_id} of {self._settings.group}>"

    def start(self) -> None:
        """Begin to tell brokers that we are there."""
        self._timer.start()
        self._checks.start()
        self._timer.repeat(self._settings.heartbeat_s, self._settings.heartbeat_s, self._beat)

    def close(self) -> None:
        """Say farewell and close the connections."""
        self._timer.stop(CLOSING_S)
        self._checks.stop(CLOSING_S)
        self._presence.leave(producer_group=self._settings.group)
        self._cluster.close()

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, message: Message, queue: MessageQueue | None = None) -> Receipt:
        """Store a message, in this queue or in whichever takes it."""
        return self._send(message.topic, self._packing.pack(message), queue)

    def send_ordered(self, message: Message, key: str) -> Receipt:
        """Store a message in the queue of its key, as Java's selector by hash chooses it."""
        queues = self._queues(message.topic)
        return self.send(message, queues[abs(java_hash(key)) % len(queues)])

    def send_batch(self, messages: Sequence[Message], queue: MessageQueue | None = None) -> Receipt:
        """Store messages of one topic together in one queue."""
        payload = self._packing.pack_batch(messages)
        return self._send(messages[0].topic, payload, queue, count=len(messages))

    def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send without asking whether it was stored."""
        chosen = queue or next(self._candidates(message.topic))
        self._cluster.messages.send_oneway(self._sending(chosen, self._packing.pack(message)), self._deadline())

    def send_in_transaction(self, message: Message, execute: Callable[[Message], Fate]) -> TransactionReceipt:
        """Store a message out of sight, do our part, and tell the broker what became of it."""
        half = {"TRAN_MSG": "true", "PGROUP": self._cluster.settings.namespace.wrap(self._settings.group)}
        payload = self._packing.pack(message, half)
        payload = payload._replace(sys_flag=payload.sys_flag | TransactionState.PREPARED)
        self._beat_at(message.topic)
        receipt = self._send(message.topic, payload, None)
        fate = self._execute(message, execute) if receipt.status is ResponseCode.SUCCESS else Fate.ROLLBACK
        self._end(receipt, payload.unique_id, fate)
        return TransactionReceipt(receipt, fate)

    # --- one send ----------------------------------------------------------------------------------------------------

    def _send(self, topic: str, payload: Payload, queue: MessageQueue | None, count: int = 1) -> Receipt:
        """Try until somebody takes it; one queue alone is asked once."""
        deadline = self._deadline()
        candidates = iter([queue]) if queue else self._candidates(topic)
        attempts = 1 if queue else 1 + self._settings.retries
        is_unknown = False
        for attempt, chosen in enumerate(itertools.islice(candidates, attempts), 1):
            try:
                return self._cluster.messages.send(self._sending(chosen, payload), deadline)
            except RocketMQError as error:
                is_unknown |= isinstance(error, _MAY_BE_STORED)
                if attempt == attempts or deadline.expired or not isinstance(error, _ELSEWHERE):
                    raise _send_error(error, count, is_unknown) from error
                _log.warning("tried elsewhere: %s", error)
        raise AssertionError("there is always a candidate")

    def _candidates(self, topic: str) -> Iterator[MessageQueue]:
        """Queues in turn; after each, one of another broker if there is any."""
        queues = self._queues(topic)
        at = next(self._turns)
        last = None
        for step in itertools.count():
            others = [queue for queue in queues if queue.broker_name != last] or queues
            chosen = others[(at + step) % len(others)]
            last = chosen.broker_name
            yield chosen

    def _queues(self, topic: str) -> Sequence[MessageQueue]:
        queues = self._cluster.routes.route(topic).writable
        if not queues:
            advice = "give the topic write permission, or bring its brokers back"
            raise NoBrokerAvailable("no queue of the topic may be written now", advice=advice, topic=topic)
        return queues

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
        )

    def _deadline(self) -> Deadline:
        return Deadline.after(self._settings.send_timeout_s)

    # --- transactions ------------------------------------------------------------------------------------------------

    def _execute(self, message: Message, execute: Callable[[Message], Fate]) -> Fate:
        """A part that fails leaves the fate open: the broker asks later."""
        try:
            return execute(message)
        except Exception:
            _log.exception("our part of a transaction failed; its broker will ask what became of it")
            return Fate.UNKNOWN

    def _end(self, receipt: Receipt, unique_id: str, fate: Fate) -> None:
        header = EndTransactionRequestHeader(
            topic=receipt.queue.topic,
            producer_group=self._settings.group,
            tran_state_table_offset=receipt.queue_offset,
            commit_log_offset=decode_offset_message_id(receipt.message_id).physical_offset,
            commit_or_rollback=fate,
            from_transaction_check=False,
            msg_id=unique_id,
            transaction_id=receipt.transaction_id,
        )
        self._tell_end(receipt.queue.broker_name, header)

    def _tell_end(self, broker_name: str, header: EndTransactionRequestHeader) -> None:
        """What does not arrive is asked for later."""
        try:
            self._cluster.messages.end_transaction(broker_name, header, self._deadline())
        except RocketMQError as error:
            _log.warning("the end of a transaction was not told: %s", error)

    def _serve(self, address: Address, request: Command) -> Command | None:
        """Brokers ask about transactions; answering may take its time, so it is done elsewhere."""
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
        fate = self._execute_check(message)
        self._tell_end(
            queue.broker_name,
            EndTransactionRequestHeader(
                topic=queue.topic,
                producer_group=self._settings.group,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=fate,
                from_transaction_check=True,
                msg_id=message.message_id,
                transaction_id=header.transaction_id,
            ),
        )

    def _execute_check(self, message: ReceivedMessage) -> Fate:
        if self._check is None:
            _log.warning("a broker asks about %s, and nobody here can tell", message)
            return Fate.UNKNOWN
        try:
            return self._check(message)
        except BaseException:  # `sys.exit()`, too: the broker would not be told.
            _log.exception("the check of %s failed; its broker will ask again", message)
            return Fate.UNKNOWN

    def _broker_name(self, address: Address) -> str:
        for name, broker in self._cluster.routes.known_brokers().items():
            if any(place.address == address for place in broker.endpoints):
                return name
        raise NoBrokerAvailable("a broker that no route names asks about a transaction", address=str(address))

    # --- being there -------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._presence.beat(producer_heartbeat(self.client_id, self._settings.group), masters_only=True)

    def _beat_at(self, topic: str) -> None:
        """Brokers ask only whom they know; a topic's brokers are told before the first transaction."""
        known = set(self._cluster.routes.known_brokers())
        self._queues(topic)
        if not known or set(self._cluster.routes.known_brokers()) - known:
            self._beat()


def _send_error(error: RocketMQError, count: int, is_unknown: bool) -> SendError:
    """Whether a message that was not acknowledged was stored all the same depends on how it failed."""
    numbers = range(count)
    what = f"not sent: {error.what}" if not isinstance(error, RequestTimeout) else f"no answer: {error.what}"
    told = {"unknown": numbers} if is_unknown else {"failed": numbers}
    return SendError(what, advice=error.advice or "send again", **told, **error.where)
