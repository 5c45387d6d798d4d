"""Send requests that name very large numbers or texts: the stub refuses them at once, and goes on serving."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from broker_stub import StubBroker
from broker_stub.sql92 import MOST_FILTER_CHARACTERS, SqlSyntaxError, compile_sql
from broker_stub.topic_table import MOST_QUEUES
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.wire.bodies import (
    Body,
    CheckClientRequestBody,
    ConsumerData,
    CreateTopicListRequestBody,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    encode_body,
)
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import (
    CreateTopicRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    HeartbeatRequestHeader,
)
from pyspark_rocketmq.wire.header import Command

from .direct_broker import DirectBroker
from .remoting_client import pull_of

MEGABYTES_8 = 8 * 1024 * 1024
LONG_FILTERS = {
    "conditions": "a = 1 OR ",
    "signs": "-",
    "double signs": "a = --1 OR ",
    "comments": "/*",
    "brackets": "(",
    "texts": "a IN ('x') AND ",
    "blanks": " ",
}
CREATE = CreateTopicRequestHeader(
    topic="U",
    default_topic="TBW102",
    read_queue_nums=1,
    write_queue_nums=1,
    perm=6,
    topic_filter_type="SINGLE_TAG",
    order=False,
)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Check that the block takes less processor time than this."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < seconds


@pytest.mark.parametrize(
    ("release", "count", "code"),
    [
        ("5.3.3", MOST_QUEUES + 1, ResponseCode.INVALID_PARAMETER),
        ("5.3.3", 2**31 - 1, ResponseCode.INVALID_PARAMETER),
        ("5.3.3", 2**31, ResponseCode.SYSTEM_ERROR),
        ("5.3.3", 2**63 - 1, ResponseCode.SYSTEM_ERROR),
        ("4.9.7", 2**31 - 1, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_topic_with_too_many_queues_is_refused(release: str, count: int, code: int) -> None:
    """A topic with more queues than the stub can list is refused as any illegal parameter is, and not created."""
    direct = DirectBroker(release)
    with within(0.5):
        for header in (replace(CREATE, read_queue_nums=count), replace(CREATE, write_queue_nums=count)):
            answer = direct.ask(header)
            assert (answer.code, answer.remark) == (code, f"{count} queues, the stub's limit is {MOST_QUEUES}")
    assert direct.broker.topics.find("U") is None


def test_too_many_queues_are_refused_wherever_they_are_named() -> None:
    """A list of topics, a group's retry queues and the stub's own topics are bounded, too."""
    direct = DirectBroker()
    many = TopicConfig(topic_name="V", read_queue_nums=1, write_queue_nums=2**31)
    both = CreateTopicListRequestBody(topic_config_list=(TopicConfig(topic_name="U"), many))

    assert ask(direct, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, both).code == ResponseCode.SYSTEM_ERROR
    group = SubscriptionGroupConfig(group_name="g", retry_queue_nums=2**31)
    assert ask(direct, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group).code == ResponseCode.SYSTEM_ERROR
    with pytest.raises(OptionError, match=r"topics = 'T': 2147483648 queues, the limit is"):
        StubBroker({"T": 2**31})

    assert direct.broker.topics.find("U") is None and "g" not in direct.broker.group_configs.table


def test_a_topic_with_the_most_queues_is_listed() -> None:
    """Requests about all queues of the largest topic take seconds at most."""
    direct = DirectBroker()
    assert direct.ask(replace(CREATE, read_queue_nums=MOST_QUEUES, write_queue_nums=MOST_QUEUES)).code == 0

    with within(8):
        assert direct.ask(GetTopicStatsInfoRequestHeader(topic="U")).code == 0
        assert direct.ask(GetConsumeStatsRequestHeader(consumer_group="g", topic="U")).code == 0


@pytest.mark.parametrize("shape", LONG_FILTERS)
def test_a_very_long_filter_is_refused_at_once(shape: str) -> None:
    """A filter of 8 MB is refused as one that does not compile, whatever it consists of."""
    text = LONG_FILTERS[shape] * (MEGABYTES_8 // len(LONG_FILTERS[shape]))
    direct = DirectBroker()
    direct.broker.topics.find_or_create("T", 1)
    subscription = SubscriptionData(topic="T", sub_string=text, expression_type="SQL92", sub_version=1)
    check = CheckClientRequestBody(client_id="me", group="g", subscription_data=subscription)
    data = ConsumerData(
        group_name="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscription_data_set=(subscription,),
    )

    with within(2):
        refused = ask(direct, RequestCode.CHECK_CLIENT_CONFIG, check)
        direct.ask(HeartbeatRequestHeader(), HeartbeatData(client_id="me", consumer_data_set=(data,)))
        unfiltered = direct.ask(replace(pull_of("T"), sys_flag=0))
        own = direct.ask(replace(pull_of("T"), subscription=text, expression_type="SQL92"))
        tags = direct.ask(replace(pull_of("T"), subscription=text))

    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert f"the stub's limit is {MOST_FILTER_CHARACTERS}" in (refused.remark or "")
    assert unfiltered.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert (own.code, tags.code) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED,) * 2


@pytest.mark.parametrize("shape", LONG_FILTERS)
def test_the_longest_filter_is_judged_quickly(shape: str) -> None:
    """A filter of the greatest length compiles or is refused within seconds."""
    text = (LONG_FILTERS[shape] * MOST_FILTER_CHARACTERS)[:MOST_FILTER_CHARACTERS]
    with within(3):
        try:
            compile_sql(text)
        except SqlSyntaxError as error:
            assert len(str(error)) < 500


def ask(direct: DirectBroker, code: RequestCode, body: Body) -> Command:
    """Return the response to a request without header fields."""
    return direct.call(Command(code, body=encode_body(body)))
