"""Tests of `broker_stub.grpc_proxy`: each method over a real channel, and the official Python client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from broker_stub import PROXY, StubBroker, StubCluster, TlsFiles
from broker_stub.grpc_proxy import GrpcServer, ProxyOptions, open_proxy
from pyspark_rocketmq.errors import ConnectError, OptionError
from pyspark_rocketmq.grpc_v2.enums import (
    ClientType,
    Code,
    FilterType,
    MessageType,
    Permission,
    QueryOffsetPolicy,
    TransactionResolution,
    TransactionSource,
)
from pyspark_rocketmq.grpc_v2.metadata import AUTHORIZATION, DATE_TIME, make_authorization
from pyspark_rocketmq.grpc_v2.times import to_duration, to_timestamp
from pyspark_rocketmq.model import Address, MessageQueue, parse_address
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig, TopicConfig

from .command import running
from .grpc_client import IDENTITY, TIMEOUT_S, GrpcClient, queue_of, resource, threads

Stub = tuple[StubBroker, GrpcClient]
TOPIC, GROUP = resource("T"), resource("g")
ANY_PORT = Address("127.0.0.1", 0)
HALF_A_MINUTE_MS = 30_000
PKI = Path(__file__).parents[1] / "real" / "pki"
CHECK_INTERVAL_MS = 30_000
"""Milliseconds between two rounds in which the broker checks open transactions."""


@pytest.fixture
def proxy() -> Iterator[Stub]:
    """Yield a stub with a frozen clock, and a client of its gRPC proxy."""
    with StubBroker({"T": 2}, frozen_clock=True) as stub, GrpcClient(stub.endpoints) as client:
        yield stub, client


@pytest.fixture
def apache() -> Iterator[Stub]:
    """Yield a stub with a frozen clock, and a client of a proxy that has the limits of Apache's."""
    with StubBroker({"T": 2}, frozen_clock=True) as stub:
        opened = open_proxy(stub.state, stub.run, ANY_PORT, ProxyOptions(like_apache=True))
        with GrpcClient(str(opened.address)) as client:
            yield stub, client
        opened.close()


def message(body: bytes = b"x", topic: str = "T", **system: Any) -> dict[str, Any]:
    """Return the fields of a message to send."""
    return {"topic": resource(topic), "body": body, "system_properties": {"message_id": "01AB", **system}}


def send(client: GrpcClient, *messages: dict[str, Any]) -> Any:
    """Send messages, and return the response."""
    return client.ask("SendMessage", messages=messages)


def receive(client: GrpcClient, count: int = 32, *, invisible_ms: int = HALF_A_MINUTE_MS, **more: Any) -> list[Any]:
    """Return the items of a ReceiveMessage stream; the call does not wait for a message."""
    fields = {
        "group": GROUP,
        "message_queue": queue_of(-1),
        "batch_size": count,
        "invisible_duration": to_duration(invisible_ms),
        **more,
    }
    return list(client.ask("ReceiveMessage", **fields))


def received(items: list[Any]) -> list[Any]:
    """Return the messages among the items of a stream of ReceiveMessage or PullMessage."""
    return [item.message for item in items if item.WhichOneof("content") == "message"]


def bodies(items: list[Any]) -> list[bytes]:
    """Return the bodies of the messages among the items of a stream."""
    return [message.body for message in received(items)]


def code_of(items: list[Any]) -> int:
    """Return the code of the only status among the items of a stream."""
    (code,) = [item.status.code for item in items if item.WhichOneof("content") == "status"]
    return int(code)


def ack(client: GrpcClient, *messages: Any) -> Any:
    """Acknowledge received messages, and return the response."""
    entries = [{"message_id": "01AB", "receipt_handle": handle_of(message)} for message in messages]
    return client.ask("AckMessage", group=GROUP, topic=TOPIC, entries=entries)


def handle_of(message: Any) -> str:
    """Return the receipt handle of a received message."""
    return str(message.system_properties.receipt_handle)


def pull(client: GrpcClient, offset: int, /, **more: Any) -> list[Any]:
    """Return the items of a PullMessage stream; the call does not wait for a message."""
    return list(client.ask("PullMessage", **{**pull_of(offset), **more}))


def pull_of(offset: int) -> dict[str, Any]:
    """Return the fields of a pull of the first queue from this offset."""
    return {"group": GROUP, "message_queue": queue_of(), "offset": offset, "batch_size": 32}


def set_group(stub: StubBroker, **fields: Any) -> None:
    """Set the configuration of group g at the broker."""
    config = SubscriptionGroupConfig(group_name="g", **fields)
    stub.run(lambda: stub.state.brokers[0].group_configs.update(config))


def set_topic(stub: StubBroker, topic: str, read: int, write: int, **attributes: str) -> None:
    """Set a topic's numbers of queues and its attributes at the broker."""
    config = TopicConfig(topic_name=topic, read_queue_nums=read, write_queue_nums=write, perm=6, attributes=attributes)
    stub.run(lambda: stub.state.brokers[0].topics.create(config))


# --- routes ----------------------------------------------------------------------------------------------------------


def test_a_route_leads_to_the_proxy(proxy: Stub) -> None:
    """Each queue of a route has the proxy's address, and allows reading, writing and all message types."""
    stub, client = proxy

    answer = client.ask("QueryRoute", topic=TOPIC)

    assert answer.status.code == Code.OK
    assert [(queue.id, queue.permission, queue.broker.name) for queue in answer.message_queues] == [
        (0, Permission.READ_WRITE, "broker-a"),
        (1, Permission.READ_WRITE, "broker-a"),
    ]
    (address,) = answer.message_queues[0].broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == stub.endpoints
    assert set(answer.message_queues[0].accept_message_types) == {1, 2, 3, 4}


def test_permissions_are_those_of_each_queue(proxy: Stub) -> None:
    """If a topic has more read queues than write queues, the surplus queues of its route are readable only."""
    stub, client = proxy
    set_topic(stub, "U", 2, 1)

    queues = client.ask("QueryRoute", topic=resource("U")).message_queues

    assert [queue.permission for queue in queues] == [Permission.READ_WRITE, Permission.READ]


@pytest.mark.parametrize(
    ("attributes", "types"),
    [({"message.type": "FIFO"}, [2]), ({"message.type": "MIXED"}, [1, 2, 3, 4]), ({"message.type": "odd"}, [0])],
)
def test_a_topic_may_have_a_type(proxy: Stub, attributes: dict[str, str], types: list[int]) -> None:
    """If a topic has a type attribute, its route allows the messages of that type only."""
    stub, client = proxy
    set_topic(stub, "U", 1, 1, **attributes)

    (queue,) = client.ask("QueryRoute", topic=resource("U")).message_queues

    assert list(queue.accept_message_types) == types


def test_a_topic_without_a_type_is_plain_at_apaches(apache: Stub) -> None:
    """At Apache's proxy the route of a topic without a type allows NORMAL messages only."""
    assert list(apache[1].ask("QueryRoute", topic=TOPIC).message_queues[0].accept_message_types) == [MessageType.NORMAL]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("missing", Code.TOPIC_NOT_FOUND),
        ("", 40002),
        ("a b", 40002),
        ("SCHEDULE_TOPIC_XXXX", 40002),
        ("a" * 128, 40002),
    ],
)
def test_topics_that_have_no_route(proxy: Stub, topic: str, code: int) -> None:
    """A route request for a missing topic, an illegal name or a system topic is refused."""
    assert proxy[1].ask("QueryRoute", topic=resource(topic)).status.code == code


def test_slaves_repeat_the_queues_of_their_masters() -> None:
    """The route lists the queues for masters and for slaves; clients keep those with broker id 0."""
    with StubCluster(2, 1, topics={"T": 1}) as stub, GrpcClient(stub.endpoints) as client:
        queues = client.ask("QueryRoute", topic=TOPIC).message_queues

    places = {(queue.broker.name, queue.broker.id) for queue in queues}
    assert places == {("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)}


@pytest.mark.parametrize(("is_orderly", "ids"), [(False, [-1]), (True, [0, 1])])
def test_assignment(proxy: Stub, is_orderly: bool, ids: list[int]) -> None:
    """A group is assigned one entry for the broker, or one entry for each queue if it consumes in order."""
    stub, client = proxy
    set_group(stub, consume_message_orderly=is_orderly)

    answer = client.ask("QueryAssignment", topic=TOPIC, group=GROUP)

    assert [assignment.message_queue.id for assignment in answer.assignments] == ids
    assert all(len(assignment.message_queue.broker.endpoints.addresses) == 1 for assignment in answer.assignments)


# --- sending ---------------------------------------------------------------------------------------------------------


def test_a_sent_message_is_there_for_everybody(proxy: Stub) -> None:
    """A sent message is stored with its properties, and messages go to the queues in turn."""
    stub, client = proxy

    answers = [
        send(client, message(b"hello", tag="new", keys=["k1"]) | {"user_properties": {"a": "b"}}) for _ in range(2)
    ]

    assert [(answer.status.code, len(answer.entries), answer.entries[0].offset) for answer in answers] == [
        (Code.OK, 1, 0)
    ] * 2
    assert answers[0].entries[0].message_id == "01AB"
    assert sorted(record.queue_id for record in stub.messages("T")) == [0, 1]
    expected = {"TAGS": "new", "KEYS": "k1", "UNIQ_KEY": "01AB", "a": "b", "PGROUP": "T"}
    assert expected.items() <= stub.messages("T")[0].properties.items()


def test_messages_of_a_group_share_a_queue(proxy: Stub) -> None:
    """Messages of one message group are stored in the same queue, so they stay in order."""
    stub, client = proxy

    answer = send(client, *(message(b"%d" % number, message_group="x") for number in range(4)))

    assert [entry.offset for entry in answer.entries] == [0, 1, 2, 3]
    assert len({record.queue_id for record in stub.messages("T")}) == 1


@pytest.mark.parametrize(
    ("faulty", "code"),
    [
        (message(b""), Code.MESSAGE_BODY_EMPTY),
        (message(b"x" * (4 * 1024 * 1024 + 1)), Code.MESSAGE_BODY_TOO_LARGE),
        (message(message_id=" "), Code.ILLEGAL_MESSAGE_ID),
        (message(tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
        (message(keys=[""]), Code.ILLEGAL_MESSAGE_KEY),
        (message(message_group="x" * 64), Code.ILLEGAL_MESSAGE_GROUP),
        (message() | {"user_properties": {"TAGS": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message() | {"user_properties": {"a": "\x01"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message() | {"user_properties": {"a": "x" * 16384}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message() | {"user_properties": dict.fromkeys(map(str, range(129)), "x")}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(delivery_timestamp=to_timestamp(4 * 10**12)), Code.ILLEGAL_DELIVERY_TIME),
        (message(orphaned_transaction_recovery_duration=to_duration(3_600_001)), Code.BAD_REQUEST),
        (message(topic="missing"), Code.TOPIC_NOT_FOUND),
    ],
)
def test_messages_that_are_refused(proxy: Stub, faulty: dict[str, Any], code: Code) -> None:
    """If a message breaks a rule of the protocol, it is refused with the rule's code and not stored."""
    stub, client = proxy

    assert send(client, faulty).status.code == code
    assert stub.messages("T") == []


def test_a_request_is_for_one_topic(proxy: Stub) -> None:
    """A request with messages of several topics, or with none, is refused."""
    assert send(proxy[1]).status.code == Code.MESSAGE_CORRUPTED
    assert send(proxy[1], message(), message(topic="U")).status.code == Code.MESSAGE_CORRUPTED


def test_a_topic_refuses_other_types(proxy: Stub) -> None:
    """A topic with a type accepts messages of this type and refuses all others."""
    stub, client = proxy
    set_topic(stub, "U", 1, 1, **{"message.type": "FIFO"})

    assert send(client, message(topic="U")).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert send(client, message(topic="U", message_group="x")).status.code == Code.OK


def test_a_delayed_message_comes_later_or_never(proxy: Stub) -> None:
    """A delayed message is delivered when due, and its recall is refused unless the broker allows recalls."""
    stub, client = proxy
    due = to_timestamp(stub.clock.now_ms() + 5_000)

    (entry,) = send(client, message(delivery_timestamp=due)).entries
    assert stub.messages("T") == []
    stub.clock.advance(7_000)

    assert len(stub.messages("T")) == 1
    assert entry.recall_handle
    assert client.ask("RecallMessage", topic=TOPIC, recall_handle="x").status.code == Code.BAD_REQUEST
    recall = client.ask("RecallMessage", topic=TOPIC, recall_handle=entry.recall_handle)
    assert (recall.status.code, recall.status.message) == (50001, "recall failed, operation is forbidden")


@pytest.mark.parametrize(
    ("resolution", "count"), [(TransactionResolution.COMMIT, 1), (TransactionResolution.ROLLBACK, 0)]
)
def test_a_transaction_ends_once(proxy: Stub, resolution: TransactionResolution, count: int) -> None:
    """The message of a transaction can be read after a commit only, and a second end is refused."""
    stub, client = proxy
    (entry,) = send(client, message(message_type=MessageType.TRANSACTION)).entries
    assert stub.messages("T") == []
    end: dict[str, Any] = {
        "topic": TOPIC,
        "message_id": "01AB",
        "transaction_id": entry.transaction_id,
        "resolution": resolution,
    }

    codes = [client.ask("EndTransaction", **end).status.code for _ in range(2)]

    assert codes == [Code.OK, Code.INVALID_TRANSACTION_ID]
    assert len(stub.messages("T")) == count


def test_the_producer_is_asked_about_a_forgotten_transaction(proxy: Stub) -> None:
    """A check is written to the Telemetry stream, and the producer's response ends the broker's copy."""
    stub, client = proxy
    telemetry = client.telemetry()
    telemetry.settle(client_type=ClientType.PRODUCER, publishing={"topics": [TOPIC]})
    send(client, message(b"half", message_type=MessageType.TRANSACTION))

    stub.clock.advance(CHECK_INTERVAL_MS)
    question = telemetry.read().recover_orphaned_transaction_command
    answer = client.ask(
        "EndTransaction",
        topic=TOPIC,
        transaction_id=question.transaction_id,
        resolution=TransactionResolution.COMMIT,
        source=TransactionSource.SOURCE_SERVER_CHECK,
    )

    assert (question.message.body, question.message.topic.name) == (b"half", "T")
    assert answer.status.code == Code.OK
    assert [record.body for record in stub.messages("T")] == [b"half"]
    telemetry.close()


# --- receiving -------------------------------------------------------------------------------------------------------


def test_received_messages_are_invisible_to_others(proxy: Stub) -> None:
    """A response has status, messages and time in this order; another receive does not get the messages."""
    stub, client = proxy
    put = stub.put("T", b"hello", tags="new", queue_id=1)

    items = receive(client)

    assert [item.WhichOneof("content") for item in items] == ["status", "message", "delivery_timestamp"]
    (lent,) = received(items)
    system = lent.system_properties
    assert (lent.body, system.tag, system.queue_id, system.queue_offset) == (b"hello", "new", 1, put.offset)
    assert (system.delivery_attempt, bool(system.receipt_handle)) == (1, True)
    assert [item.WhichOneof("content") for item in receive(client)] == ["status", "delivery_timestamp"]


def test_a_message_comes_back_unless_it_is_acknowledged(proxy: Stub) -> None:
    """An unacknowledged message is delivered again when its time is up, and its old handle is then invalid."""
    stub, client = proxy
    for body in (b"a", b"b"):
        stub.put("T", body, queue_id=0)
    first, second = received(receive(client))
    assert ack(client, second).status.code == Code.OK
    assert stub.offsets("g")[MessageQueue("T", "broker-a", 0)] == 0

    stub.clock.advance(HALF_A_MINUTE_MS)
    (again,) = received(receive(client))

    assert (again.body, again.system_properties.delivery_attempt) == (b"a", 2)
    assert ack(client, first).entries[0].status.code == Code.INVALID_RECEIPT_HANDLE
    assert ack(client, first, again).status.code == Code.MULTIPLE_RESULTS
    assert stub.offsets("g")[MessageQueue("T", "broker-a", 0)] == 2


def test_a_message_may_be_kept_longer(proxy: Stub) -> None:
    """A change of the invisible time returns a new handle; a refused change returns the handle of the request."""
    stub, client = proxy
    stub.put("T", b"x")
    (lent,) = received(receive(client))
    change: dict[str, Any] = {"group": GROUP, "topic": TOPIC, "invisible_duration": to_duration(60_000)}

    changed = client.ask("ChangeInvisibleDuration", receipt_handle=handle_of(lent), **change)
    refused = client.ask("ChangeInvisibleDuration", receipt_handle=handle_of(lent), **change)
    stub.clock.advance(HALF_A_MINUTE_MS)

    assert changed.status.code == Code.OK and changed.receipt_handle != handle_of(lent)
    assert (refused.status.code, refused.receipt_handle) == (Code.INVALID_RECEIPT_HANDLE, handle_of(lent))
    assert bodies(receive(client)) == []
    stub.clock.advance(HALF_A_MINUTE_MS)
    assert bodies(receive(client)) == [b"x"]


def test_a_message_may_be_given_up(proxy: Stub) -> None:
    """A message that is forwarded becomes a dead letter of the group and counts as acknowledged."""
    stub, client = proxy
    stub.put("T", b"bad", queue_id=0)
    (lent,) = received(receive(client))
    forward: dict[str, Any] = {"group": GROUP, "topic": TOPIC, "receipt_handle": handle_of(lent), "message_id": "01AB"}

    codes = [client.ask("ForwardMessageToDeadLetterQueue", **forward).status.code for _ in range(2)]

    assert codes == [Code.OK, Code.INVALID_RECEIPT_HANDLE]
    assert [record.body for record in stub.messages("%DLQ%g")] == [b"bad"]
    assert stub.offsets("g")[MessageQueue("T", "broker-a", 0)] == 1


def test_a_message_is_delivered_a_limited_number_of_times(proxy: Stub) -> None:
    """After the first delivery and the group's retries a message becomes a dead letter."""
    stub, client = proxy
    set_group(stub, retry_max_times=1)
    stub.put("T", b"bad")

    counts = []
    for _ in range(3):
        counts.append(len(received(receive(client))))
        stub.clock.advance(HALF_A_MINUTE_MS)

    assert counts == [1, 1, 0]
    assert [record.body for record in stub.messages("%DLQ%g")] == [b"bad"]


def test_a_consumer_waits_for_a_message(proxy: Stub) -> None:
    """A waiting receive gets a message when it is stored, and ends without one when its time is up."""
    stub, client = proxy
    waiting = {
        "group": GROUP,
        "message_queue": queue_of(-1),
        "batch_size": 1,
        "invisible_duration": to_duration(HALF_A_MINUTE_MS),
        "long_polling_timeout": to_duration(20_000),
    }
    first = client.start("ReceiveMessage", **waiting)
    wait_until(lambda: stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 2)
    stub.put("T", b"new")
    assert bodies(first()) == [b"new"]

    second = client.start("ReceiveMessage", **waiting)
    wait_until(lambda: stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 2)
    stub.clock.advance(19_000)
    assert ack(client, *received(receive(client))).status.code == Code.BAD_REQUEST
    stub.clock.advance(1_000)

    assert code_of(second()) == Code.MESSAGE_NOT_FOUND
    assert stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 0


def test_a_message_that_comes_back_ends_a_wait(proxy: Stub) -> None:
    """If an invisible message becomes visible again, a waiting receive gets it."""
    stub, client = proxy
    stub.put("T", b"x")
    receive(client, invisible_ms=10_000)
    waiting = client.start(
        "ReceiveMessage",
        group=GROUP,
        message_queue=queue_of(-1),
        batch_size=1,
        invisible_duration=to_duration(10_000),
        long_polling_timeout=to_duration(20_000),
    )
    wait_until(lambda: stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 2)

    stub.clock.advance(10_000)

    assert bodies(waiting()) == [b"x"]


def wait_until(condition: Any) -> None:
    """Wait until a condition holds that another thread brings about; fail after half a minute."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def test_a_wait_ends_before_the_callers_deadline(proxy: Stub) -> None:
    """A waiting receive ends before the caller's deadline, although the stub's clock is frozen."""
    items = receive(proxy[1], timeout_s=2, long_polling_timeout=to_duration(20_000))

    assert code_of(items) == Code.MESSAGE_NOT_FOUND


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"type": FilterType.TAG, "expression": "a || b"}, [b"a", b"b"]),
        ({"type": FilterType.TAG, "expression": "*"}, [b"a", b"b", b"c"]),
        ({"type": FilterType.SQL, "expression": "TAGS = 'c'"}, [b"c"]),
        ({}, [b"a", b"b", b"c"]),
    ],
)
def test_filters(proxy: Stub, expression: dict[str, Any], expected: list[bytes]) -> None:
    """With the same filter expression, a receive and a pull return the same messages."""
    stub, client = proxy
    for tag in "abc":
        stub.put("T", tag.encode(), tags=tag, queue_id=0)

    assert bodies(receive(client, filter_expression=expression)) == expected
    assert bodies(pull(client, 0, filter_expression=expression)) == expected


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"invisible_duration": to_duration(9_999)}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_duration": to_duration(12 * 3600 * 1000 + 1)}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"batch_size": 0}, Code.BAD_REQUEST),
        ({"message_queue": queue_of(0, broker="broker-z")}, Code.BAD_REQUEST),
        ({"message_queue": queue_of(0, "missing")}, Code.TOPIC_NOT_FOUND),
        ({"group": resource("a b")}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"filter_expression": {"type": FilterType.SQL, "expression": "a ="}}, Code.ILLEGAL_FILTER_EXPRESSION),
    ],
)
def test_receives_that_are_refused(proxy: Stub, fields: dict[str, Any], code: Code) -> None:
    """If a receive is refused, the delivery time is still the last item of its stream."""
    items = receive(proxy[1], **fields)

    assert (code_of(items), items[-1].WhichOneof("content")) == (code, "delivery_timestamp")


def test_a_push_consumer_keeps_its_messages_while_it_lives(proxy: Stub) -> None:
    """Messages of a push consumer stay invisible while it lives, and are visible again after it has left."""
    stub, client = proxy
    settle_consumer(client, ClientType.PUSH_CONSUMER)
    stub.put("T", b"x")
    assert bodies(receive(client, auto_renew=True)) == [b"x"]

    stub.clock.advance(100_000)
    assert bodies(receive(client)) == []
    client.ask("NotifyClientTermination", group=GROUP)
    stub.clock.advance(60_000)

    assert bodies(receive(client)) == [b"x"]


def test_a_push_consumer_sets_when_it_tries_again(proxy: Stub) -> None:
    """If a push consumer sets an invisible time, the message is visible again after it, and is not renewed."""
    stub, client = proxy
    settle_consumer(client, ClientType.PUSH_CONSUMER)
    stub.put("T", b"x")
    (lent,) = received(receive(client, auto_renew=True))

    client.ask(
        "ChangeInvisibleDuration",
        group=GROUP,
        topic=TOPIC,
        receipt_handle=handle_of(lent),
        invisible_duration=to_duration(1_000),
    )
    stub.clock.advance(1_000)

    assert bodies(receive(client, auto_renew=True)) == [b"x"]


def test_an_orderly_group_gets_one_batch_at_a_time(proxy: Stub) -> None:
    """Until a batch is acknowledged, the same attempt gets it again, and another attempt gets nothing."""
    stub, client = proxy
    set_group(stub, consume_message_orderly=True)
    for body in (b"a", b"b", b"c"):
        stub.put("T", body, queue_id=0)

    batch = received(receive(client, 2, attempt_id="one"))
    repeated = received(receive(client, 2, attempt_id="one"))

    assert [m.body for m in batch] == [m.body for m in repeated] == [b"a", b"b"]
    assert repeated[0].system_properties.delivery_attempt == 1
    assert bodies(receive(client, 2, attempt_id="two")) == []
    assert ack(client, *repeated).status.code == Code.OK
    assert bodies(receive(client, 2, attempt_id="two")) == [b"c"]


def test_receiving_follows_a_reset_of_the_group(proxy: Stub) -> None:
    """A receive starts at the offset that an administrator or another client has set, lower or higher."""
    stub, client = proxy
    for body in (b"a", b"b", b"c"):
        stub.put("T", body, queue_id=0)
    assert ack(client, *received(receive(client))).status.code == Code.OK

    stub.faults.reset_offset("g", MessageQueue("T", "broker-a", 0), 1)
    assert bodies(receive(client)) == [b"b", b"c"]
    client.ask("UpdateOffset", group=GROUP, message_queue=queue_of(), offset=2)

    assert bodies(receive(client)) == [b"c"]


def test_a_group_that_got_nothing_has_no_offset(proxy: Stub) -> None:
    """A group that never received a message has no offset; an unacknowledged message keeps the offset before it."""
    stub, client = proxy
    receive(client)
    assert stub.offsets("g") == {}

    stub.put("T", b"x", queue_id=0)
    receive(client)
    receive(client)

    assert stub.offsets("g") == {MessageQueue("T", "broker-a", 0): 0}


def test_a_wait_for_an_orderly_queue_ends_when_it_is_free(proxy: Stub) -> None:
    """An acknowledged batch frees its queue, and ends a wait for it once, even with two messages."""
    stub, client = proxy
    set_group(stub, consume_message_orderly=True)
    for body in (b"a", b"b", b"c", b"d"):
        stub.put("T", body, queue_id=0)
    batch = received(receive(client, 2))
    waiting = client.start(
        "ReceiveMessage",
        group=GROUP,
        message_queue=queue_of(-1),
        batch_size=1,
        invisible_duration=to_duration(HALF_A_MINUTE_MS),
        long_polling_timeout=to_duration(20_000),
    )
    wait_until(lambda: stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 2)

    assert ack(client, *batch).status.code == Code.OK

    assert bodies(waiting()) == [b"c"]
    assert stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 0


def test_a_new_group_begins_at_the_end_where_messages_were_deleted(proxy: Stub) -> None:
    """If messages of a queue were deleted, a new group starts with the last message, as with pop."""
    stub, client = proxy
    for body in (b"a", b"b", b"c"):
        stub.put("T", body, queue_id=0)
    stub.expire("T", 0, 1)

    assert bodies(receive(client)) == [b"c"]


# --- pulling ---------------------------------------------------------------------------------------------------------


def test_pulled_messages_come_with_the_next_offset(proxy: Stub) -> None:
    """Pulled messages have no handle and can be pulled again, since a pull commits no offset."""
    stub, client = proxy
    for body in (b"a", b"b"):
        stub.put("T", body, queue_id=0)

    items = pull(client, 0)

    assert [item.WhichOneof("content") for item in items] == ["status", "message", "message", "next_offset"]
    assert (bodies(items), items[-1].next_offset) == ([b"a", b"b"], 2)
    assert not received(items)[0].system_properties.HasField("receipt_handle")
    assert bodies(pull(client, 0)) == [b"a", b"b"]
    assert stub.offsets("g") == {}


@pytest.mark.parametrize(
    ("offset", "code", "next_offset"),
    [(1, Code.ILLEGAL_OFFSET, 2), (3, Code.MESSAGE_NOT_FOUND, 3), (4, Code.ILLEGAL_OFFSET, 3)],
)
def test_offsets_where_there_is_nothing(proxy: Stub, offset: int, code: Code, next_offset: int) -> None:
    """If a pull's offset has no message, its status and next offset say where to continue."""
    stub, client = proxy
    for body in (b"a", b"b", b"c"):
        stub.put("T", body, queue_id=0)
    stub.expire("T", 0, 2)

    items = pull(client, offset)

    assert (code_of(items), items[-1].next_offset) == (code, next_offset)


def test_a_pull_passes_over_what_is_filtered_out(proxy: Stub) -> None:
    """If a filter matches no message, the next offset lies behind the scanned messages."""
    stub, client = proxy
    stub.put("T", b"a", tags="a", queue_id=0)

    items = pull(client, 0, filter_expression={"type": FilterType.TAG, "expression": "b"})

    assert (code_of(items), items[-1].next_offset) == (Code.MESSAGE_NOT_FOUND, 1)


def test_a_pull_at_the_end_waits(proxy: Stub) -> None:
    """A pull at the end of a queue waits until a message is stored or its timeout passes."""
    stub, client = proxy
    waiting = {**pull_of(0), "long_polling_timeout": to_duration(20_000)}
    call = client.start("PullMessage", **waiting)
    wait_until(lambda: stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 1)

    stub.put("T", b"x", queue_id=0)

    assert bodies(call()) == [b"x"]
    items = client.ask("PullMessage", 0.5, **{**waiting, "offset": 1})
    assert (code_of(items), items[-1].next_offset) == (Code.MESSAGE_NOT_FOUND, 1)
    assert stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"offset": -1}, Code.ILLEGAL_OFFSET),
        ({"batch_size": 0}, Code.BAD_REQUEST),
        ({"message_queue": queue_of(2)}, Code.BAD_REQUEST),
        ({"message_queue": queue_of(0, broker="broker-z")}, Code.BAD_REQUEST),
        ({"message_queue": queue_of(0, "missing")}, Code.TOPIC_NOT_FOUND),
        ({"group": resource("")}, Code.ILLEGAL_CONSUMER_GROUP),
    ],
)
def test_pulls_that_are_refused(proxy: Stub, fields: dict[str, Any], code: Code) -> None:
    """A refused pull gets a status, and no next offset."""
    (item,) = pull(proxy[1], 0, **fields)

    assert item.status.code == code


def test_the_status_of_a_pull_may_come_last() -> None:
    """With the option `status_last`, the status is the last item of a pull's stream."""
    with StubBroker({"T": 1}) as stub:
        opened = open_proxy(stub.state, stub.run, ANY_PORT, ProxyOptions(status_last=True))
        stub.put("T", b"x")
        with GrpcClient(str(opened.address)) as client:
            items = pull(client, 0)
        opened.close()

    assert [item.WhichOneof("content") for item in items] == ["message", "next_offset", "status"]


# --- offsets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "code", "offset"),
    [
        ({"query_offset_policy": QueryOffsetPolicy.BEGINNING}, Code.OK, 1),
        ({"query_offset_policy": QueryOffsetPolicy.END}, Code.OK, 3),
        ({"query_offset_policy": QueryOffsetPolicy.TIMESTAMP, "timestamp": to_timestamp(2_500)}, Code.OK, 2),
        ({"query_offset_policy": QueryOffsetPolicy.TIMESTAMP}, Code.BAD_REQUEST, 0),
        ({"message_queue": queue_of(9)}, Code.BAD_REQUEST, 0),
    ],
)
def test_offsets_of_a_queue(proxy: Stub, question: dict[str, Any], code: Code, offset: int) -> None:
    """QueryOffset returns a queue's minimum or maximum offset, or the first offset stored since a time."""
    stub, client = proxy
    for store_timestamp in (1_000, 2_000, 3_000):
        stub.put("T", b"x", queue_id=0, store_timestamp=store_timestamp)
    stub.expire("T", 0, 1)

    answer = client.ask("QueryOffset", **{"message_queue": queue_of(), **question})

    assert (answer.status.code, answer.offset) == (code, offset)


@pytest.mark.parametrize(
    "question",
    [
        {"query_offset_policy": 3},
        {"query_offset_policy": QueryOffsetPolicy.TIMESTAMP, "timestamp": {"seconds": 2**63 - 1}},
    ],
)
def test_illegal_policies_and_times_are_bad_requests(
    proxy: Stub, question: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """An undefined policy and a time that protobuf does not allow are refused, and nothing is logged."""
    answer = proxy[1].ask("QueryOffset", message_queue=queue_of(), **question)

    assert (answer.status.code, caplog.records) == (Code.BAD_REQUEST, [])


def test_a_groups_offset_is_what_was_stored(proxy: Stub) -> None:
    """GetOffset returns the committed offset, or no offset before a commit; a negative commit is refused."""
    stub, client = proxy
    place: dict[str, Any] = {"group": GROUP, "message_queue": queue_of(1)}

    before = client.ask("GetOffset", **place).status.code
    codes = [client.ask("UpdateOffset", offset=offset, **place).status.code for offset in (7, -1)]
    after = client.ask("GetOffset", **place)

    assert (before, codes) == (Code.OFFSET_NOT_FOUND, [Code.OK, Code.ILLEGAL_OFFSET])
    assert (after.status.code, after.offset) == (Code.OK, 7)
    assert stub.offsets("g") == {MessageQueue("T", "broker-a", 1): 7}


# --- telemetry -------------------------------------------------------------------------------------------------------


def settle_consumer(client: GrpcClient, client_type: ClientType) -> Any:
    """Write a consumer's settings to a Telemetry stream, and return the completed settings."""
    entry = {"topic": TOPIC, "expression": {"type": FilterType.TAG, "expression": "*"}}
    command = client.telemetry().settle(
        client_type=client_type, subscription={"group": GROUP, "subscriptions": [entry]}
    )
    assert command.status.code == Code.OK
    return command.settings


def test_a_producers_settings_are_completed(proxy: Stub) -> None:
    """The server adds limits and a retry policy to a producer's settings."""
    command = (
        proxy[1].telemetry().settle(client_type=ClientType.PRODUCER, publishing={"topics": [TOPIC], "max_body_size": 1})
    )

    publishing, backoff = command.settings.publishing, command.settings.backoff_policy
    assert (command.status.code, publishing.max_body_size) == (Code.OK, 4 * 1024 * 1024)
    assert publishing.validate_message_type and not command.settings.metric.on
    assert (backoff.max_attempts, backoff.WhichOneof("strategy")) == (3, "exponential_backoff")


def test_a_consumers_settings_are_completed(proxy: Stub) -> None:
    """A consumer's settings get the group's configuration, and the consumer is a member until it unregisters."""
    stub, client = proxy
    set_group(stub, consume_message_orderly=True, retry_max_times=5)

    settings = settle_consumer(client, ClientType.SIMPLE_CONSUMER)

    assert (settings.subscription.fifo, settings.subscription.receive_batch_size) == (True, 32)
    assert (settings.backoff_policy.max_attempts, len(settings.backoff_policy.customized_backoff.next)) == (6, 18)
    assert stub.groups() == {"g": ("tester",)}
    assert client.ask("Heartbeat", group=GROUP).status.code == Code.OK
    assert client.ask("NotifyClientTermination", group=GROUP).status.code == Code.OK
    assert stub.groups() == {}


def test_a_silent_consumer_is_no_member_for_long(proxy: Stub) -> None:
    """A consumer without heartbeats loses its membership."""
    stub, client = proxy
    settle_consumer(client, ClientType.SIMPLE_CONSUMER)

    stub.clock.advance(100_000)
    client.ask("Heartbeat", group=GROUP)
    stub.clock.advance(100_000)
    assert stub.groups() == {"g": ("tester",)}
    stub.clock.advance(50_000)

    assert stub.groups() == {}


@pytest.mark.parametrize(
    "settings",
    [{}, {"subscription": {"group": resource("a b")}}, {"publishing": {"topics": [resource("SCHEDULE_TOPIC_XXXX")]}}],
)
def test_settings_that_end_the_stream(proxy: Stub, settings: dict[str, Any]) -> None:
    """If settings have no role or an illegal name, the stream ends with an error."""
    with pytest.raises(grpc.RpcError) as caught:
        proxy[1].telemetry().settle(**settings)

    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


# --- as Apache's proxy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["PullMessage", "GetOffset", "UpdateOffset", "QueryOffset", "SyncLiteSubscription"])
def test_apaches_proxy_does_not_pull(apache: Stub, name: str) -> None:
    """At Apache's proxy the pull methods are unimplemented."""
    with pytest.raises(grpc.RpcError) as caught:
        apache[1].ask(name)

    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_apaches_proxy_wants_settings_first(apache: Stub) -> None:
    """At Apache's proxy receives, heartbeats and terminations are refused before the client sent settings."""
    client = apache[1]

    assert code_of(receive(client)) == Code.INTERNAL_SERVER_ERROR
    assert client.ask("Heartbeat").status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    assert client.ask("NotifyClientTermination").status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    settle_consumer(client, ClientType.SIMPLE_CONSUMER)
    assert code_of(receive(client)) == Code.MESSAGE_NOT_FOUND


def test_apaches_proxy_has_no_pull_consumers(apache: Stub) -> None:
    """At Apache's proxy the settings of a pull consumer end the stream."""
    with pytest.raises(grpc.RpcError) as caught:
        settle_consumer(apache[1], ClientType.PULL_CONSUMER)

    assert caught.value.code() == grpc.StatusCode.INTERNAL


# --- the proxy itself -------------------------------------------------------------------------------------------------


def test_clients_must_send_their_id(proxy: Stub) -> None:
    """Every call without a client id is refused."""
    with GrpcClient(proxy[0].endpoints, {}) as client:
        assert client.ask("QueryRoute", topic=TOPIC).status.code == Code.CLIENT_ID_REQUIRED
        assert client.telemetry().read().status.code == Code.CLIENT_ID_REQUIRED


@pytest.mark.parametrize(("secret", "code"), [("sk1", Code.OK), ("sk2", Code.UNAUTHORIZED)])
def test_signed_calls_only_when_there_are_users(secret: str, code: Code) -> None:
    """If the proxy has users, a call is served only if one of them signed it."""
    now = "20261118T091847Z"
    signed = {**IDENTITY, DATE_TIME: now, AUTHORIZATION: make_authorization("ak1", secret, now)}
    with StubBroker({"T": 1}, acl={"ak1": "sk1"}) as stub, GrpcClient(stub.endpoints, signed) as client:
        assert client.ask("QueryRoute", topic=TOPIC).status.code == code


def test_a_large_message_passes(proxy: Stub) -> None:
    """A message of the maximum size is stored."""
    body = b"x" * (4 * 1024 * 1024)

    assert send(proxy[1], message(body)).status.code == Code.OK
    assert len(proxy[0].messages("T")[0].body) == len(body)


def test_idle_streams_keep_nobody_waiting(proxy: Stub) -> None:
    """While very many Telemetry streams are open, other calls are served, and the stub closes at once."""
    stub, client = proxy
    begin = time.monotonic()
    streams = [client.telemetry() for _ in range(600)]
    for stream in streams:
        stream.settle(client_type=ClientType.PRODUCER, publishing={"topics": [TOPIC]})

    assert client.ask("QueryRoute", topic=TOPIC).status.code == Code.OK
    stub.close()
    assert time.monotonic() - begin < TIMEOUT_S - 5, "streams waited for the timeouts of others"
    for stream in streams:
        stream.close()


def test_streams_are_limited(proxy: Stub) -> None:
    """A Telemetry stream beyond the limit ends with RESOURCE_EXHAUSTED; the end of another one makes room for it."""
    stub, _ = proxy
    settings = {"client_type": ClientType.PRODUCER, "publishing": {"topics": [TOPIC]}}
    opened = open_proxy(stub.state, stub.run, ANY_PORT, ProxyOptions(max_streams=2))
    with GrpcClient(str(opened.address)) as client:
        first, second = client.telemetry(), client.telemetry()
        for stream in (first, second):
            assert stream.settle(**settings).status.code == Code.OK

        with pytest.raises(grpc.RpcError, match="2 Telemetry streams are open, the limit is 2") as refused:
            client.telemetry().settle(**settings)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        first.close()
        with pytest.raises(StopIteration):
            first.read()

        assert client.telemetry().settle(**settings).status.code == Code.OK
    opened.close()


def test_broken_streams_leave_nothing_behind(proxy: Stub) -> None:
    """Streams whose connections break are forgotten, in whatever state they are."""
    stub, _ = proxy
    opened = open_proxy(stub.state, stub.run, ANY_PORT, ProxyOptions(max_streams=8))
    for _ in range(40):
        with GrpcClient(str(opened.address)) as breaking:
            assert open_streams(breaking, 3) in (0, 3)
            for _ in range(3):
                breaking.telemetry()

    with GrpcClient(str(opened.address)) as client:
        wait_until(lambda: open_streams(client, 8) == 8)
    opened.close()


def open_streams(client: GrpcClient, count: int) -> int:
    """Open Telemetry streams until one is refused; if none is, leave them open and return their number, else 0."""
    streams = [client.telemetry() for _ in range(count)]
    try:
        for stream in streams:
            stream.settle(client_type=ClientType.PRODUCER, publishing={"topics": [TOPIC]})
    except grpc.RpcError:
        for stream in streams:
            stream.close()
        return 0
    return count


def test_a_taken_port_is_named(proxy: Stub) -> None:
    """If the port is taken, the error names it and says what to do."""
    stub, _ = proxy

    with pytest.raises(ConnectError, match="cannot listen for gRPC"):
        open_proxy(stub.state, stub.run, parse_address(str(stub.endpoints)))


def test_with_a_certificate_the_proxy_speaks_tls() -> None:
    """If the proxy has a certificate, a client that trusts it is served, and a plain client is not."""
    files = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    with StubBroker({"T": 1}, tls=files) as stub:
        with GrpcClient(stub.endpoints, authority=(PKI / "ca.pem").read_bytes()) as trusting:
            assert send(trusting, message()).status.code == Code.OK
        with GrpcClient(stub.endpoints) as plain, pytest.raises(grpc.RpcError) as refused:
            send(plain, message())

    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


# --- faults ----------------------------------------------------------------------------------------------------------


def test_calls_fail_on_command(proxy: Stub) -> None:
    """A scripted gRPC code is returned unchanged, a broker's code translated; faults of other servers do not apply."""
    stub, client = proxy
    stub.faults.answer(Code.MESSAGE_BODY_TOO_LARGE, "as told", at=PROXY, on="SendMessage")
    stub.faults.busy(at=PROXY)
    stub.faults.busy(times=None)

    statuses = [send(client, message()).status for _ in range(3)]

    assert [status.code for status in statuses] == [Code.MESSAGE_BODY_TOO_LARGE, Code.TOO_MANY_REQUESTS, Code.OK]
    assert statuses[0].message == "as told"
    assert len(stub.messages("T")) == 1


def test_an_answer_comes_late_on_command(proxy: Stub) -> None:
    """A delayed call is carried out at once, and its response is late by the stub's clock."""
    stub, client = proxy
    stub.faults.delay(HALF_A_MINUTE_MS, at=PROXY, on="SendMessage")
    idle = repr(stub.clock)

    answer = client.start("SendMessage", messages=[message()])
    wait_until(lambda: len(stub.messages("T")) == 1)
    assert send(client, message()).status.code == Code.OK
    wait_until(lambda: repr(stub.clock) != idle)
    stub.clock.advance(HALF_A_MINUTE_MS)

    assert answer().status.code == Code.OK


@pytest.mark.parametrize("fault", ["drop_reply", "cut_reply"])
def test_an_answer_is_lost_on_command(proxy: Stub, fault: str) -> None:
    """If a response is dropped or cut, the call is carried out; the caller gets a timeout or a broken connection."""
    stub, client = proxy
    getattr(stub.faults, fault)(at=PROXY, on="SendMessage")

    with pytest.raises(grpc.RpcError) as lost:
        client.ask("SendMessage", 1.0, messages=[message()])

    silent = fault == "drop_reply"
    assert lost.value.code() == (grpc.StatusCode.DEADLINE_EXCEEDED if silent else grpc.StatusCode.UNAVAILABLE)
    assert len(stub.messages("T")) == 1


def test_faults_of_single_bytes_are_not_for_the_proxy(proxy: Stub) -> None:
    """A fault of single bytes is refused for the proxy, because gRPC sends whole messages."""
    stub, _ = proxy

    with pytest.raises(OptionError, match="use answer, delay, drop_reply or cut_reply"):
        stub.faults.trickle(at=PROXY)


def test_nothing_is_left_of_a_closed_proxy() -> None:
    """After a close all threads have ended, even if clients were waiting and streams were open."""
    others = threads()
    with StubBroker({"T": 1}) as stub, GrpcClient(stub.endpoints) as client:
        settle_consumer(client, ClientType.SIMPLE_CONSUMER)
        waiting = client.start("PullMessage", **pull_of(0), long_polling_timeout=to_duration(20_000))
        wait_until(lambda: stub.run(lambda: len(stub.state.brokers[0].held_pulls)) == 1)
        stub.close()

        with pytest.raises(grpc.RpcError):
            waiting()
        wait_until(lambda: threads() == others)


def test_repr_shows_where_it_is(proxy: Stub) -> None:
    """The repr of the proxy contains its address."""
    stub, _ = proxy
    opened = open_proxy(stub.state, stub.run, ANY_PORT)

    assert isinstance(opened, GrpcServer)
    assert repr(opened) == f"<GrpcServer {opened.address}>"
    opened.close()


# --- the official client ---------------------------------------------------------------------------------------------

CLIENT = Path(__file__).with_name("official_grpc_client.py")


def start_client(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the official client in a process of its own, and return the process."""
    return subprocess.Popen(
        [sys.executable, str(CLIENT), *arguments],
        env={**os.environ, "HOME": str(home), "no_grpc_proxy": "*"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def end_client(client: subprocess.Popen[str]) -> Any:
    """Wait for the official client's process, and return the JSON that it printed."""
    output, _ = client.communicate("\n", timeout=60)
    assert client.returncode == 0
    return json.loads(output.splitlines()[-1])


def test_the_official_client_sends_and_receives(tmp_path: Path) -> None:
    """The official client receives its plain, grouped and delayed messages unchanged, and acknowledges them."""
    with StubBroker({"T": 2}) as stub:
        seen = end_client(start_client(tmp_path, "send_and_receive", str(stub.endpoints)))
        offsets = stub.offsets("g")

    delayed, grouped, plain = seen["received"]
    assert [delayed["body"], grouped["body"], grouped["group"], plain["body"]] == ["delayed", "grouped", "x", "plain"]
    assert (plain["tag"], plain["keys"], plain["properties"]) == ("new", ["k1"], {"a": "b"})
    assert not any(message["corrupted"] or message["attempt"] != 1 for message in seen["received"])
    assert sorted(seen["sent"]) == seen["ids"]
    assert sum(offsets.values()) == 3


def test_the_official_client_ends_transactions(tmp_path: Path) -> None:
    """The official client ends transactions when it sends, and when the broker checks them."""
    with StubBroker({"T": 1}) as stub:
        client = start_client(tmp_path, "transact", str(stub.endpoints))
        assert client.stdout and client.stdout.readline() == "sent\n"
        assert [record.body for record in stub.messages("T")] == [b"committed"]
        stub.clock.advance(CHECK_INTERVAL_MS)
        wait_until(lambda: len(stub.messages("T")) == 2)

        assert end_client(client) == ["forgotten"]
        assert [record.body for record in stub.messages("T")] == [b"committed", b"forgotten"]


def test_the_official_client_is_pushed_to(tmp_path: Path) -> None:
    """The official push consumer gets messages that other clients sent."""
    with StubBroker({"T": 2}) as stub:
        stub.put("T", b"one")
        stub.put("T", b"two")

        assert end_client(start_client(tmp_path, "push", str(stub.endpoints))) == ["one", "two"]
        assert sum(stub.offsets("g").values()) == 2


# --- the end ---------------------------------------------------------------------------------------------------------


def test_many_broken_streams_do_not_keep_the_command_from_ending() -> None:
    """SIGTERM ends the stub's process while streams are open, and after many of them broke."""
    with running("--topic", "T:1") as (_, endpoints, process):
        for _ in range(50):
            with GrpcClient(endpoints) as breaking:
                for _ in range(20):
                    breaking.telemetry()
        with GrpcClient(endpoints) as client:
            assert open_streams(client, 20) == 20
            process.send_signal(signal.SIGTERM)

            assert process.wait(20) == 0
