"""Members of a group with different subscriptions log a warning, and no position passes an unseen message."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_rocketmq.client import PushConsumer
from pyspark_rocketmq.client.settings import MessageModel
from pyspark_rocketmq.client.subscription_check import SubscriptionCheck, find_differences
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.bodies import ConsumerConnection, ConsumerData, SubscriptionData, build_subscription
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TIMEOUT_S, TOPIC, Group, Log, until

MINE = ConsumerData(
    group_name=GROUP,
    consume_type="CONSUME_PASSIVELY",
    message_model="CLUSTERING",
    consume_from_where="CONSUME_FROM_LAST_OFFSET",
    subscription_data_set=(build_subscription(TOPIC, "a || b"), build_subscription(f"%RETRY%{GROUP}")),
)


def test_members_that_agree_differ_in_nothing() -> None:
    """Another order of tags, another version, or a missing retry topic does not count as a difference."""
    assert not list(find_differences("CLUSTERING", [build_subscription(TOPIC, "b||a", sub_version=7)], MINE))


@pytest.mark.parametrize(
    ("model", "topic", "expression", "difference"),
    [
        ("BROADCASTING", TOPIC, "a || b", "others are BROADCASTING, this member is CLUSTERING"),
        ("CLUSTERING", TOPIC, "a", f"others want TAG 'a' of {TOPIC}, this member wants TAG 'a || b'"),
        ("CLUSTERING", "other", "*", "others want TAG '*' of other, this member wants nothing"),
    ],
)
def test_what_differs_is_named_with_what_to_do(model: str, topic: str, expression: str, difference: str) -> None:
    """If the message model, an expression or a topic differs, the text names the difference and gives advice."""
    differences = list(find_differences(model, [build_subscription(topic, expression)], MINE))

    assert differences[0].startswith(f"{difference}; ") or differences[-1].startswith(f"{difference}; ")
    assert "of its own" in differences[0] or "of their own" in differences[0]


def test_inconsistent_subscriptions_are_logged_once_and_lose_nothing(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """If two members subscribe differently, the second logs that once, and no unseen message is committed."""
    log = Log()
    group.concurrent(log, tags="a")
    group.put("x", tags="a")
    log.wait_for(1)
    group.concurrent(Log(), subscriptions={"other": Subscription()})

    until(lambda: f"others want TAG 'a' of {TOPIC}, this member wants nothing" in caplog.text)
    assert caplog.text.count(f"others want TAG 'a' of {TOPIC}, this member wants nothing") == 1
    assert sum(group.committed().values()) <= 1


def test_a_group_of_the_other_model_is_logged_and_loses_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """If a broadcasting member joins a clustering one, it logs that and gets all; no unseen message is committed."""
    clustering, broadcasting = Log(), Log()
    first = group.concurrent(clustering)
    until(lambda: first.queues)
    second = group.concurrent(broadcasting, message_model=MessageModel.BROADCASTING)
    until(lambda: len(second.queues) == 4)
    group.put(*"abcd")

    broadcasting.wait_for(4)
    until(lambda: "others are CLUSTERING, this member is BROADCASTING" in caplog.text)
    assert sum(group.committed().values()) <= len(clustering.messages)


TWIN = """
import sys
from pyspark_rocketmq.client import SUCCESS, ConsumerSettings, PushConsumer

def listener(messages):
    for message in messages:
        print(message.queue.queue_id, message.offset, flush=True)
    return SUCCESS

settings = ConsumerSettings(group=sys.argv[2], subscriptions=sys.argv[3], instance_name="same")
with PushConsumer.concurrent(sys.argv[1], settings, listener):
    sys.stdin.read()
"""
"""A program that consumes until its input ends, and prints queue and offset of each message."""


@pytest.fixture
def twin(group: Group) -> Iterator[subprocess.Popen[str]]:
    """Yield another process with a consumer of the group whose instance name is "same"."""
    command = [sys.executable, "-c", TWIN, group.stub.name_server, GROUP, TOPIC]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: group.stub.groups())
        yield process
    finally:
        process.kill()
        process.wait()


def test_two_members_of_one_name_are_logged_and_lose_nothing(
    group: Group, twin: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    """If two processes use one instance name, the second logs it, and no unseen message is committed."""
    log = Log()
    consumer = group.concurrent(log, instance_name="same")
    group.stub.fill(TOPIC, 40, 10)
    until(lambda: "is a member already; give every member an instance name" in caplog.text)
    log.wait_for(1)
    lines, _ = twin.communicate("", TIMEOUT_S)
    consumer.close()

    seen = {(message.queue.queue_id, message.offset) for message in log.messages}
    seen |= {(int(queue_id), int(offset)) for queue_id, offset in map(str.split, lines.splitlines())}
    for number, end in group.committed().items():
        assert seen >= {(number, offset) for offset in range(end)}


def test_a_change_of_ones_own_is_no_difference(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """Before brokers got a member's new subscriptions by a heartbeat, it does not take its old ones for another's."""
    member = PushConsumer.concurrent(group.cluster_settings, group.settings(), Log())._member
    membership = member.membership
    membership.queues(TOPIC)
    membership.check_others()
    membership.heartbeat()
    for _ in range(2):
        membership.subscribe("refunds", Subscription("paid"))
        membership.check_others()
        membership.unsubscribe("refunds")
        membership.check_others()
    assert "disagree" not in caplog.text

    membership.subscribe("refunds", Subscription("paid"))
    membership.check_others()
    membership.check_others()
    assert "others want nothing of refunds, this member wants TAG 'paid'" in caplog.text
    member.cluster.close()


def test_a_member_that_may_not_ask_asks_once(group: Group) -> None:
    """If access control forbids to fetch the group's subscriptions, the member consumes and does not ask again."""
    asked = RequestCode.GET_CONSUMER_CONNECTION_LIST
    fault = group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=asked, times=None)
    group.put("a")
    log = Log()
    group.concurrent(log, rhythm=replace(QUICK, heartbeat_s=0.02))
    log.wait_for(1)
    until(lambda: fault.fired)

    threading.Event().wait(0.2)
    assert fault.fired == 1


def test_names_of_others_are_logged_in_few_short_lines(caplog: pytest.LogCaptureFixture) -> None:
    """If a broker lists a thousand subscriptions with huge or forged names, a few lines show some of them escaped."""
    forged = [SubscriptionData(topic=f"t{number}\n\x1b[31m" + "x" * 10_000, sub_string="*") for number in range(1000)]
    seen = ConsumerConnection(message_model="\u202e", subscription_table={each.topic: each for each in forged})
    cluster = SimpleNamespace(
        groups=SimpleNamespace(fetch_consumer_connections=lambda *_, **__: {"broker-a": seen}),
        settings=SimpleNamespace(namespace=Namespace()),
    )
    SubscriptionCheck(cast(Any, cluster), GROUP, "me").compare(MINE)

    assert len(caplog.messages) == 20 and r"t0\n\x1b[31mxxx" in caplog.text
    assert all(each.isprintable() and len(each) < 2200 for each in caplog.messages)
    assert [each for each in caplog.messages if "and 982 more" in each] == caplog.messages[-1:]
