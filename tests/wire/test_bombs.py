"""Test that small responses which would take enormous memory raise an error of this library, at a bounded cost."""

from __future__ import annotations

import json

import pytest

from pyspark_rocketmq.errors import LimitExceeded, MalformedFrame
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import TopicRouteData, TopicStatsTable, decode_body
from pyspark_rocketmq.wire.header import MOST_HEADER_BYTES, Command, decode_command, encode_command
from tests.peak import MOST_MIB, run_apart

from .frames import join_frame

FULL_FRAME = {
    "lists": '"[],", 3',
    "maps": """'{"a":0},', 8""",
    "texts": """'"",', 3""",
    "queues": """'{"brokerName":"b","readQueueNums":8,"writeQueueNums":8,"perm":6},', 66""",
    "quotes": """'""', 2""",
    "bare keys": '"{1:", 3',
    "deep lists": '"[", 1',
}


@pytest.mark.parametrize("piece", FULL_FRAME.values(), ids=FULL_FRAME)
@pytest.mark.parametrize("share", [1.0, 0.05])
def test_json_takes_little_memory_whatever_its_shape(piece: str, share: float) -> None:
    """JSON of 16 MiB is refused, and parsing it or smaller JSON takes little memory, whatever values it consists of."""
    said, peak = run_apart(
        f"""
from pyspark_rocketmq.wire import fastjson
piece, size = {piece}
text = piece * int({share} * 2**24 / size)
fastjson.parse("[" + text + "0]")
"""
    )

    assert peak < MOST_MIB
    assert share < 1 or "[LIMIT_EXCEEDED]" in said


def test_references_that_multiply_are_refused() -> None:
    """Two thousand references to a large map are refused, because they would become two thousand large maps."""
    said, peak = run_apart(
        """
from pyspark_rocketmq.wire.bodies import SubscriptionGroupWrapper, decode_body
large = ",".join(f'"{number}":{number}' for number in range(90_000))
again = ",".join(f'"topic{number}@g":{{"$ref":"$.forbiddenTable.first"}}' for number in range(2000))
text = '{"forbiddenTable":{"first":{' + large + "}," + again + "}}"
decode_body(SubscriptionGroupWrapper, text)
"""
    )

    assert peak < MOST_MIB
    assert "[LIMIT_EXCEEDED] SubscriptionGroupWrapper: JSON with references" in said and "$.forbiddenTable" in said


def test_references_to_small_things_are_many() -> None:
    """50,000 references to queues, as brokers write them, are resolved."""
    queue = {"topic": "T", "brokerName": "b", "queueId": 1}
    text = json.dumps({"first": queue, "again": [{"$ref": "$.first"}] * 50_000})

    assert fastjson.parse(text)["again"] == [queue] * 50_000


def test_statistics_of_very_many_queues_are_read() -> None:
    """Statistics of 50,000 queues are decoded; they are within the limits."""
    table = {
        f'{{"brokerName":"broker-a","queueId":{number},"topic":"orders"}}': {"minOffset": 0, "maxOffset": number}
        for number in range(50_000)
    }
    text = '{"offsetTable":{' + ",".join(f"{key}:{json.dumps(value)}" for key, value in table.items()) + "}}"

    assert len(decode_body(TopicStatsTable, text).offset_table) == 50_000


@pytest.mark.parametrize("value", ["[" * 400 + "]" * 400, "9" * 5000, "1e999", "[" * 100_000])
def test_odd_values_are_malformed_and_shown_in_short(value: str) -> None:
    """A nested, long or infinite value in place of a number raises `MalformedFrame` with a short text."""
    with pytest.raises(MalformedFrame, match="unreadable TopicRouteData") as caught:
        decode_body(TopicRouteData, f'{{"queueDatas":[{{"brokerName":"b","readQueueNums":{value}}}]}}')
    assert len(str(caught.value)) < 500


def test_a_header_beyond_all_measure_is_refused() -> None:
    """A header above the limit is refused, because its decoded fields would take many times its size."""
    fields = {f"name{number}": "value" for number in range(60_000)}
    frame = encode_command(Command(0, 7, fields))

    with pytest.raises(LimitExceeded, match=rf"a header of \d+ bytes, the limit is {MOST_HEADER_BYTES}"):
        decode_command(memoryview(frame))


def test_deep_header_fields_are_malformed() -> None:
    """A deeply nested header field raises no error but `MalformedFrame`, with a short text."""
    for depth in (500, 5000, 100_000):
        header = b'{"code":0,"opaque":1,"extFields":{"x":' + b"[" * depth + b"]" * depth + b"}}"
        try:
            decode_command(memoryview(join_frame(0, header, b"")))
        except MalformedFrame as error:
            assert len(str(error)) < 500
