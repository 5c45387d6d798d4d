"""Members of a group that want different things are warned, and no message is lost meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from pyspark_rocketmq.client.settings import MessageModel
from pyspark_rocketmq.client.subscription_check import find_differences
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.bodies import ConsumerData, build_subscription
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.client.fixtures import GROUP, QUICK, TOPIC, Group, Log, until

MINE = ConsumerData(
    group_name=GROUP,
    consume_type="CONSUME_PASSIVELY",
    message_model="CLUSTERING",
    consume_from_where="CONSUME_FROM_LAST_OFFSET",
    subscription_data_set=(build_subscription(TOPIC, "a || b"), build_subscription(f"%RETRY%{GROUP}")),
)


def test_members_that_agree_differ_in_nothing() -> None:
    """The order of tags, the age of a subscription and the group's own retry topic are no difference."""
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
    """A different message model, another expression, and a topic that one member lacks are named with advice."""
    differences = list(find_differences(model, [build_subscription(topic, expression)], MINE))

    assert differences[0].startswith(f"{difference}; ") or differences[-1].startswith(f"{difference}; ")
    assert "of its own" in differences[0] or "of their own" in differences[0]


def test_inconsistent_subscriptions_are_logged_once_and_lose_nothing(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """The second member logs what the first one wants, once, and no position passes an unseen message."""
    log = Log()
    group.concurrent(log, tags="a")
    group.put("x", tags="a")
    log.wait_for(1)
    group.concurrent(Log(), subscriptions={"other": Subscription()})

    until(lambda: f"others want TAG 'a' of {TOPIC}, this member wants nothing" in caplog.text)
    assert caplog.text.count(f"others want TAG 'a' of {TOPIC}, this member wants nothing") == 1
    assert sum(group.committed().values()) <= 1


def test_a_group_of_the_other_model_is_logged_and_loses_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """A broadcasting member beside a clustering one reads everything, and no position passes an unseen message."""
    clustering, broadcasting = Log(), Log()
    first = group.concurrent(clustering)
    until(lambda: first.queues)
    second = group.concurrent(broadcasting, message_model=MessageModel.BROADCASTING)
    until(lambda: len(second.queues) == 4)
    group.put(*"abcd")

    broadcasting.wait_for(4)
    until(lambda: "others are CLUSTERING, this member is BROADCASTING" in caplog.text)
    assert sum(group.committed().values()) <= len(clustering.messages)


def test_two_members_of_one_name_are_logged_and_lose_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """Two members with one name get the same queues, as in RocketMQ, and positions pass consumed messages only."""
    logs = [Log(), Log()]
    group.concurrent(logs[0], instance_name="same")
    until(lambda: group.stub.groups())
    group.concurrent(logs[1], instance_name="same")
    group.stub.fill(TOPIC, 40, 10)
    until(lambda: "is a member already; give every member an instance name" in caplog.text)
    until(lambda: any(log.messages for log in logs))

    for number, offset in group.committed().items():
        seen = {message.offset for log in logs for message in log.messages if message.queue.queue_id == number}
        assert seen >= set(range(offset))


def test_a_member_that_may_not_ask_asks_once(group: Group) -> None:
    """When access control forbids the comparison, a member works without it and does not ask again."""
    asked = RequestCode.GET_CONSUMER_CONNECTION_LIST
    fault = group.stub.faults.answer(ResponseCode.NO_PERMISSION, on=asked, times=None)
    group.put("a")
    log = Log()
    group.concurrent(log, rhythm=replace(QUICK, heartbeat_s=0.02))
    log.wait_for(1)
    until(lambda: fault.fired)

    threading.Event().wait(0.2)
    assert fault.fired == 1
