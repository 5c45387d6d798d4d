"""A route lists the queues to read, the queues to write, and the brokers' addresses."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from pyspark_rocketmq.cluster.routes import AddressMap, BrokerEndpoint, BrokerEndpoints, Route, make_route
from pyspark_rocketmq.errors import (
    LimitExceeded,
    MalformedFrame,
    NoBrokerAvailable,
    QueueMoved,
    StaticTopicUnsupported,
)
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.wire.bodies import TopicRouteData, decode_body
from tests.peak import MOST_MIB, run_apart
from tests.wire.exchanges import exchanges

RW, READ, WRITE = 6, 4, 2
EMPTY_MAP = AddressMap()


def route(
    perms: dict[str, int],
    addresses: dict[str, dict[str, str]],
    counts: tuple[int, int] = (2, 2),
    address_map: AddressMap = EMPTY_MAP,
    **more: object,
) -> Route:
    """Return a route of topic T; `perms` and `addresses` are by broker, `counts` are its read and write queues."""
    read, write = counts
    data = {
        "queueDatas": [
            {"brokerName": name, "perm": perm, "readQueueNums": read, "writeQueueNums": write}
            for name, perm in perms.items()
        ],
        "brokerDatas": [{"brokerName": name, "cluster": "C", "brokerAddrs": at} for name, at in addresses.items()],
        **more,
    }
    return make_route("T", decode_body(TopicRouteData, json.dumps(data)), address_map)


def names(queues: tuple[MessageQueue, ...]) -> list[str]:
    """Return each queue as the text `broker/queue id`."""
    return [f"{queue.broker_name}/{queue.queue_id}" for queue in queues]


A, B = {"0": "a:1", "1": "a:2"}, {"1": "b:2"}


def test_a_recorded_route() -> None:
    """A response recorded from a real name server gives a route with its two queues and its master."""
    [answer] = {e.response.body for e in exchanges() if e.file == "route_found.jsonl" and e.response}
    found = make_route("GoldPull", decode_body(TopicRouteData, answer), AddressMap())
    assert names(found.readable) == names(found.writable) == ["broker-a/0", "broker-a/1"]
    assert found.broker("broker-a").master() == Address("127.0.0.2", 20911)


def test_queues_sort_as_in_java_whatever_the_order_of_the_answer() -> None:
    """Queues are sorted by broker name in UTF-16 code units, then by queue id as a number."""
    found = route(perms={"b-2": RW, "b-10": RW}, addresses={}, counts=(11, 1))
    assert names(found.readable) == [f"{name}/{number}" for name in ("b-10", "b-2") for number in range(11)]


def test_reading_counts_read_queues_and_asks_for_no_master() -> None:
    """A topic with fewer write queues than read queues is read in full, also at a broker without a master."""
    found = route(perms={"a": READ, "b": RW, "gone": READ}, addresses={"a": A, "b": B}, counts=(3, 1))
    assert names(found.readable) == [f"{name}/{number}" for name in ("a", "b", "gone") for number in range(3)]


def test_writing_counts_write_queues_of_brokers_with_a_master() -> None:
    """If a broker has no write permission or no master, its queues are not among the queues to write."""
    perms = {"a": RW, "b": RW, "gone": RW, "ro": READ}
    assert names(route(perms=perms, addresses={"a": A, "b": B, "ro": A}, counts=(3, 1)).writable) == ["a/0"]


def test_a_write_only_broker_is_not_read() -> None:
    """If a broker has no read permission for the topic, its queues are not among the queues to read."""
    found = route(perms={"a": WRITE, "none": 0}, addresses={"a": A, "none": A})
    assert found.readable == () and names(found.writable) == ["a/0", "a/1"]


def test_an_order_configuration_alone_says_what_is_written() -> None:
    """If a topic has an order configuration, it decides which queues are written, but not which are read."""
    found = route(perms={"a": RW}, addresses={"a": A}, orderTopicConf="b:1;a:3;")
    assert names(found.writable) == ["a/0", "a/1", "a/2", "b/0"] and names(found.readable) == ["a/0", "a/1"]


@pytest.mark.parametrize("text", ["a", "a:", "a:x", "a:-1", "a:1;b"])
def test_a_broken_order_configuration_is_named(text: str) -> None:
    """If an order configuration cannot be parsed, the error shows it."""
    with pytest.raises(MalformedFrame, match=r"order configuration '.*topic T"):
        route(perms={"a": RW}, addresses={"a": A}, orderTopicConf=text)


def test_static_topics_are_refused_by_name() -> None:
    """If a topic is static, it is refused, since the offsets of its logical queues would be misread."""
    with pytest.raises(StaticTopicUnsupported, match="topic T"):
        route(perms={"a": RW}, addresses={"a": A}, topicQueueMappingByBroker={"a": {"bname": "a", "totalQueues": 8}})
    assert route(perms={"a": RW}, addresses={"a": A}, topicQueueMappingByBroker={}).readable


@pytest.mark.parametrize(
    ("ids", "suggested", "chosen"),
    [((0, 1), 0, 0), ((0, 1), 1, 1), ((0, 2), 1, 2), ((0, 3), 1, 0), ((1, 2), 0, 1), ((0,), 1, 0), ((2, 1), 0, 1)],
)
def test_reads_follow_the_suggestion_as_far_as_they_can(ids: tuple[int, ...], suggested: int, chosen: int) -> None:
    """If the suggested replica is missing, the one with the next id is read, else any process of the broker."""
    places = tuple(sorted(BrokerEndpoint(number, Address("h", 10 + number)) for number in ids))
    place = BrokerEndpoints("b", "C", places).to_read(suggested)
    assert place == BrokerEndpoint(chosen, Address("h", 10 + chosen)) and place.is_master == (chosen == 0)


def test_a_broker_without_processes_is_not_available() -> None:
    """If a broker has no process, reads and writes raise an error."""
    nobody = BrokerEndpoints("b", "C", ())
    for ask in (nobody.master, nobody.to_read):
        with pytest.raises(NoBrokerAvailable, match="broker b"):
            ask()


def test_a_broker_that_left_the_route_has_moved() -> None:
    """If a broker is not in the route, the error is retriable and has the route fetched again."""
    with pytest.raises(QueueMoved, match="broker x") as caught:
        route(perms={"a": RW}, addresses={"a": A}).broker("x")
    assert caught.value.retriable and caught.value.refresh_routes


def test_advertised_addresses_are_mapped() -> None:
    """An entry of the address map decides a broker's address; the address for all others is used without an entry."""
    address_map = AddressMap(((Address("a", 1), Address("near", 7)),), other=Address("::1", 9))
    places = route(perms={"a": RW}, addresses={"a": A}, address_map=address_map).broker("a")
    assert [place.address for place in places.endpoints] == [Address("near", 7), Address("::1", 9)]
    assert AddressMap(((Address("a", 1), Address("b", 2)),)).reach(Address("c", 3)) == Address("c", 3)


@pytest.mark.parametrize("address", ["nowhere", "h:0", "h:x", ""])
def test_a_broker_registered_without_a_real_address_is_named(address: str) -> None:
    """If a broker registered an address that cannot be parsed, the error names the broker."""
    with pytest.raises(MalformedFrame, match="broker a"):
        route(perms={"a": RW}, addresses={"a": {"0": address}})


def test_a_snapshot_cannot_be_changed() -> None:
    """Neither the attributes of a route nor its table of brokers can be changed."""
    found = route(perms={"a": RW}, addresses={"a": A})
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.topic = "U"  # type: ignore[misc]  # the point of the test
    with pytest.raises(TypeError):
        found.brokers["b"] = found.broker("a")  # type: ignore[index]  # the point of the test


# --- too much ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["readQueueNums", "writeQueueNums", "orderTopicConf"])
def test_a_route_of_too_many_queues_is_refused_before_it_is_made(field: str) -> None:
    """If a name server reports too many queues, an error with limit, field, topic and broker is raised at once."""
    counts = {"readQueueNums": "(2**31 - 1, 1)", "writeQueueNums": "(1, 2**31 - 1)", "orderTopicConf": "(1, 1)"}[field]
    more = ', orderTopicConf="a:2147483647"' if field == "orderTopicConf" else ""
    said, peak = run_apart(
        f"""
from tests.cluster.test_routes import RW, route
route({{"a": RW}}, {{"a": {{"0": "a:1"}}}}, {counts}{more})
"""
    )

    assert peak < MOST_MIB
    assert "[LIMIT_EXCEEDED]" in said and field in said and "the limit is 100000 (topic T, broker a)" in said


def test_many_brokers_with_few_queues_add_up() -> None:
    """The limit of queues counts those of all brokers; a route exactly at the limit is accepted."""
    perms = {f"b{number}": RW for number in range(101)}
    with pytest.raises(LimitExceeded, match="at least 101000 queues"):
        route(perms, {}, counts=(1000, 0))
    assert len(route(perms, {}, counts=(990, 0)).readable) == 99_990


def test_too_many_broker_processes_are_refused() -> None:
    """If a name server's reply names too many broker processes, an error is raised."""
    many = {str(number): "h:1" for number in range(10_001)}
    with pytest.raises(LimitExceeded, match="names 10001 broker processes, the limit is 10000"):
        route({"a": RW}, {"a": many})


@pytest.mark.parametrize("text", ["a:" + "9" * 5000, "a" * 10_000_000])
def test_an_order_configuration_is_shown_in_short(text: str) -> None:
    """If a broken order configuration is long, the error shows only its beginning."""
    with pytest.raises(MalformedFrame, match="order configuration") as caught:
        route({"a": RW}, {"a": A}, orderTopicConf=text)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("address", ["h:" + "9" * 5000, "x" * 1_000_000])
def test_a_broken_address_is_shown_in_short(address: str) -> None:
    """If a broken address has a very long port, the error shows only its beginning."""
    with pytest.raises(MalformedFrame, match="broker a") as caught:
        route({"a": RW}, {"a": {"0": address}})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["a\nforged", "\x1b[31m", "a\u202e", "x" * 256])
@pytest.mark.parametrize("place", ["brokers", "queues", "order"])
def test_a_brokers_name_is_one_line_of_limited_length(place: str, name: str) -> None:
    """If a broker's name is too long or has control characters, the route is refused; the error shows it escaped."""
    named = {"brokers": ({"a": RW}, {name: A}), "queues": ({name: RW}, {"a": A}), "order": ({"a": RW}, {"a": A})}
    order: Any = {"orderTopicConf": f"{name}:1"} if place == "order" else {}
    with pytest.raises(MalformedFrame, match="a broker's name is longer than 255") as caught:
        route(*named[place], **order)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


def test_other_names_of_brokers_are_accepted() -> None:
    """A broker's name may have blanks, letters of any language, and 255 characters."""
    for name in ("host.example.com", "Broker Eins", "经纪人", "x" * 255):
        assert route({name: RW}, {name: A}).readable[0].broker_name == name
