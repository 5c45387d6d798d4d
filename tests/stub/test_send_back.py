"""Tests of `broker_stub.send_back`."""

from __future__ import annotations

import pytest

from broker_stub.send_back import redirect
from broker_stub.store import InnerMessage, Stored
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import ConsumerSendMsgBackRequestHeader
from pyspark_rocketmq.wire.header import Command
from tests.stub.direct_broker import DirectBroker

RETRY, DEAD = "%RETRY%g", "%DLQ%g"
LEVEL_SECONDS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def send_back(
    direct: DirectBroker, stored: Stored, delay_level: int = 0, max_times: int | None = None, version: int = 479
) -> Command:
    """Send a stored message back for group g."""
    header = ConsumerSendMsgBackRequestHeader(
        offset=stored.physical_offset, group="g", delay_level=delay_level, max_reconsume_times=max_times
    )
    return direct.ask(header, version=version)


def test_a_message_comes_again_with_its_history() -> None:
    """A message sent back keeps body, user properties and origin; its count of retries grows by one."""
    direct = DirectBroker()
    stored = direct.put(body=b"again", TAGS="a", KEYS="k", own="1")
    assert send_back(direct, stored, delay_level=1).code == ResponseCode.SUCCESS
    assert direct.found(RETRY) == []
    direct.clock.advance(1_000)
    (record,) = direct.found(RETRY)
    assert (record.body, record.reconsume_times) == (b"again", 1)
    assert record.properties == {
        "TAGS": "a",
        "KEYS": "k",
        "own": "1",
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": stored.message_id,
        "WAIT": "false",
        "DELAY": "1",
        "REAL_TOPIC": RETRY,
        "REAL_QID": "0",
    }
    config = direct.broker.topics.find(RETRY)
    assert config and (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)


def test_the_default_schedule_ends_in_the_dead_letters() -> None:
    """After sixteen retries with growing delays a message is a dead letter, with its origin and first topic."""
    direct = DirectBroker()
    first = stored = direct.put()
    for times, seconds in enumerate(LEVEL_SECONDS):
        send_back(direct, stored)
        direct.clock.advance(seconds * 1000 - 1)
        assert len(direct.found(RETRY)) == times
        direct.clock.advance(1)
        record = direct.found(RETRY)[-1]
        stored = Stored("", record.queue_offset, record.physical_offset, 0)
    send_back(direct, stored)
    (dead,) = direct.found(DEAD)
    assert dead.reconsume_times == 17 and dead.properties["DELAY"] == "0"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == first.message_id and dead.properties["RETRY_TOPIC"] == "T"


@pytest.mark.parametrize(("delay_level", "max_times", "version"), [(-1, 16, 479), (0, 0, 479), (0, None, 120)])
def test_dead_letters_by_level_or_limit(delay_level: int, max_times: int | None, version: int) -> None:
    """A negative level, the request's limit, or for old clients the group's limit, makes a message a dead letter."""
    direct = DirectBroker()
    if version == 120:
        direct.broker.group_configs.update(SubscriptionGroupConfig(group_name="g", retry_max_times=0))
    send_back(direct, direct.put(), delay_level, max_times, version)
    assert [record.reconsume_times for record in direct.found(DEAD)] == [1]
    config = direct.broker.topics.find(DEAD)
    assert config and (config.read_queue_nums, config.perm) == (1, 6)


def test_a_client_too_old_cannot_set_the_limit() -> None:
    """If a client is older than 3.4.9, the limit in its request has no effect."""
    direct = DirectBroker()
    send_back(direct, direct.put(), max_times=0, version=120)
    assert direct.found(DEAD) == []


def test_a_group_without_retry_queues_loses_the_message() -> None:
    """If a group has no retry queues, the response is a success, and nothing is stored."""
    direct = DirectBroker()
    direct.broker.group_configs.update(SubscriptionGroupConfig(group_name="g", retry_queue_nums=0))
    assert send_back(direct, direct.put(), delay_level=-1).code == ResponseCode.SUCCESS
    assert direct.found(DEAD) == [] and direct.broker.topics.find(RETRY) is None


def test_what_is_not_in_the_log_cannot_be_sent_back() -> None:
    """If there is no message at the offset, the refusal names it; the retry topic is created nevertheless."""
    direct = DirectBroker()
    refused = send_back(direct, Stored("", 0, 9_999_999, 0), delay_level=1)
    assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "look message by offset failed, 9999999")
    assert direct.broker.topics.find(RETRY) is not None


def test_an_unknown_group_is_refused_without_auto_creation() -> None:
    """If auto-creation is off, a message that an unknown group sends back is refused."""
    direct = DirectBroker(auto_create_groups=False)
    assert send_back(direct, direct.put()).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_broker_closed_for_writing_refuses() -> None:
    """If the broker or the retry topic is not writable, a message sent back is refused."""
    direct = DirectBroker()
    stored = direct.put()
    direct.broker.topics.find_or_create(RETRY, 1, perm=4)
    assert send_back(direct, stored).code == ResponseCode.NO_PERMISSION
    direct.broker.permission = 4
    assert "127.0.0.1" in (send_back(direct, stored).remark or "")


# --- sent to the retry topic as a new message ------------------------------------------------------------------------


def sent(times: int, **properties: str) -> InnerMessage:
    """Return a message as a consumer sends it to its retry topic."""
    return InnerMessage(RETRY, 0, b"x", properties, reconsume_times=times)


@pytest.mark.parametrize(("release", "times", "topic"), [("5.3.3", 3, RETRY), ("5.3.3", 4, DEAD), ("4.9.7", 3, DEAD)])
def test_a_send_over_the_limit_goes_to_the_dead_letters(release: str, times: int, topic: str) -> None:
    """A send to a retry topic becomes a dead letter above the limit; 5.x allows one retry more than 4.9.7."""
    direct = DirectBroker(release)
    message = redirect(direct.broker, sent(times, DELAY="6"), 3, 479)
    assert message.topic == topic
    assert message.properties["DELAY"] == ("-1" if topic == DEAD and release == "5.3.3" else "6")


def test_the_groups_own_limit_holds_without_another() -> None:
    """If a send to a retry topic has no limit, the group's own one applies, by default sixteen."""
    direct = DirectBroker()
    assert redirect(direct.broker, sent(16), None, 479).topic == RETRY
    assert redirect(direct.broker, sent(17), None, 479).topic == DEAD


def test_a_group_that_holds_locks_gives_up_at_once() -> None:
    """While a group holds queue locks, each message that it sends to its retry topic becomes a dead letter."""
    direct = DirectBroker()
    direct.broker.locks.lock("g", [MessageQueue("T", "broker-a", 0)], "c1")
    assert redirect(direct.broker, sent(1), 3, 479).topic == DEAD
    direct.clock.advance(60_001)
    assert redirect(direct.broker, sent(1), 3, 479).topic == RETRY


def test_other_topics_are_left_alone() -> None:
    """A message to a topic that is no retry topic is not redirected."""
    direct = DirectBroker(auto_create_groups=False)
    message = InnerMessage("T", 0, b"x", reconsume_times=99)
    assert redirect(direct.broker, message, 0, 479) is message
