"""Test that the JSON of Java's fastjson is parsed with all kinds of keys, and written as Java can read it."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire import fastjson

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
QUEUES = st.builds(MessageQueue, st.text(), st.text(), st.integers(-1, 2**31 - 1))
PLAIN = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(PLAIN)
def test_plain_json_is_read_as_it_is(value: object) -> None:
    """Standard JSON gives the same value as Python's own parser."""
    assert fastjson.parse(json.dumps(value)) == value
    assert fastjson.parse(fastjson.write(value)) == value


@given(st.dictionaries(QUEUES, SCALARS))
def test_maps_keyed_by_a_queue_come_back(table: dict[MessageQueue, object]) -> None:
    """A map with queues as keys is equal after writing and parsing, whatever characters their names have."""
    parsed = fastjson.parse(fastjson.write({"offsetTable": table}))["offsetTable"]
    assert {fastjson.parse_queue(key): value for key, value in parsed.items()} == table


@given(st.dictionaries(st.integers(-(2**31), 2**31), st.text()), st.booleans())
def test_maps_keyed_by_a_number_come_back(table: dict[int, str], bare: bool) -> None:
    """A map with numbers as keys is parsed alike with and without quotes around the keys."""
    text = fastjson.write(table, bare_integer_keys=bare)
    assert fastjson.parse(text) == {str(key): value for key, value in table.items()}


def test_bare_numbers_stay_bare_on_request() -> None:
    """Integer keys are written without quotes if requested, as in cluster information, and else with quotes."""
    assert fastjson.write({"brokerAddrs": {0: "h:1"}}, bare_integer_keys=True) == b'{"brokerAddrs":{0:"h:1"}}'
    assert fastjson.write({"brokerAddrs": {0: "h:1"}}) == b'{"brokerAddrs":{"0":"h:1"}}'


def test_text_that_looks_like_keys_is_left_alone() -> None:
    """Text inside a string is unchanged, even if it looks like a key without quotes."""
    text = '{0:"{1:2,3:4}",7:",5:{\\"a\\":1}:",{"queueId":1}:"x"}'
    assert fastjson.parse(text) == {"0": "{1:2,3:4}", "7": ',5:{"a":1}:', '{"queueId":1}': "x"}


def test_files_of_the_broker_with_their_line_breaks_are_read() -> None:
    """Spaces and line breaks around keys without quotes are ignored."""
    assert fastjson.parse('{\n\t"offsetTable":{\n\t\t"T@g":{ 0 : 5,\n1:3\n}\n}}') == {
        "offsetTable": {"T@g": {"0": 5, "1": 3}}
    }


@pytest.mark.parametrize(
    ("path", "value"), [("$", None), ("$.a.b", 1), ("$.list[1]", 3), (r"$.\%RETRY\%g", 4), ('$["x.y"]', 5)]
)
def test_references_are_followed(path: str, value: object) -> None:
    """A reference is replaced by the object at its path."""
    first = {"a": {"b": 1}, "list": [2, 3], "%RETRY%g": 4, "x.y": 5}
    parsed = fastjson.parse(json.dumps({**first, "again": {"$ref": path}}))
    assert parsed["again"] == (value if value is not None else {**first, "again": {"$ref": "$"}})


@pytest.mark.parametrize("path", ["..", "@", "$.a.none", "$.a[0]", "$.list[9]", "$.list.b", "$x", ""])
def test_references_to_nothing_are_malformed(path: str) -> None:
    """A reference whose path leads to no value raises `MalformedFrame`."""
    with pytest.raises(MalformedFrame, match="reference"):
        fastjson.parse(json.dumps({"a": {}, "list": [], "again": {"$ref": path}}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a"}',
        b"{1:}",
        b"{{:1}",
        b"\xff",
        b'{"a":1}x',
        b"[" * 100_000,
        b"{0:" * 100_000,
        b'{"' * 9,
        b"9" * 5000,
    ],
)
def test_what_is_no_json_is_malformed(data: bytes) -> None:
    """Broken, incomplete and too deeply nested texts raise `MalformedFrame`."""
    with pytest.raises(MalformedFrame, match="unreadable JSON"):
        fastjson.parse(data)


@given(st.text(alphabet='{}[]",:0129-\\ a$ref\n') | st.binary().map(lambda data: data.decode("latin-1")))
def test_no_text_gives_a_foreign_error(text: str) -> None:
    """Any text is either parsed or raises `MalformedFrame`."""
    try:
        fastjson.parse(text)
    except MalformedFrame as error:
        assert error.what.startswith("unreadable JSON")


@pytest.mark.parametrize("piece", ['{"\\"', ',{"a":', '{"', "{0", "{{", '\\"', "{-"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    """A text of ten times the size takes far less than a hundred times as long to parse."""

    def seconds(count: int) -> float:
        start = time.perf_counter()
        with pytest.raises(MalformedFrame):
            fastjson.parse(piece * count)
        return time.perf_counter() - start

    assert seconds(200_000) < 40 * seconds(20_000) + 0.5


@pytest.mark.parametrize("text", ["{}", "7", '"x"', "[]", '{"topic":"T","brokerName":"b","queueId":"x"}'])
def test_a_key_that_is_no_queue_is_malformed(text: str) -> None:
    """An object without topic, broker name or queue id raises `MalformedFrame` when it is read as a queue."""
    with pytest.raises(MalformedFrame, match="not a queue"):
        fastjson.parse_queue(text)


def test_queues_with_long_names_are_forgotten() -> None:
    """Parsing 10,000 keys with long names keeps a limited number of them; keys of usual length stay known."""
    usual = '{"brokerName":"broker-a","queueId":1,"topic":"orders"}'
    first = fastjson.parse_queue(usual)
    assert fastjson.parse_queue(usual) is first
    tracemalloc.start()
    try:
        for number in range(10_000):
            fastjson.parse_queue(f'{{"brokerName":"b","queueId":{number},"topic":"{"🚀" * 950}"}}')
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 56 * 2**20
