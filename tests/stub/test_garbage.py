"""Send garbage to every handler: each request gets a response, no handler fails, and the stub lives on."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest

from broker_stub import StubBroker
from broker_stub.dispatcher import Dispatcher
from broker_stub.faults import FaultScript
from broker_stub.handlers import BROKER_HANDLERS, NAME_SERVER_HANDLERS
from broker_stub.state import Broker, Cluster
from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.bodies import (
    CreateTopicListRequestBody,
    HeartbeatData,
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
    SubscriptionGroupConfig,
    TopicConfig,
    build_subscription,
    encode_body,
)
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import (
    EndTransactionRequestHeader,
    GetMaxOffsetRequestHeader,
    GetTopicConfigRequestHeader,
    Header,
    QueryMessageRequestHeader,
    RequestHeader,
    UpdateBrokerConfigRequestHeader,
    UpdateSubscriptionGroupRequestHeader,
    to_fields,
)
from pyspark_rocketmq.wire.header import Command, encode_command
from pyspark_rocketmq.wire.properties import join_properties
from pyspark_rocketmq.wire.value_classes import wire_name

from .direct_broker import DirectBroker
from .recording_channel import RecordingChannel
from .recordings import read_scenario, scenarios
from .remoting_client import RemotingClient, send_of

NUMBERS = [
    "0",
    "1",
    "-1",
    "7",
    "32",
    str(2**31 - 1),
    str(2**31),
    str(2**63 - 1),
    str(-(2**63)),
    str(2**63),
    "9" * 5_000,
]
ODD_TEXTS = [
    "",
    " ",
    "x",
    "-",
    "null",
    "1e999",
    "٣",
    "é" * 300,
    "a" * 40_000,
    "\ud800",
    "\0",
    "T@g",
    "%RETRY%g",
    "true",
]
NAMES = ["T", "T", "g", "%RETRY%g", "%DLQ%g", "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "broker-a"]
PROPERTY_NAMES = [
    *(
        "DELAY",
        "TIMER_DELIVER_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_OUT_MS",
        "TIMER_DEL_UNIQKEY",
        "UNIQ_KEY",
    ),
    *("TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID", "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES"),
    *("TRAN_PREPARED_QUEUE_OFFSET", "REPLY_TO_CLIENT", "TAGS", "KEYS", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"),
]
ODD_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**400,
    1.5,
    1e308,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    {"$ref": "$"},
]
BODIES = [
    encode_body(HeartbeatData(client_id="me", consumer_data_set=(), producer_data_set=())),
    encode_body(SubscriptionGroupConfig(group_name="g")),
    encode_body(QueryAssignmentRequestBody(topic="T", consumer_group="g", client_id="me", message_model="CLUSTERING")),
    encode_body(SetMessageRequestModeRequestBody(topic="T", consumer_group="g", mode="PULL")),
    encode_body(CreateTopicListRequestBody(topic_config_list=(TopicConfig(topic_name="U"),))),
    encode_body(build_subscription("T", "a = 1", expression_type="SQL92")),
    b'{"groupConfigList":[{"groupName":"g"}]}',
    b"brokerPermission=6\nmaxMessageSize=4096\nfoo=bar\n",
    encode_batch([BatchEntry(b"one"), BatchEntry(b"two", b"a\x01b\x02")]),
    b"x",
    b"",
]


@cache
def recorded() -> dict[int, list[Command]]:
    """Return some recorded requests of each code."""
    found: dict[int, list[Command]] = {}
    for name in scenarios():
        for exchange in read_scenario(name):
            requests = found.setdefault(exchange.request.code, [])
            if len(requests) < 8 and not exchange.from_broker:
                requests.append(exchange.request)
    return found


@cache
def field_kinds() -> dict[str, bool]:
    """Return whether each known header field is a text, by its name on the wire."""
    kinds: dict[str, bool] = {}
    waiting: list[Any] = [Header]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        for member in fields(cls) if hasattr(cls, "__dataclass_fields__") else ():
            kinds[wire_name(cls, member.name)] = "str" in str(member.type)
    return kinds


class Garbage:
    """Seeded requests that are nearly right: a few fields, or a part of the body, are missing or odd."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self, code: int) -> Command:
        """Return a request with this code."""
        pick = self._random
        known = recorded().get(code, [])
        seed = pick.choice(known) if known and pick.random() < 0.5 else None
        values = dict(seed.fields or {}) if seed else self._all_fields()
        for name in pick.sample(sorted(values), min(len(values), pick.randrange(3))):
            values[name] = self._odd_text()
        for name in pick.sample(sorted(values), min(len(values), pick.choice((0, 0, 0, 1)))):
            del values[name]
        body = bytes(seed.body) if seed else pick.choice(BODIES)
        fields_or_none = None if pick.random() < 0.02 else values
        return Command(code, fields=fields_or_none, body=self.broken(body), version=pick.choice((0, 399, 409, 479)))

    def broken(self, body: bytes) -> bytes:
        """Return the body, mostly with one part of it changed."""
        pick = self._random
        how = pick.randrange(6)
        if how < 3 and body[:1] in (b"{", b"["):
            try:
                return json.dumps(self._changed(fastjson.parse(body))).encode()
            except MalformedFrame:
                return body
        if how == 3:
            return body[: pick.randrange(len(body) + 1)]
        if how == 4 and body:
            at = pick.randrange(len(body))
            return body[:at] + bytes([pick.randrange(256)]) + body[at + 1 :]
        return pick.choice([b"[" * 5_000, b"null", b"\xff=\xff", b"=", b"\x7f\xff\xff\xff"]) if how == 5 else body

    def milliseconds(self) -> int:
        """Return a time by which to advance the clock."""
        return self._random.choice((0, 0, 1, 1_000, 40_000))

    def _all_fields(self) -> dict[str, str]:
        return {name: self._plausible(name, is_text) for name, is_text in field_kinds().items()}

    def _plausible(self, name: str, is_text: bool) -> str:
        pick = self._random
        if name in ("i", "properties"):
            return join_properties({key: self._odd_text() for key in pick.sample(PROPERTY_NAMES, pick.randrange(5))})
        if not is_text:
            return pick.choice(("true", "false", *NUMBERS[:5]))
        return pick.choice(NAMES)

    def _odd_text(self) -> str:
        return self._random.choice([*NUMBERS, *ODD_TEXTS, *NAMES])

    def _changed(self, value: Any) -> Any:
        """Return a JSON value with one part replaced or removed."""
        pick = self._random
        if isinstance(value, dict) and value and pick.random() < 0.8:
            name = pick.choice(sorted(value))
            changed = {**value, name: self._changed(value[name])}
            return changed if pick.random() < 0.9 else {key: value[key] for key in value if key != name}
        if isinstance(value, list) and value and pick.random() < 0.8:
            at = pick.randrange(len(value))
            return [*value[:at], self._changed(value[at]), *value[at + 1 :]]
        return pick.choice(ODD_VALUES)


class EncodingChannel(RecordingChannel):
    """A channel that encodes each response and request, as a connection does."""

    def reply(self, request: Command, answer: Command, *_: Any) -> None:
        """Encode and record a response."""
        encode_command(answer)
        self.replies.append(answer)


def dispatchers(direct: DirectBroker) -> Iterator[tuple[Dispatcher[Any], int]]:
    """Yield each request code, with the dispatcher that has a handler for it."""
    cluster, settings = direct.broker.cluster, direct.broker.settings
    cluster.brokers.append(direct.broker)
    broker: Dispatcher[Broker] = Dispatcher("broker-a", direct.broker, BROKER_HANDLERS, settings, FaultScript())
    names: Dispatcher[Cluster] = Dispatcher("name server", cluster, NAME_SERVER_HANDLERS, settings, FaultScript())
    for dispatcher, registry in ((broker, BROKER_HANDLERS), (names, NAME_SERVER_HANDLERS)):
        yield from ((dispatcher, code) for code in sorted(registry.handlers))


@pytest.mark.parametrize("release", ["5.3.3", "4.9.7"])
@pytest.mark.parametrize("rounds", [40, pytest.param(1_000, marks=pytest.mark.slow)])
def test_no_handler_fails_on_garbage(release: str, rounds: int, caplog: pytest.LogCaptureFixture) -> None:
    """Each garbage request gets at most one response, which can be sent, and errors have a remark; timers go on."""
    caplog.set_level(logging.ERROR)
    garbage = Garbage(rounds)
    direct = DirectBroker(release, recall_messages=True)
    direct.broker.topics.find_or_create("T", 4)
    served = list(dispatchers(direct))
    for _ in range(rounds):
        for dispatcher, code in served:
            channel, request = EncodingChannel(), garbage.request(code)
            dispatcher.serve(request, channel)
            direct.clock.advance(garbage.milliseconds())
            assert not caplog.records, (request, caplog.records[0].exc_info)
            assert len(channel.replies) <= 1, request
            assert all(reply.remark for reply in channel.replies if reply.code == ResponseCode.SYSTEM_ERROR), request


def test_a_connection_survives_garbage(caplog: pytest.LogCaptureFixture) -> None:
    """Over a connection each garbage request of a known code gets a response, and a right request after it, too."""
    caplog.set_level(logging.ERROR)
    garbage = Garbage(1)
    with StubBroker({"T": 4}) as stub, RemotingClient(stub.name_server) as client:
        for code in sorted(NAME_SERVER_HANDLERS.handlers):
            for _ in range(5):
                request = garbage.request(code)
                request.fields = {name: value.replace("\ud800", "") for name, value in (request.fields or {}).items()}
                assert client.response_to(client.send(request)).code >= 0
        with RemotingClient(stub.broker_address()) as broker:
            assert broker.ask(GetMaxOffsetRequestHeader(topic="T", queue_id=0)).code == 0
    assert not caplog.records


@pytest.mark.parametrize("header", [b"\xff", b"{}", b"[]", b'{"code":1e999,"opaque":1}', b'{"code":"x","opaque":1}'])
def test_a_malformed_frame_ends_only_its_connection(header: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that are no request close their connection; the stub serves others."""
    caplog.set_level(logging.ERROR)
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    with StubBroker({"T": 1}) as stub, RemotingClient(stub.broker_address()) as other:
        with RemotingClient(stub.broker_address()) as client:
            client.socket.sendall(frame)
            assert client.is_ended()
        assert other.ask(GetMaxOffsetRequestHeader(topic="T", queue_id=0)).code == 0
    assert not caplog.records


def set_queues(direct: DirectBroker, count: int) -> DirectBroker:
    """Give topic T this number of queues to write to, and return the broker."""
    direct.broker.topics.create(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=count))
    return direct


QUERY = QueryMessageRequestHeader(topic="T", key="k", max_num=-1, begin_timestamp=0, end_timestamp=2**62)
HALF = EndTransactionRequestHeader(
    producer_group="p", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8, msg_id="x"
)
NOT_UTF8 = b"foo=\xff"


@pytest.mark.parametrize(
    ("header", "body", "code"),
    [
        (QUERY, b"", ResponseCode.QUERY_NOT_FOUND),
        (send_of("T", queue_id=-1), b"x", ResponseCode.SYSTEM_ERROR),
        (replace(send_of("U"), flag=2**40), b"x", ResponseCode.SYSTEM_ERROR),
        (send_of("U", f"REAL_TOPIC\x01T\x02TIMER_OUT_MS\x01{'9' * 5_000}"), b"x", ResponseCode.SUCCESS),
        (send_of("U", batch=True), encode_batch([BatchEntry(b"x", NOT_UTF8)]), ResponseCode.SUCCESS),
        (HALF, b"", ResponseCode.SYSTEM_ERROR),
        (UpdateBrokerConfigRequestHeader(), NOT_UTF8, ResponseCode.SUCCESS),
        (UpdateSubscriptionGroupRequestHeader(), b'{"groupName":"\\ud800"}', ResponseCode.SYSTEM_ERROR),
        (GetTopicConfigRequestHeader(topic="\ud800"), b"", ResponseCode.TOPIC_NOT_EXIST),
    ],
)
def test_odd_requests_are_judged_as_a_broker_does(
    header: RequestHeader, body: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests with numbers, texts or messages that are out of the ordinary get a code, and no handler fails."""
    direct = set_queues(DirectBroker(), 0)
    direct.put(REAL_TOPIC="T", REAL_QID="x", PGROUP="p")
    dispatcher: Dispatcher[Broker] = Dispatcher(
        "broker-a", direct.broker, BROKER_HANDLERS, direct.broker.settings, FaultScript()
    )

    channel = EncodingChannel()
    dispatcher.serve(Command(header.code, fields=to_fields(header), body=body), channel)

    assert [reply.code for reply in channel.replies] == [code]
    assert not caplog.records


def test_an_empty_batch_is_an_error_at_4_9_7() -> None:
    """A batch without messages is refused, at releases that do not refuse every request without a body, too."""
    direct = set_queues(DirectBroker("4.9.7"), 1)

    answer = direct.ask(send_of("T", batch=True))

    assert (answer.code, answer.remark) == (1, "java.lang.NullPointerException: the message has no body")
