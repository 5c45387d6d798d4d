"""Test hostile numbers at every place of the JSON that servers send, files hold and users type.

Each reader returns a value with ordinary numbers, or raises an error of this library. Python's parser makes `1e999`
infinite, accepts NaN, and raises a plain `ValueError` for an integer of more than 4,300 digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.client.stores import LocalStore
from pyspark_rocketmq.errors import MOST_TEXT, MalformedFrame, OptionError, RocketMQError
from pyspark_rocketmq.offsets.position import parse_position
from pyspark_rocketmq.options.queue_json import read_assignment, read_offsets, read_queue_lists, read_times
from pyspark_rocketmq.options.values import OptionText
from pyspark_rocketmq.wire import bodies
from pyspark_rocketmq.wire.bodies import Body, decode_body
from pyspark_rocketmq.wire.commands import GetMaxOffsetRequestHeader, OffsetResponseHeader, from_fields
from pyspark_rocketmq.wire.header import decode_command
from tests.wire.frames import join_frame

Reader = Callable[[str], object]
QUEUE = '{"brokerName":"b","queueId":1,"topic":"T"}'


def body(cls: type[Body]) -> Reader:
    """Return a reader of JSON bodies of one class."""
    return lambda text: decode_body(cls, text)


def option(read: Callable[[OptionText], object]) -> Reader:
    """Return a reader of the text of an option."""
    return lambda text: read(OptionText("assign", text, 0))


def header(text: str) -> object:
    """Decode a frame with this JSON header, and its header fields as those of a request and of a response."""
    command = decode_command(memoryview(join_frame(0, text.encode(), b"")))
    request = from_fields(GetMaxOffsetRequestHeader, command.fields)
    return [command.code, command.opaque, command.flag, request, from_fields(OffsetResponseHeader, command.fields)]


def offset_file(text: str) -> object:
    """Return the positions of a local file of positions; raise `MalformedFrame` if the store calls it damaged."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "offsets.json")
        path.write_text(text, encoding="utf-8")
        store = LocalStore(path)
        store.load()
        if store.is_damaged:
            raise MalformedFrame("the file is damaged", address=str(path))
        return dict(store.progress.snapshot())


READERS: dict[str, tuple[Reader, str]] = {
    "header": (
        header,
        '{"code":0,"opaque":7,"flag":1,"version":479,"extFields":{"topic":"T","queueId":3,"offset":5}}',
    ),
    "route": (
        body(bodies.TopicRouteData),
        '{"queueDatas":[{"brokerName":"b","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicSysFlag":0}],'
        '"brokerDatas":[{"brokerName":"b","brokerAddrs":{0:"h:1"}}]}',
    ),
    "topic statistics": (
        body(bodies.TopicStatsTable),
        f'{{"offsetTable":{{{QUEUE}:{{"minOffset":0,"maxOffset":9,"lastUpdateTimestamp":7}}}},"topicPutTps":1.5}}',
    ),
    "group statistics": (
        body(bodies.ConsumeStats),
        f'{{"offsetTable":{{{QUEUE}:{{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":7}}}},"consumeTps":2.5}}',
    ),
    "locks": (body(bodies.LockBatchResponseBody), f'{{"lockOKMQSet":[{QUEUE}]}}'),
    "reset": (body(bodies.ResetOffsetBody), f'{{"offsetTable":{{{QUEUE}:8}}}}'),
    "running member": (
        body(bodies.ConsumerRunningInfo),
        f'{{"mqTable":{{{QUEUE}:{{"commitOffset":1}}}},"statusTable":{{"T":{{"pullRT":1.5,"consumeFailedMsgs":2}}}}}}',
    ),
    "time spans": (
        body(bodies.QueryConsumeTimeSpanBody),
        f'{{"consumeTimeSpanSet":[{{"messageQueue":{QUEUE},"minTimeStamp":5,"delayTime":6}}]}}',
    ),
    "file of positions": (offset_file, f'{{"offsetTable":{{{QUEUE}:8}}}}'),
    "checkpoint": (parse_position, '{"next":{"T":{"b":{"1":8}}},"open":{"T":{"b":{"1":8}}},"version":2}'),
    "offsets of an option": (option(read_offsets), '{"T":{"b":{"1":8}}}'),
    "times of an option": (option(read_times), '{"T":{"b":{"1":8}}}'),
    "queues of an option": (option(read_assignment), '{"T":{"b":[1]}}'),
    "queue lists of an option": (option(read_queue_lists), '[{"T":{"b":[1]}}]'),
}
HOSTILE = [
    *("1e999", "-1e999", "NaN", "Infinity", "-Infinity", "9" * 4301, "-" + "9" * 5000, "1" + "0" * 400, "1e400"),
    *(str(2**63), str(-(2**63) - 1), str(2**31), "-1", "1.5", "-0.0", "1E5", "true", "null", "[]", "{}", '"7"', '""'),
]
_NUMBER = re.compile(r"(?<![\w.%-])-?\d+(?:\.\d+)?")
every_reader = pytest.mark.parametrize(("read", "healthy"), READERS.values(), ids=READERS)


def replaced(healthy: str, place: int, number: str) -> str:
    """Return the text with the number at one of its places replaced; places are counted round and round."""
    found = list(_NUMBER.finditer(healthy))
    start, end = found[place % len(found)].span()
    return healthy[:start] + number + healthy[end:]


def numbers_in(value: Any) -> Iterator[float]:
    """Yield every number in a value: in its members, items, keys and values."""
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, Mapping):
        yield from numbers_in([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from numbers_in(item)
    elif is_dataclass(value):
        yield from numbers_in([getattr(value, each.name) for each in fields(value)])


def check(read: Reader, text: str) -> None:
    """Read a text, and fail unless that returns ordinary numbers or raises a short error of this library."""
    try:
        value = read(text)
    except RocketMQError as error:
        assert isinstance(error, MalformedFrame | OptionError) and len(str(error)) < MOST_TEXT + 500
        assert isinstance(error, MalformedFrame) or "set_int_max_str_digits" not in str(error)
    else:
        numbers = list(numbers_in(value))
        assert all(map(math.isfinite, numbers)), numbers
        assert all(abs(number) <= 2**63 for number in numbers if isinstance(number, int)), numbers


@every_reader
def test_the_sample_itself_is_read(read: Reader, healthy: str) -> None:
    """The text into which hostile numbers are put is legal."""
    assert read(healthy) is not None


@every_reader
@pytest.mark.parametrize("number", HOSTILE, ids=lambda number: number[:12])
def test_a_hostile_number_ends_well_at_every_place(read: Reader, healthy: str, number: str) -> None:
    """At each place of the JSON, the number is refused by an error of this library, or is an ordinary one."""
    for place in range(len(_NUMBER.findall(healthy))):
        check(read, replaced(healthy, place, number))


@every_reader
@given(st.integers(0, 20), st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?", fullmatch=True))
def test_any_number_ends_well(read: Reader, healthy: str, place: int, number: str) -> None:
    """The same holds for numbers of any spelling, also for those with leading zeros and large exponents."""
    check(read, replaced(healthy, place, number))


@pytest.mark.parametrize("number", ["1e999", "9" * 5000, str(2**31), "1.0", "true", '"1"'])
def test_a_queue_id_is_an_integer_of_32_bits(number: str) -> None:
    """If the queue id in a key of statistics is any other value, the error says that it is no queue."""
    text = READERS["topic statistics"][1].replace('"queueId":1', f'"queueId":{number}')
    with pytest.raises(MalformedFrame, match=r"^\[MALFORMED_FRAME\] unreadable TopicStatsTable: "):
        decode_body(bodies.TopicStatsTable, text)
