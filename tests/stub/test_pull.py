"""Tests of `broker_stub.handlers.pull` beyond the recorded conversations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker_stub.group_tables import Member
from broker_stub.queue_scan import PullLimits
from broker_stub.topic_table import WRITABLE
from pyspark_rocketmq.wire.bodies import ConsumerData, SubscriptionGroupConfig, build_subscription
from pyspark_rocketmq.wire.codes import LanguageCode, ResponseCode
from pyspark_rocketmq.wire.commands import PullMessageRequestHeader, UpdateBrokerConfigRequestHeader
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import decode_records

from .direct_broker import DirectBroker
from .remoting_client import pull_of

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


@pytest.fixture
def direct() -> DirectBroker:
    return with_messages(DirectBroker())


def with_messages(direct: DirectBroker) -> DirectBroker:
    """Store ten messages with tags A and B in turn in topic T of a broker, and return the broker."""
    direct.broker.topics.find_or_create("T", 1)
    for number in range(10):
        direct.put(TAGS="AB"[number % 2], n=str(number))
    return direct


def pull(offset: int = 0, flags: int = SUBSCRIPTION, **changes: Any) -> PullMessageRequestHeader:
    """Return the header of a pull of T."""
    return replace(pull_of("T", offset), sys_flag=flags, **changes)


def join(direct: DirectBroker, expression: str, kind: str = "TAG", model: str = "CLUSTERING", version: int = 1) -> None:
    """Register a member of group g that subscribes to T with this expression."""
    subscription = build_subscription("T", expression, expression_type=kind, sub_version=version)
    data = ConsumerData(
        group_name="g",
        consume_type="CONSUME_PASSIVELY",
        message_model=model,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=(subscription,),
    )
    direct.broker.consumer_groups.heartbeat(Member(direct.channel, "me", LanguageCode.JAVA, 479), data)


def offsets(answer: Command) -> list[int]:
    """Return the offsets of the messages in a response."""
    return [record.queue_offset for record in decode_records(answer.body)]


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_broker_closed_for_reading_refuses(direct: DirectBroker) -> None:
    """If a broker is not readable, a pull is refused, and 5.x says that the broker is the reason."""
    direct.broker.permission = WRITABLE

    answer = direct.ask(pull())

    assert (answer.code, answer.fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "1"})


def test_a_group_that_may_not_consume_is_refused(direct: DirectBroker) -> None:
    """If the group's configuration forbids consuming, its pulls are refused."""
    direct.broker.group_configs.update(SubscriptionGroupConfig(group_name="g", consume_enable=False))

    answer = direct.ask(pull())

    assert (answer.code, answer.fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "2"})


def test_broadcasting_may_be_forbidden(direct: DirectBroker) -> None:
    """If a group may not broadcast, a pull that uses the group's own subscription is refused."""
    direct.broker.group_configs.update(SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=False))
    join(direct, "*", model="BROADCASTING")

    answer = direct.ask(pull(flags=0))

    assert (answer.code, answer.fields) == (ResponseCode.NO_PERMISSION, {"forbiddenType": "4"})


def test_without_auto_creation_a_group_must_be_there() -> None:
    """A pull of an unknown group creates the group, or is refused if auto-creation is off."""
    strict, lenient = with_messages(DirectBroker(auto_create_groups=False)), with_messages(DirectBroker())

    assert strict.ask(pull()).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert lenient.ask(pull()).code == ResponseCode.SUCCESS
    assert "g" in lenient.broker.group_configs.table


def test_an_expression_without_a_tag_is_refused(direct: DirectBroker) -> None:
    """A pull whose expression consists of bars only is refused."""
    assert direct.ask(pull(subscription="||")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_sql_can_be_off() -> None:
    """If SQL92 is off, which is a real broker's default, a pull with SQL92 is refused."""
    direct = with_messages(DirectBroker(property_filter=False))

    answer = direct.ask(pull(subscription="n > 1", expression_type="SQL92"))

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "The broker does not support consumer to filter message by SQL92"


# --- filters ---------------------------------------------------------------------------------------------------------


def test_sql_of_the_pull_itself(direct: DirectBroker) -> None:
    """If a pull itself brings SQL92, it is applied without a heartbeat."""
    answer = direct.ask(pull(subscription="n > 6 OR TAGS = 'A' AND n < 3", expression_type="SQL92"))

    assert offsets(answer) == [0, 2, 7, 8, 9]


def test_sql_of_the_groups_heartbeat(direct: DirectBroker) -> None:
    """A pull without an expression uses the heartbeat's SQL92, and is refused if its version is newer."""
    join(direct, "n >= 8", "SQL92", version=5)

    assert offsets(direct.ask(pull(flags=0, sub_version=5))) == [8, 9]
    assert direct.ask(pull(flags=0, sub_version=6)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_sql_that_does_not_compile_is_never_registered(direct: DirectBroker) -> None:
    """If the heartbeat's SQL92 does not compile, pulls without an expression are refused."""
    join(direct, "n > > 8", "SQL92")

    assert direct.ask(pull(flags=0)).code == ResponseCode.FILTER_DATA_NOT_EXIST


def test_tags_of_the_groups_heartbeat(direct: DirectBroker) -> None:
    """A pull without an expression uses the tags in the group's heartbeat."""
    join(direct, "B")

    assert offsets(direct.ask(pull(flags=0))) == [1, 3, 5, 7, 9]


# --- responses -------------------------------------------------------------------------------------------------------


def test_cold_data_are_better_read_from_a_slave() -> None:
    """If messages are read from disk, the response suggests a slave, provided that slaves serve pulls."""
    cold = PullLimits(warm_bytes=0)
    for slave_reads, suggestion in ((True, "1"), (False, "0")):
        direct = with_messages(DirectBroker(limits=cold, slave_reads=slave_reads))

        answer = direct.ask(pull())

        assert (answer.fields or {})["suggestWhichBrokerId"] == suggestion
        assert len(offsets(answer)) == 8


def test_a_pull_commits_what_it_carries(direct: DirectBroker) -> None:
    """The offset that a pull carries is committed, whatever the pull finds."""
    direct.ask(pull(99, COMMIT | SUBSCRIPTION, commit_offset=7))

    assert direct.broker.offsets.query("g", "T", 0) == 7


def test_a_pull_is_remembered_for_statistics(direct: DirectBroker) -> None:
    """After a pull the offset table has the offset of the group's next pull."""
    direct.ask(pull(max_msg_nums=4))

    assert direct.broker.offsets.pull_offset_of("g", "T", 0) == 4


# --- waiting ---------------------------------------------------------------------------------------------------------


def wait_at_end(direct: DirectBroker, **changes: Any) -> None:
    """Send a pull at the end of the queue, which the broker holds."""
    assert direct.ask(pull(10, SUSPEND | SUBSCRIPTION, suspend_timeout_millis=15_000, **changes)).remark == "held"


def test_a_waiting_pull_is_answered_by_a_message(direct: DirectBroker) -> None:
    """If a message arrives, the held pull's response contains it."""
    wait_at_end(direct)
    direct.put(TAGS="A")

    assert [offsets(answer) for answer in direct.channel.replies] == [[10]]


def test_a_waiting_pull_commits_only_once(direct: DirectBroker) -> None:
    """A held pull commits its offset when it arrives, and not when it runs again."""
    header = pull(10, COMMIT | SUSPEND | SUBSCRIPTION, suspend_timeout_millis=15_000, commit_offset=3)
    direct.ask(header)
    direct.broker.offsets.commit("g", "T", 0, 8)

    direct.clock.advance(15_000)

    assert direct.channel.replies[0].code == ResponseCode.PULL_NOT_FOUND
    assert direct.broker.offsets.query("g", "T", 0) == 8


def test_a_waiting_pull_ends_behind_messages_it_does_not_want(direct: DirectBroker) -> None:
    """If only messages with other tags arrive, the next check ends the wait with an offset behind them."""
    wait_at_end(direct, subscription="A")
    direct.put(TAGS="B")
    assert direct.channel.replies == []

    direct.clock.advance(5_000)

    (answer,) = direct.channel.replies
    assert (answer.code, (answer.fields or {})["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "11")


def test_a_waiting_pull_with_sql_is_woken_by_properties(direct: DirectBroker) -> None:
    """A held pull with SQL92 ends when a message arrives whose properties match."""
    wait_at_end(direct, subscription="n = 99", expression_type="SQL92")
    direct.put(n="98")
    assert direct.channel.replies == []

    direct.put(n="99")

    assert [offsets(answer) for answer in direct.channel.replies] == [[11]]


def test_without_long_polling_the_wait_is_a_second() -> None:
    """If long polling is off, a pull is held for one second, whatever timeout it has."""
    direct = with_messages(DirectBroker(long_polling=False))
    wait_at_end(direct)

    direct.clock.advance(999)
    assert direct.channel.replies == []
    direct.clock.advance(1)

    assert [answer.code for answer in direct.channel.replies] == [ResponseCode.PULL_NOT_FOUND]


def test_a_reset_ends_a_wait_with_its_time(direct: DirectBroker) -> None:
    """If the group is reset during a wait, the pull gets the reset offset when its time is up."""
    wait_at_end(direct)
    direct.broker.offsets.reset("g", "T", 0, 4)

    direct.clock.advance(15_000)

    (answer,) = direct.channel.replies
    assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")


# --- slaves ----------------------------------------------------------------------------------------------------------


def slave_of(direct: DirectBroker, *, master_is_up: bool = False) -> DirectBroker:
    """Return the broker's slave, to be asked in its place."""
    if master_is_up:
        direct.broker.cluster.brokers.append(direct.broker)
    direct.broker = direct.make_slave()
    return direct


@pytest.mark.parametrize("release", ["5.3.3", "4.9.7"])
@pytest.mark.parametrize(
    ("checks", "code", "offset"),
    [(False, ResponseCode.PULL_RETRY_IMMEDIATELY, "99"), (True, ResponseCode.PULL_OFFSET_MOVED, "10")],
)
def test_a_slave_corrects_offsets_if_it_is_told_to(release: str, checks: bool, code: ResponseCode, offset: str) -> None:
    """With `offsetCheckInSlave` a slave whose master is down corrects an offset out of bounds, as a master does."""
    slave = slave_of(with_messages(DirectBroker(release)))
    if checks:
        slave.ask(UpdateBrokerConfigRequestHeader(), b"offsetCheckInSlave=true")

    answer = slave.ask(pull(99))

    assert (answer.code, (answer.fields or {})["nextBeginOffset"]) == (code, offset)


def test_a_slave_with_a_master_corrects_without_saying_so() -> None:
    """At 5.x a slave whose master is up sends the reader there, with the corrected offset."""
    slave = slave_of(with_messages(DirectBroker(offset_check_in_slave=True)), master_is_up=True)

    answer = slave.ask(pull(99))

    fields = answer.fields or {}
    assert (answer.code, fields["suggestWhichBrokerId"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "0")
    assert fields["nextBeginOffset"] == "10"
