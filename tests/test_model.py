"""Queues, ranges, addresses and names behave as all rooms expect."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import (
    Address,
    MessageQueue,
    QueueRange,
    dead_letter_topic,
    find_queue,
    java_order,
    parse_address,
    parse_addresses,
    retry_topic,
    sort_queues,
)

hosts = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True) | st.ip_addresses(v=6).map(str)
addresses = st.builds(Address, hosts, st.integers(1, 65535))


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    """Queue ids are sorted as numbers: 10 comes after 2."""
    expected = [
        MessageQueue("A", "b", 0),
        MessageQueue("A", "b", 2),
        MessageQueue("A", "b", 10),
        MessageQueue("A", "c", 0),
        MessageQueue("B", "a", 0),
    ]

    assert sort_queues(reversed(expected)) == expected


def test_names_sort_by_utf16_units_as_java_does() -> None:
    """Names are sorted by UTF-16 code units: unlike in Python, an emoji comes before U+FFFF."""
    beyond, last = "\U0001f600", "\uffff"

    assert sorted([last, beyond], key=java_order) == [beyond, last]
    assert sorted([last, beyond]) == [last, beyond]


def test_a_lone_surrogate_can_be_ordered() -> None:
    """If a text holds a lone surrogate, it can be sorted all the same."""
    assert java_order("\ud800") == b"\xd8\x00"


def test_a_range_spans_start_to_end_exclusive() -> None:
    """A range does not include its end, so that a range with equal start and end is empty."""
    queue = MessageQueue("t", "b", 0)

    assert QueueRange(queue, 5, 5).offset_count == 0
    assert QueueRange(queue, 5, 8).offset_count == 3


def test_a_queue_prints_as_a_path() -> None:
    """The text of a queue is a path of topic, broker and queue id."""
    assert str(MessageQueue("orders", "broker-a", 3)) == "orders/broker-a/3"


def test_a_group_has_a_retry_and_a_dead_letter_topic() -> None:
    """The retry topic and the dead-letter topic of a group have RocketMQ's names."""
    assert retry_topic("g") == "%RETRY%g"
    assert dead_letter_topic("g") == "%DLQ%g"


@given(addresses)
def test_an_address_reads_back_what_it_prints(address: Address) -> None:
    """The text of an address can be parsed back into an equal address, also for IPv6."""
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":9876",
        "host:0",
        "host:65536",
        "host:-1",
        "host:٣",
        "host:9 876",
        "http://host:9876",
        "[]:1",
        "a\nb:1",
        "\x1b[31mhost:1",
        "ho\u202est:1",
    ],
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    """If a text is not an address, the error names the option, shows the value, and gives an example."""
    with pytest.raises(OptionError) as caught:
        parse_address(text, "nameServer")

    assert caught.value.option == "nameServer"
    assert str(caught.value).endswith("give host:port, for example localhost:9876")


@given(st.lists(addresses, min_size=1, max_size=4), st.sampled_from([";", ",", " ; ", ";;"]))
def test_addresses_may_be_separated_in_both_ways(given_addresses: list[Address], separator: str) -> None:
    """A list of addresses may be separated by semicolons or commas; blanks are ignored."""
    text = separator.join(map(str, given_addresses))

    assert parse_addresses(text) == tuple(given_addresses)


@pytest.mark.parametrize("text", ["", "  ", ";", " , "])
def test_a_list_of_no_addresses_is_refused(text: str) -> None:
    """If a list holds no address, it is refused."""
    with pytest.raises(OptionError, match="no address"):
        parse_addresses(text, "nameServer")


def test_a_queue_is_shown_on_one_line() -> None:
    """Control characters in the names of a queue are shown as escapes, and long names are cut."""
    assert str(MessageQueue("t\n\x1b[31m", "b\u2028", 1)) == r"t\n\x1b[31m/b\u2028/1"
    long = str(MessageQueue("t" * 10_000, "b" * 10_000, 1))
    assert len(long) == 2 * 255 + 3 and long.endswith("/1")


def test_nouns_cross_process_boundaries() -> None:
    """Queues, ranges, addresses and the other shared classes are equal after pickling."""
    planned = QueueRange(MessageQueue("t", "b", 1), 2, 3)

    assert pickle.loads(pickle.dumps(planned)) == planned


def test_a_queue_is_found_by_its_name() -> None:
    """A text BROKER/ID names one of the queues; any other text raises an error that lists some of them."""
    queues = [MessageQueue("t", "a", number) for number in range(10)]

    assert find_queue(queues, "t", "a/3", option="--queue", kind="readable") == queues[3]
    match = r"--queue = 'b/3': topic t has no such readable queue; queues are: a/0, .*, a/7$"
    with pytest.raises(OptionError, match=match):
        find_queue(queues, "t", "b/3", option="--queue", kind="readable")
