"""Fuzz the stub: every handler of its brokers and its name server, its gRPC door, and its SQL92 filter.

Each attempt has a stub of its own, without sockets and on a frozen clock, so that it can be repeated alone. After the
requests the clock is advanced, so that timers run on the state that they left.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError as ProtobufError

from broker_stub.clock import Clock
from broker_stub.commit_log import CommitLog, anonymous_segment
from broker_stub.dispatcher import Dispatcher
from broker_stub.faults import FaultScript
from broker_stub.grpc_proxy import ProxyOptions
from broker_stub.grpc_proxy.calls import GrpcCall, PendingResponse, StatusError
from broker_stub.grpc_proxy.proxy import HANDLERS, Proxy
from broker_stub.grpc_proxy.telemetry import InvalidSettings, handle_command
from broker_stub.handlers import BROKER_HANDLERS, NAME_SERVER_HANDLERS
from broker_stub.releases import find_release
from broker_stub.requests import OnReply, Refusal, ReplyFault
from broker_stub.settings import Settings
from broker_stub.sql92 import SqlEvaluationError, SqlSyntaxError, compile_sql
from broker_stub.state import Broker, Cluster
from broker_stub.store import InnerMessage
from pyspark_rocketmq.errors import RemoteProtocolError, RocketMQError
from pyspark_rocketmq.grpc_v2.metadata import AUTHORIZATION, CLIENT_ID, DATE_TIME, LANGUAGE, is_signed_by
from pyspark_rocketmq.grpc_v2.methods import METHODS
from pyspark_rocketmq.grpc_v2.translation import addresses_of, read_message, type_of
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.bodies import (
    CreateTopicListRequestBody,
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
)
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import Header, to_fields
from pyspark_rocketmq.wire.header import ONEWAY_FLAG, Command, HeaderType, decode_command, encode_command
from pyspark_rocketmq.wire.session import Session
from tests.stub.recording_channel import RecordingChannel
from tests.wire.recorded import recorded_commands

from .mutations import Mutator
from .runner import Target, outcome
from .wire_targets import damage_header, example_json

CLIENT = Address("127.0.0.1", 50_000)
TOPIC, GROUP, BROKER = "T", "g", "broker-a"
LATER_MS = 200_000
"""Beyond the terms of members, locks, popped messages and half messages."""
RELEASES = ("5.3.3", "5.3.3", "4.9.7")


# --- a stub without sockets ------------------------------------------------------------------------------------------


@cache
def _segment(index: int) -> memoryview:
    """Return memory that all stubs use, one after the other; new memory for each would be collected too late."""
    return anonymous_segment(index)


class Stub:
    """A cluster of one broker with one topic, and what its dispatchers fail with."""

    def __init__(self, release: str) -> None:
        settings = replace(Settings(), release=find_release(release))
        self.clock = Clock(frozen=True)
        self.cluster = Cluster(settings, self.clock)
        self.broker = Broker(self.cluster, BROKER, 0, Address("127.0.0.1", 10911), log=CommitLog(_segment))
        self.cluster.brokers.append(self.broker)
        self.broker.topics.find_or_create(TOPIC, 2)
        for number in range(4):
            properties = {"TAGS": "a", "KEYS": f"k{number}", "UNIQ_KEY": f"0A00000900000000000000000000000{number}"}
            self.broker.accept(InnerMessage(TOPIC, number % 2, b"x", properties, born_timestamp=self.clock.now_ms()))

    def dispatcher(self, is_name_server: bool) -> Dispatcher[Any]:
        """Return a dispatcher for the requests to one port."""
        if is_name_server:
            return Dispatcher("name server", self.cluster, NAME_SERVER_HANDLERS, self.cluster.settings, FaultScript())
        return Dispatcher(self.broker.name, self.broker, BROKER_HANDLERS, self.cluster.settings, FaultScript())


class EncodingChannel(RecordingChannel):
    """A channel that encodes what it is given, as a connection does."""

    def __init__(self, dispatcher: Dispatcher[Any]) -> None:
        super().__init__(CLIENT)
        self._dispatcher = dispatcher
        self._session = Session()

    def reply(self, request: Command, answer: Command, reply_fault: ReplyFault | None = None) -> None:
        """Encode a response."""
        answer.header_type = self._dispatcher.header_type(request)
        self._session.reply(request, answer)

    def send_oneway(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Encode a one-way request."""
        encode_command(Command(code, 0, to_fields(header) if header else None, body, flag=ONEWAY_FLAG))

    def send_request(
        self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int
    ) -> None:
        """Encode a request, and let it time out."""
        self._session.request(code, to_fields(header) if header else None, body)
        on_reply(None)


class _Failures(logging.Handler):
    """Collects the exceptions that the stub logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            self.found.append(record.exc_info[1])


@contextmanager
def raising_failures() -> Iterator[None]:
    """Raise the first exception that the stub logs during the `with` block; let it print nothing."""
    logger, failures = logging.getLogger("broker_stub"), _Failures()
    logger.addHandler(failures)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(failures)
        logger.propagate = propagates
    if failures.found:
        raise failures.found[0]


@contextmanager
def only_foreign_errors() -> Iterator[None]:
    """Turn an error of the library into an `AssertionError`: nothing in the stub handles it at this place."""
    try:
        yield
    except RocketMQError as error:
        raise AssertionError(f"nothing handles {error!r:.500}") from error


# --- requests of the remoting protocol -------------------------------------------------------------------------------


class Requests(NamedTuple):
    """Frames that one client sends to one port of a stub."""

    release: str
    to_name_server: bool
    frames: tuple[bytes, ...]


@cache
def _requests(is_name_server: bool) -> tuple[Command, ...]:
    """Return one recorded request of each shape for each code that a handler serves, about the stub's own topic.

    A code of which no request is recorded has one with the fields of many requests.
    """
    handlers = NAME_SERVER_HANDLERS.handlers if is_name_server else BROKER_HANDLERS.handlers
    found = {(code, frozenset[str](), False): Command(code, fields=_FIELDS, body=_body(code)) for code in handlers}
    for recorded in recorded_commands():
        command = decode_command(memoryview(recorded.frame))
        if recorded.to_server and command.code in handlers and not command.is_response:
            found[command.code, frozenset(command.fields or ()), bool(command.body)] = command
    return tuple(map(_rewrite, found.values()))


_NAMES_BY_FIELD = {
    **dict.fromkeys(("topic", "b", "originTopic"), TOPIC),
    **dict.fromkeys(("consumerGroup", "producerGroup", "group", "groupName", "a"), GROUP),
    **dict.fromkeys(("bname", "brokerName", "n"), BROKER),
}
_FIELDS = _NAMES_BY_FIELD | dict.fromkeys(("queueId", "index", "offset", "commitOffset", "timestamp", "count"), "1")
"""Fields of requests that no conversation has; handlers ignore those that they do not know."""
_RECORDED_NAMES = ((re.compile(rb'"Gold\w*"'), b'"T"'), (re.compile(rb'"gold_\w*"'), b'"g"'))
"""Patterns of the topics and groups in recorded bodies, and the stub's own names in their place."""
_BODIES = {
    RequestCode.QUERY_ASSIGNMENT: QueryAssignmentRequestBody,
    RequestCode.SET_MESSAGE_REQUEST_MODE: SetMessageRequestModeRequestBody,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: CreateTopicListRequestBody,
}


def _body(code: int) -> bytes:
    """Return a legal body for a code of which no request is recorded."""
    cls = _BODIES.get(RequestCode(code)) if code in set(RequestCode) else None
    return example_json(cast(Any, cls)).encode() if cls else b"brokerPermission=6\nx=1\n"


def _rewrite(command: Command) -> Command:
    """Return a request that names the topic, the group and the broker of the stub."""
    fields = {name: _NAMES_BY_FIELD.get(name, value) for name, value in (command.fields or {}).items()}
    body = bytes(command.body)
    for pattern, name in _RECORDED_NAMES:
        body = pattern.sub(name, body)
    return Command(command.code, 1, fields, body, flag=command.flag, version=command.version)


def make_requests(mutator: Mutator) -> Requests:
    """Return a few damaged requests."""
    to_name_server = mutator.chance(0.3)
    frames = tuple(_make_request(mutator, to_name_server) for _ in range(1 + mutator.upto(5)))
    return Requests(mutator.pick(RELEASES), to_name_server, frames)


def _make_request(mutator: Mutator, to_name_server: bool) -> bytes:
    command = mutator.pick(_requests(to_name_server))
    fields = mutator.damage_fields(command.fields or {}) if mutator.chance(0.7) else command.fields
    body = bytes(command.body)
    if mutator.chance(0.5):
        body = mutator.damage_json(body.decode("utf-8", "replace")) if body[:1] == b"{" else mutator.damage(body)
    if mutator.chance(0.1):
        return damage_header(mutator, _copy(command, fields, body, HeaderType.JSON))
    form = mutator.pick(list(HeaderType))
    with suppress(RocketMQError):  # a text that does not fit the binary form
        frame = encode_command(_copy(command, fields, body, form))
        return mutator.damage(frame) if mutator.chance(0.1) else frame
    return damage_header(mutator, _copy(command, fields, body, HeaderType.JSON))


def _copy(command: Command, fields: Mapping[str, str] | None, body: bytes, form: HeaderType) -> Command:
    """Return a copy of a command with other fields, another body and another header form."""
    fields = dict(fields) if fields is not None else None
    return Command(command.code, 1, fields, body, flag=command.flag, version=command.version, header_type=form)


def check_requests(requests: Requests) -> None:
    """Send the requests, let time pass, and disconnect."""
    stub = Stub(requests.release)
    dispatcher = stub.dispatcher(requests.to_name_server)
    channel = EncodingChannel(dispatcher)
    commands = [outcome(decode_command, memoryview(frame)) for frame in requests.frames]
    with raising_failures(), only_foreign_errors():
        for command in commands:
            if isinstance(command, Command):
                dispatcher.serve(command, channel)
        stub.clock.advance(LATER_MS)
        stub.broker.channel_closed(channel)


# --- calls of the gRPC protocol --------------------------------------------------------------------------------------


class Call(NamedTuple):
    """One call of a gRPC method."""

    method: str
    request: bytes
    metadata: dict[str, str]


class Calls(NamedTuple):
    """Calls of one client."""

    release: str
    like_apache: bool
    calls: tuple[Call, ...]


_NAMES = {"topic": TOPIC, "group": GROUP, "broker": BROKER, "topics": TOPIC}
"""Names of resources of the stub, by the field that holds the resource."""
_HANDLES = tuple(f"{serial} {BROKER} {queue_id} 0" for serial in range(3) for queue_id in range(2))
"""Receipt handles of the messages that are popped first."""
_GRPC_TEXTS = ("01AB", "a", "k1", "*", "a || b", TOPIC, "")
_INT32 = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM)


def make_calls(mutator: Mutator) -> Calls:
    """Return a few calls with damaged requests."""
    calls = tuple(_make_call(mutator) for _ in range(1 + mutator.upto(5)))
    return Calls(mutator.pick(RELEASES), mutator.chance(0.2), calls)


def _make_call(mutator: Mutator) -> Call:
    method = METHODS[mutator.pick(("Telemetry", *HANDLERS))]
    request = method.request()
    if method.name == "Telemetry" and mutator.chance(0.8):  # the stub ignores all other commands
        _fill(request.settings, mutator)
    else:
        _fill(request, mutator)
    data = request.SerializeToString()
    metadata = {CLIENT_ID: "c", LANGUAGE: "PYTHON", AUTHORIZATION: "MQv2-HMAC-SHA1 Credential=k, Signature=00"}
    return Call(
        method.name,
        mutator.damage(data) if mutator.chance(0.3) else data,
        {CLIENT_ID: "c"} | mutator.damage_fields(metadata | {DATE_TIME: "20260131T000000Z"}),
    )


def _fill(message: Any, mutator: Mutator, depth: int = 0) -> None:
    """Set most fields of a message to values that are often right, and sometimes at a limit."""
    chosen = {each.name: mutator.pick(each.fields) for each in message.DESCRIPTOR.oneofs}
    for field in message.DESCRIPTOR.fields:
        is_excluded = field.containing_oneof and chosen[field.containing_oneof.name] is not field
        if not is_excluded and mutator.chance(0.8 if depth < 5 else 0.2):
            _fill_field(message, field, mutator, depth)


def _fill_field(message: Any, field: FieldDescriptor, mutator: Mutator, depth: int) -> None:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map:
        getattr(message, field.name)[mutator.text()[:2_000]] = mutator.text()[:2_000]
    elif field.message_type is not None:
        held = getattr(message, field.name)
        for part in [held.add() for _ in range(mutator.upto(2))] if field.is_repeated else [held]:
            part.SetInParent()
            _fill(part, mutator, depth + 1)
            if field.name in _NAMES and mutator.chance(0.9):
                part.name = _NAMES[field.name]
    elif field.is_repeated:
        getattr(message, field.name).extend(_value(field, mutator) for _ in range(mutator.upto(3)))
    else:
        setattr(message, field.name, _value(field, mutator))


def _value(field: FieldDescriptor, mutator: Mutator) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return mutator.noise(20)
        usual = _HANDLES if field.name == "receipt_handle" else _GRPC_TEXTS
        return mutator.text() if mutator.chance(0.15) else mutator.pick(usual)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return mutator.chance(0.5)
    if kind == FieldDescriptor.CPPTYPE_FLOAT:
        return mutator.pick((0.0, 1.5, -1.0, float("nan"), float("inf")))
    if mutator.chance(0.2):
        return mutator.number(32 if kind in _INT32 else 64)
    return mutator.upto(4)


def check_calls(calls: Calls) -> None:
    """Make the calls, let time pass, and serialize all responses."""
    stub = Stub(calls.release)
    proxy = Proxy(stub.cluster, ProxyOptions(like_apache=calls.like_apache))
    with raising_failures():
        for call in calls.calls:
            with suppress(ProtobufError):  # gRPC refuses such a request itself
                request = METHODS[call.method].request.FromString(call.request)
                with only_foreign_errors():
                    _make_response(proxy, call, GrpcCall(request, call.metadata, CLIENT))
        stub.clock.advance(LATER_MS)


def _make_response(proxy: Proxy, call: Call, made: GrpcCall) -> None:
    """Serve a call as the gRPC server does."""
    is_signed_by({"k": "secret"}, call.metadata)
    try:
        if call.method == "Telemetry":
            handle_command(proxy, made, made.request, _serialize)
        else:
            _serialize(HANDLERS[call.method](proxy, made))
    except (StatusError, Refusal, InvalidSettings, RemoteProtocolError):
        pass
    except RuntimeError as error:  # so does Apache's proxy
        if not (proxy.options.like_apache and str(error) == "client type is not a consumer"):
            raise


def _serialize(response: Any) -> None:
    if isinstance(response, PendingResponse):
        response = response.take()
    for message in response if isinstance(response, list) else [response]:
        message.SerializeToString()


def make_grpc_message(mutator: Mutator) -> bytes:
    """Return a damaged gRPC message as a consumer receives it."""
    response = METHODS["ReceiveMessage"].response()
    _fill(response.message, mutator)
    return mutator.damage(response.SerializeToString())


def check_grpc_message(data: bytes) -> None:
    """Translate a received message."""
    with suppress(ProtobufError):
        response = METHODS["ReceiveMessage"].response.FromString(data)
        type_of(read_message(response.message).properties)
        for queue in METHODS["QueryRoute"].response.FromString(data).message_queues:
            addresses_of(queue.broker.endpoints)


# --- expressions -----------------------------------------------------------------------------------------------------


@cache
def _expressions() -> tuple[tuple[str, ...], Mapping[str, str]]:
    recorded = json.loads((Path(__file__).parents[1] / "golden" / "sql92.json").read_text(encoding="utf-8"))
    return tuple(case["expression"] for case in recorded["cases"]), recorded["properties"]


def make_expression(mutator: Mutator) -> str:
    """Return a damaged SQL92 expression."""
    expressions, _ = _expressions()
    return mutator.damage_text(mutator.pick((" AND ", " OR ", "||")).join(mutator.random.sample(expressions, 2)))


def check_expression(text: str) -> None:
    """Compile an expression and evaluate it."""
    with suppress(SqlSyntaxError, SqlEvaluationError):
        compiled = compile_sql(text)
        compiled.matches(_expressions()[1])
        compiled.matches({})


TARGETS = (
    Target("stub", make_requests, check_requests, share=5),
    Target("grpc", make_calls, check_calls, share=3),
    Target("grpc-message", make_grpc_message, check_grpc_message, share=0.5),
    Target("sql92", make_expression, check_expression, share=0.5),
)
