"""Serve the Telemetry stream, heartbeats and terminations of gRPC clients.

A client writes its settings, and the proxy completes and returns them. The proxy also registers the client at the
brokers as a member of its group, or as a producer of its topics. If a broker checks a half message, the proxy sends the
check to the producer's stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_rocketmq.grpc_v2.enums import ClientType, Code
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.grpc_v2.times import to_duration
from pyspark_rocketmq.grpc_v2.translation import write_message
from pyspark_rocketmq.wire.bodies import ConsumerData, HeartbeatData, ProducerData, encode_body
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import (
    CheckTransactionStateRequestHeader,
    Header,
    HeartbeatRequestHeader,
    UnregisterClientRequestHeader,
)
from pyspark_rocketmq.wire.record import decode_record

from ..state import Broker
from .calls import OK, GrpcCall, StatusError, stored_message
from .clients import Client, ProxyChannel, WriteCommand
from .proxy import HalfMessage, Proxy, serves
from .validation import check_group, check_topic, read_subscription

_HeartbeatResponse, _TerminationResponse, _Command = map(
    message_class, ("HeartbeatResponse", "NotifyClientTerminationResponse", "TelemetryCommand")
)
_RetryPolicy, _ExponentialBackoff, _CustomizedBackoff, _Orphan = map(
    message_class, ("RetryPolicy", "ExponentialBackoff", "CustomizedBackoff", "RecoverOrphanedTransactionCommand")
)

RECEIVE_BATCH_SIZE = 32
LONG_POLLING_MS = 20_000
_PRODUCER_ATTEMPTS, _FIRST_BACKOFF_MS, _LAST_BACKOFF_MS, _BACKOFF_MULTIPLIER = 3, 10, 1_000, 2.0
_CONSUME_TYPES = {
    ClientType.PUSH_CONSUMER: "CONSUME_PASSIVELY",
    ClientType.SIMPLE_CONSUMER: "CONSUME_ACTIVELY",
    ClientType.PULL_CONSUMER: "CONSUME_ACTIVELY",
}


class InvalidSettings(Exception):
    """Raised for settings that the server refuses by ending the stream."""


# --- settings --------------------------------------------------------------------------------------------------------


def handle_command(proxy: Proxy, call: GrpcCall, command: Any, write_command: WriteCommand) -> None:
    """Register a gRPC client by the settings that it sends, and write these back, completed with the server's values.

    Ignore a command that contains no settings.
    """
    if command.WhichOneof("command") != "settings":
        return
    settings = command.settings
    if settings.WhichOneof("pub_sub") is None:
        raise InvalidSettings("settings neither of a producer nor of a consumer")
    if proxy.options.like_apache and settings.client_type == ClientType.PULL_CONSUMER:
        raise RuntimeError("client type is not a consumer")
    try:
        completed = _complete(proxy, settings)
    except StatusError as error:
        raise InvalidSettings(str(error)) from error
    client = _find_or_add(proxy, call)
    client.settings, client.write_command = settings, write_command
    _register(proxy, call, client)
    write_command(_Command(status=OK, settings=completed))


def _complete(proxy: Proxy, settings: Any) -> Any:
    """Return a copy of the client's settings with the values that the server sets: limits, retry policy, order."""
    completed = type(settings)()
    completed.CopyFrom(settings)
    completed.metric.on = False
    if settings.WhichOneof("pub_sub") == "publishing":
        _complete_publishing(proxy, completed)
    else:
        _complete_subscription(proxy, completed)
    return completed


def _complete_publishing(proxy: Proxy, settings: Any) -> None:
    for topic in settings.publishing.topics:
        check_topic(topic)
    settings.publishing.max_body_size = proxy.cluster.settings.max_message_bytes
    settings.publishing.validate_message_type = True
    backoff = _ExponentialBackoff(
        initial=to_duration(_FIRST_BACKOFF_MS), max=to_duration(_LAST_BACKOFF_MS), multiplier=_BACKOFF_MULTIPLIER
    )
    settings.backoff_policy.CopyFrom(_RetryPolicy(max_attempts=_PRODUCER_ATTEMPTS, exponential_backoff=backoff))


def _complete_subscription(proxy: Proxy, settings: Any) -> None:
    subscription = settings.subscription
    group = check_group(subscription.group)
    for entry in subscription.subscriptions:
        read_subscription(check_topic(entry.topic), entry.expression)
    broker = proxy.any_master()
    config = broker.group_configs.find(group)
    if config is None:
        raise StatusError(Code.CONSUMER_GROUP_NOT_FOUND, f"no group {group}")
    subscription.fifo = bool(config.consume_message_orderly)
    subscription.receive_batch_size = RECEIVE_BATCH_SIZE
    subscription.long_polling_timeout.CopyFrom(to_duration(LONG_POLLING_MS))
    steps = _CustomizedBackoff(next=[to_duration(ms) for ms in broker.delayed_messages.levels_ms])
    policy = _RetryPolicy(max_attempts=config.retry_max_times + 1, customized_backoff=steps)
    settings.backoff_policy.CopyFrom(policy)


# --- heartbeats and terminations -------------------------------------------------------------------------------------


@serves("Heartbeat")
def heartbeat(proxy: Proxy, call: GrpcCall) -> Any:
    """Register a client again at all masters, if it has sent its settings; this keeps its membership alive."""
    client = _require_client(proxy, call)
    if client.settings is not None:
        _register(proxy, call, client)
    return _HeartbeatResponse(status=OK)


@serves("NotifyClientTermination")
def notify_client_termination(proxy: Proxy, call: GrpcCall) -> Any:
    """Unregister the client at all brokers, and forget it."""
    client = _require_client(proxy, call)
    for broker in proxy.masters():
        for header in _unregister_headers(client):
            proxy.forward(broker, header, call, client.channel)
    proxy.clients.forget(call.client_id)
    return _TerminationResponse(status=OK)


def _require_client(proxy: Proxy, call: GrpcCall) -> Client:
    client = proxy.clients.find(call.client_id)
    if proxy.options.like_apache and (client is None or client.settings is None):
        raise StatusError(Code.UNRECOGNIZED_CLIENT_TYPE, "the client has sent no settings")
    return _find_or_add(proxy, call)


def _find_or_add(proxy: Proxy, call: GrpcCall) -> Client:
    return proxy.clients.find_or_add(
        call.client_id, lambda: ProxyChannel(call.remote, on_oneway=_forwarder(proxy, call.client_id))
    )


def _register(proxy: Proxy, call: GrpcCall, client: Client) -> None:
    """Send all masters a heartbeat that registers the client by its settings."""
    settings = client.settings
    beat = HeartbeatData(
        client_id=client.client_id,
        producer_data_set=tuple(ProducerData(group_name=topic.name) for topic in settings.publishing.topics),
        consumer_data_set=(_consumer_data(proxy, settings),) if settings.HasField("subscription") else (),
    )
    for broker in proxy.masters():
        proxy.forward(broker, HeartbeatRequestHeader(), call, client.channel, encode_body(beat))


def _consumer_data(proxy: Proxy, settings: Any) -> ConsumerData:
    now = proxy.clock.now_ms()
    return ConsumerData(
        group_name=settings.subscription.group.name,
        consume_type=_CONSUME_TYPES.get(settings.client_type, "CONSUME_PASSIVELY"),
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=tuple(
            read_subscription(entry.topic.name, entry.expression, now) for entry in settings.subscription.subscriptions
        ),
    )


def _unregister_headers(client: Client) -> list[UnregisterClientRequestHeader]:
    if client.settings is None:
        return []
    if client.settings.HasField("subscription"):
        group = client.settings.subscription.group.name
        return [UnregisterClientRequestHeader(client_id=client.client_id, consumer_group=group)]
    return [
        UnregisterClientRequestHeader(client_id=client.client_id, producer_group=topic.name)
        for topic in client.settings.publishing.topics
    ]


# --- checks of half messages -----------------------------------------------------------------------------------------


def _forwarder(proxy: Proxy, client_id: str) -> Callable[[RequestCode, Header | None, bytes], None]:
    """Return a function that passes a broker's half-message checks to a client and ignores all other requests."""

    def forward(code: RequestCode, header: Header | None, body: bytes) -> None:
        client = proxy.clients.find(client_id)
        if isinstance(header, CheckTransactionStateRequestHeader) and client and client.write_command:
            client.write_command(_check_command(proxy, header, body))

    return forward


def _check_command(proxy: Proxy, header: CheckTransactionStateRequestHeader, body: bytes) -> Any:
    """Return the command that asks a producer about a half message, and note what the producer's response must end.

    That is not the original message but its last checked copy, whose broker, log address and queue offset are stored
    under the transaction id.
    """
    record, _ = decode_record(body)
    transaction_id = header.transaction_id or ""
    proxy.half_messages[transaction_id] = HalfMessage(
        _checking_broker(proxy, header, transaction_id), header.commit_log_offset, header.tran_state_table_offset
    )
    check = _Orphan(message=write_message(stored_message(record)), transaction_id=transaction_id)
    return _Command(recover_orphaned_transaction_command=check)


def _checking_broker(proxy: Proxy, header: CheckTransactionStateRequestHeader, transaction_id: str) -> Broker:
    """Return the broker that asks about a half message.

    A 4.9.7 broker does not name itself in its request; then it is the broker to which the half message was sent.
    """
    return proxy.cluster.broker(header.bname) if header.bname else proxy.half_messages[transaction_id].broker
