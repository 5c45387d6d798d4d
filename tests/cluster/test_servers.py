"""Requests carry the cluster's names and a signature; errors name server, request, topic, broker and queue."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.broker_errors import InvalidParameter
from pyspark_rocketmq.cluster.names import Namespace
from pyspark_rocketmq.cluster.servers import ServerRequest, Servers, request_fields
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.cluster.signing import Credentials, signature
from pyspark_rocketmq.errors import ConnectError, MalformedFrame, OptionError
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.bodies import TopicList
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import (
    ConsumerSendMsgBackRequestHeader,
    GetMaxOffsetRequestHeader,
    OffsetResponseHeader,
    PutKVConfigRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SendMessageRequestHeaderV2,
)
from pyspark_rocketmq.wire.header import Command
from tests.cluster.scripted import ScriptedLinks, answer, raising

NS = (Address("ns", 1),)
PLAIN = ClusterSettings(NS)
MAX = GetMaxOffsetRequestHeader(topic="T", queue_id=3)
COMMITTED = QueryConsumerOffsetRequestHeader(topic="T", queue_id=3, consumer_group="g")


def test_the_broker_is_named_in_every_form() -> None:
    """Every request names its broker in a header field; the short form of a send uses a field of one letter."""
    assert request_fields(PLAIN, MAX, broker_name="b") == {"topic": "T", "queueId": "3", "bname": "b"}
    short = SendMessageRequestHeaderV2(
        topic="T", queue_id=0, producer_group="p", default_topic="D", default_topic_queue_nums=4, sys_flag=0,
        born_timestamp=1, flag=0,
    )  # fmt: skip
    assert request_fields(PLAIN, short, broker_name="b")["n"] == "b"


def test_topics_and_groups_are_wrapped_and_nothing_else() -> None:
    """With a namespace, its prefix is added to each field that holds a topic or group, and to no other field."""
    settings = ClusterSettings(NS, namespace=Namespace("NS"))
    assert request_fields(settings, COMMITTED) == {"topic": "NS%T", "queueId": "3", "consumerGroup": "NS%g"}
    back = ConsumerSendMsgBackRequestHeader(offset=1, group="g", delay_level=0, origin_topic="T", origin_msg_id="T")
    wrapped = request_fields(settings, back)
    assert (wrapped["group"], wrapped["originTopic"], wrapped["originMsgId"]) == ("NS%g", "NS%T", "T")
    value = PutKVConfigRequestHeader(namespace="N", key="k", value="v")
    assert request_fields(settings, value) == {"namespace": "N", "key": "k", "value": "v"}


def test_the_second_namespace_travels_beside_the_names() -> None:
    """With a namespace of version 2, two header fields are added and signed like all others."""
    settings = ClusterSettings(NS, namespace=Namespace(header="N2"), credentials=Credentials("ak", "sk"))
    fields = request_fields(settings, MAX, b"body", "b")
    assert (fields["topic"], fields["ns"], fields["nsd"]) == ("T", "N2", "true")
    assert fields["Signature"] == signature("sk", fields, b"body")


def ask(links: ScriptedLinks, header: GetMaxOffsetRequestHeader | QueryConsumerOffsetRequestHeader = MAX) -> int:
    """Return the offset in a broker's reply."""
    request = ServerRequest(Address("b", 1), header, broker_name="broker-a")
    return Servers(PLAIN, links).ask(request).header(OffsetResponseHeader).offset


def test_a_refusal_names_all_places() -> None:
    """If a broker refuses a request, the error names server, request, topic, broker, queue, group, code and remark."""
    links = ScriptedLinks()
    links.serve("b:1", QUERY_CONSUMER_OFFSET=answer(ResponseCode.INVALID_PARAMETER, remark="no such queue"))
    places = "address b:1, request QUERY_CONSUMER_OFFSET, topic T, broker broker-a, queue 3, group g"
    with pytest.raises(InvalidParameter, match=rf"code 29: no such queue \({places}\)"):
        ask(links, COMMITTED)


def test_a_connection_error_names_them_too() -> None:
    """If a connection fails, the error names address, request, topic, broker and queue."""
    with pytest.raises(ConnectError, match="address b:1, request GET_MAX_OFFSET, topic T, broker broker-a, queue 3"):
        ask(ScriptedLinks())


@pytest.mark.parametrize("reply", [answer(), answer(offset="x")], ids=["absent", "no number"])
def test_an_answer_without_its_field_names_the_server(reply: Command) -> None:
    """If a field of a reply is missing or broken, the error names the server."""
    links = ScriptedLinks()
    links.serve("b:1", GET_MAX_OFFSET=reply)
    with pytest.raises(MalformedFrame, match=r"OffsetResponseHeader.*address b:1, request GET_MAX_OFFSET"):
        ask(links)


def test_many_errors_of_one_connection_name_each_its_own_queue() -> None:
    """If a broken connection fails several requests, each gets an error of its own that names its queue."""
    ended = ConnectError("refused", address="b:1")
    links = ScriptedLinks()
    links.serve("b:1", GET_MAX_OFFSET=raising(ended))
    headers = [GetMaxOffsetRequestHeader(topic="T", queue_id=number) for number in (1, 2)]
    requests = [ServerRequest(Address("b", 1), header) for header in headers]
    errors = Servers(PLAIN, links).ask_all(requests)
    assert ["queue 1" in str(errors[0]), "queue 2" in str(errors[1])] == [True, True]
    assert "queue" not in str(ended)


def test_a_body_of_another_shape_names_the_server() -> None:
    """If a reply's body does not have the expected shape, the error names the server."""
    links = ScriptedLinks()
    links.serve("b:1", GET_MAX_OFFSET=answer(body={"topicList": 7}))
    reply = Servers(PLAIN, links).ask(ServerRequest(Address("b", 1), MAX))
    with pytest.raises(MalformedFrame, match=r"TopicList.*address b:1"):
        reply.body(TopicList)


def test_a_cluster_without_name_servers_is_refused() -> None:
    """If settings name no name server, they are refused."""
    with pytest.raises(OptionError, match="nameServer"):
        ClusterSettings(())


def test_settings_show_no_secrets() -> None:
    """The text of settings and of credentials shows no secret."""
    assert "s3cret" not in repr(ClusterSettings(NS, credentials=Credentials("ak", "s3cret", "s3cret")))
