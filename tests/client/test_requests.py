"""Administrators can read a member's state, reset its positions, and let it consume one message."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import cast

import pytest

from broker_stub import Settings
from broker_stub.admin_codes import AdminCode
from pyspark_rocketmq.client.clock import SystemClock
from pyspark_rocketmq.client.requests import MemberRequests, Serves
from pyspark_rocketmq.client.results import COMMIT, RECONSUME_LATER, ROLLBACK, SUCCESS, SUSPEND
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.model import parse_address, retry_topic
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import Command
from tests.client.fixtures import BROKER, GROUP, TOPIC, Group, Log, queue, until
from tests.real.probe import ask


def test_a_member_describes_itself(group: Group) -> None:
    """A member's description has its subscriptions, queues, positions, rates and thread stacks."""
    group.stub.fill(TOPIC, 40, 10)
    consumer = group.concurrent(Log(), tags="*")
    until(lambda: sum(group.committed().values()) == 40)
    until(lambda: len(consumer.queues) == 5)
    info = group.cluster().admin.fetch_running_info(GROUP, consumer.client_id, with_stacks=True)

    assert {each.topic for each in info.subscription_set} == {TOPIC, retry_topic(GROUP)}
    assert info.mq_table[queue(0)].commit_offset == 10
    assert info.mq_table[queue(0)].last_pull_timestamp == pytest.approx(time.time() * 1000, abs=20_000)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.status_table[TOPIC].consume_ok_tps > 0
    assert f"timer {GROUP}" in (info.jstack or "")


def test_an_orderly_member_says_so(group: Group) -> None:
    """The description of an orderly member says that it consumes in order and that its queues are locked."""
    consumer = group.orderly(Log())
    until(lambda: len(consumer.queues) == 5)
    info = group.cluster().admin.fetch_running_info(GROUP, consumer.client_id)

    assert info.properties["PROP_CONSUMEORDERLY"] == "true"
    assert all(each.locked for each in info.mq_table.values())


def test_members_tell_how_many_threads_consume(group: Group) -> None:
    """A push consumer has the threads of its settings, and a pull consumer one, its user's."""
    members = [(group.concurrent(Log(), thread_count=3), "3"), (group.pulling(), "1")]
    until(lambda: all(member.queues for member, _ in members))
    for member, threads in members:
        info = group.cluster().admin.fetch_running_info(GROUP, member.client_id)
        assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == threads


@pytest.mark.parametrize(
    ("answer", "told"),
    [(SUCCESS, "CR_SUCCESS"), (RECONSUME_LATER, "CR_LATER"), (None, "CR_RETURN_NULL")],
    ids=["success", "later", "nothing"],
)
def test_a_message_is_consumed_on_demand(group: Group, answer: object, told: str) -> None:
    """If an administrator asks for it, the listener gets a message again; the result has no other effect."""
    put = group.stub.put(TOPIC, b"again", queue_id=0)
    log = Log(lambda _: SUCCESS)
    consumer = group.concurrent(log)
    log.wait_for(1)
    log.answer = lambda _: answer
    result = group.cluster().admin.consume_directly(GROUP, consumer.client_id, put.message_id, TOPIC, BROKER)

    assert (result.consume_result, result.order) == (told, False)
    assert log.bodies == [b"again", b"again"]
    assert not group.stub.messages("SCHEDULE_TOPIC_XXXX")


def test_a_failure_on_demand_is_told(group: Group) -> None:
    """If the listener raises for an administrator's message, the response's remark has the exception."""
    put = group.stub.put(TOPIC, b"again", queue_id=0)
    consumer = group.concurrent(Log(lambda _: 1 / 0))
    until(lambda: consumer.queues)
    result = group.cluster().admin.consume_directly(GROUP, consumer.client_id, put.message_id, TOPIC, BROKER)

    assert result.consume_result == "CR_THROW_EXCEPTION"
    assert "ZeroDivisionError" in (result.remark or "")


@pytest.mark.parametrize(
    ("answer", "told"), [(COMMIT, "CR_COMMIT"), (ROLLBACK, "CR_ROLLBACK"), (SUSPEND, "CR_LATER")], ids=str
)
def test_orderly_answers_have_names_of_their_own(group: Group, answer: object, told: str) -> None:
    """For COMMIT, ROLLBACK and SUSPEND of an orderly listener the response has the result names of the Java client."""
    put = group.stub.put(TOPIC, b"x", queue_id=0)
    consumer = group.orderly(Log(lambda _: answer), suspend_s=30)
    until(lambda: consumer.queues)
    result = group.cluster().admin.consume_directly(GROUP, consumer.client_id, put.message_id, TOPIC, BROKER)

    assert (result.consume_result, result.order) == (told, True)


def test_an_older_brokers_reset_is_obeyed(make_group: Callable[..., Group]) -> None:
    """If a broker leaves a reset to the members, they move their positions, and the messages come again."""
    group = make_group(queues=1, settings=Settings(server_side_reset=False))
    group.put("a", "b", "c")
    log = Log()
    group.concurrent(log)
    until(lambda: group.committed().get(0) == 3)
    group.cluster().admin.reset_offsets(GROUP, TOPIC, timestamp_ms=0)

    log.wait_for(6)
    assert sorted(log.bodies[3:]) == [b"a", b"b", b"c"]
    until(lambda: group.committed().get(0) == 3)


def test_a_reset_to_what_is_no_offset_is_refused() -> None:
    """If a broker sends a reset to a negative offset, the request is refused."""
    body = fastjson.write({"offsetTable": {queue(0): -7}})
    fields = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    member = MemberRequests(cast(Serves, None), Namespace(), SystemClock())
    with pytest.raises(MalformedFrame, match="moves orders/broker-a/0 to -7, which is no offset"):
        member.serve(
            parse_address("broker:1"), Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields=fields, body=body)
        )


def test_a_member_says_where_it_stands(group: Group) -> None:
    """An administrator can read each member's positions in a topic's queues."""
    group.put("a", "b", queue_id=1)
    consumer = group.concurrent(Log())
    until(lambda: group.committed().get(1) == 2)
    fields = {"topic": TOPIC, "group": GROUP}
    told = ask(parse_address(group.stub.broker_address()), AdminCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)

    table = fastjson.parse(told.body)["consumerTable"][consumer.client_id]
    assert {fastjson.parse_queue(key): offset for key, offset in table.items()}[queue(1)] == 2


def test_an_exit_on_demand_is_told_and_ends_nothing(group: Group) -> None:
    """If the listener calls `sys.exit()` for an administrator, the response says so, and the next is served."""
    put = group.stub.put(TOPIC, b"again", queue_id=0)
    log = Log()
    consumer = group.concurrent(log)
    log.wait_for(1)
    log.answer = lambda _: sys.exit("no more")
    results = [
        group.cluster().admin.consume_directly(GROUP, consumer.client_id, put.message_id, TOPIC, BROKER)
        for _ in range(2)
    ]

    assert [(each.consume_result, each.remark) for each in results] == [
        ("CR_THROW_EXCEPTION", "SystemExit: no more")
    ] * 2
