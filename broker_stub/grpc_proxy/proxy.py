"""Hold the proxy's own state, and pass gRPC calls on to brokers.

As in a proxy of RocketMQ 5, most calls become requests to brokers. The brokers' handlers serve these as they serve any
client's, and their response codes become gRPC statuses. Pops, routes, and queries of a group's committed offset use
the brokers' state directly. The proxy keeps what brokers do not keep: clients and their settings, popped messages, open
transactions. All state lives in the stub's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from pyspark_rocketmq.grpc_v2.enums import Code
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.bodies import TopicConfig
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import RequestHeader, to_fields
from pyspark_rocketmq.wire.header import Command

from ..dispatcher import Dispatcher
from ..faults import FaultScript
from ..handlers import BROKER_HANDLERS
from ..requests import Channel
from ..state import Broker, Cluster
from .calls import GrpcCall, StatusError
from .clients import Clients, ProxyChannel
from .pop import PopState

_CODES: dict[int, Code] = {
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
}


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """Options of the gRPC proxy."""

    like_apache: bool = False
    """Whether the proxy has the limits of Apache's.

    These are: no pull methods; no receiving and no heartbeat before the client's settings; in topics without a type
    only NORMAL messages.
    """
    status_last: bool = False
    """Whether the status ends a pull's stream instead of beginning it; real proxies do either."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Secrets by access key; if there are any, only calls signed by one of these users are served."""
    max_streams: int = 2048
    """Maximum number of open Telemetry streams."""
    tls: tuple[str, str] | None = None
    """Paths of certificate and private key; if they are given, only TLS clients are served."""
    script: FaultScript = field(default_factory=FaultScript, repr=False)
    """Scripted faults of gRPC calls."""


class HalfMessage(NamedTuple):
    """Broker, log address and queue offset of a half message, or of its last checked copy, in an open transaction."""

    broker: Broker
    commit_log_offset: int
    queue_offset: int


class Proxy:
    """The state of the gRPC proxy."""

    def __init__(self, cluster: Cluster, options: ProxyOptions) -> None:
        self.cluster, self.clock = cluster, cluster.clock
        self.options = options
        self.address = Address("", 0)
        """Address at which the proxy listens."""
        self.clients = Clients(cluster.clock, cluster.settings.client_expiry_ms)
        self.pop_state = PopState(cluster.clock)
        self.half_messages: dict[str, HalfMessage] = {}
        """Half messages of open transactions, by transaction id."""
        self.send_turns = count()
        self._desks: dict[Broker, Dispatcher[Broker]] = {}

    def __repr__(self) -> str:
        return f"<Proxy at {self.address}, {self.options}>"

    def masters(self) -> list[Broker]:
        """Return the masters that are reachable."""
        return [broker for broker in self.cluster.reachable_brokers() if broker.is_master]

    def any_master(self) -> Broker:
        """Return a reachable master; raise StatusError if there is none."""
        masters = self.masters()
        if not masters:
            raise StatusError(Code.INTERNAL_SERVER_ERROR, "no broker can be reached")
        return masters[0]

    def masters_of(self, topic: str) -> Iterator[tuple[Broker, TopicConfig]]:
        """Yield the reachable masters that have a topic, each with its configuration; raise StatusError without any."""
        found = [(broker, config) for broker in self.masters() if (config := broker.topics.find(topic))]
        if not found:
            raise StatusError(Code.TOPIC_NOT_FOUND, f"no route for topic {topic}")
        yield from found

    def forward(
        self, broker: Broker, header: RequestHeader, call: GrpcCall, channel: Channel, body: bytes = b""
    ) -> None:
        """Pass a request to a broker, which sends its response to the channel, at once or later."""
        dispatcher = self._desks.get(broker)
        if dispatcher is None:
            dispatcher = self._desks[broker] = Dispatcher(
                broker.name, broker, BROKER_HANDLERS, self.cluster.settings, FaultScript()
            )
        command = Command(header.code, fields=to_fields(header), body=body, language=call.language)
        dispatcher.serve(command, channel)

    def call_broker(self, broker: Broker, header: RequestHeader, call: GrpcCall, body: bytes = b"") -> dict[str, str]:
        """Return the header fields of a broker's immediate response; raise StatusError if the broker refuses."""
        got: list[Command] = []
        self.forward(broker, header, call, ProxyChannel(call.remote, got.append), body)
        for response in got:
            if response.code != ResponseCode.SUCCESS:
                raise status_error_of(response)
        return got[0].fields or {} if got else {}


def status_error_of(response: Command) -> StatusError:
    """Return the StatusError that corresponds to a broker's error response."""
    return StatusError(_CODES.get(response.code, Code.INTERNAL_SERVER_ERROR), response.remark or str(response.code))


Handler = Callable[[Proxy, GrpcCall], Any]
HANDLERS: dict[str, Handler] = {}
"""Functions that serve gRPC methods, by method name."""


def serves(name: str) -> Callable[[Handler], Handler]:
    """Return a decorator that registers a function to serve the gRPC method of this name."""

    def register(handler: Handler) -> Handler:
        HANDLERS[name] = handler
        return handler

    return register
