"""Test that arrays encode rows as the readable encoder does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.encode.columns import COLUMNS
from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import Encoder, EncodeSettings
from pyspark_rocketmq.model import MessageQueue, SendRequest
from tests.encode.readable import encode_readably

IDENTITY = BatchIdentity("b5c1", "orders", 7)
SETTINGS = EncodeSettings(topic="orders", batch_rows=3, batch_bytes=400, max_body_bytes=900, compress_over_bytes=100)


def queues_of(topic: str) -> Sequence[MessageQueue]:
    """Return two queues at one broker for topics with an `a`; else three queues at two brokers."""
    names = ("broker-a", "broker-a") if "a" in topic else ("broker-a", "broker-a", "broker-b")
    return [MessageQueue(topic, name, names[:place].count(name)) for place, name in enumerate(names)]


# --- frames ----------------------------------------------------------------------------------------------------------

TEXT = st.text(st.sampled_from("aZ9 |é\x01\u20ac\U0001f600"), max_size=6)
NAME = st.one_of(TEXT, st.sampled_from(["colour", "TAGS", "UNIQ_KEY", "__RMQ.TRANSIENT.x", "  "]))
STRUCTS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TURNED_STRUCTS = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))
BODY = st.one_of(st.binary(max_size=30), st.integers(80, 1000).map(lambda size: b"x" * size))
OCTETS = st.one_of(TEXT.map(str.encode), st.binary(max_size=4))

MAPS = st.dictionaries(NAME, st.none() | TEXT, max_size=3).map(lambda properties: list(properties.items()))
PAIRS = st.fixed_dictionaries({"key": NAME, "value": st.none() | OCTETS})
TIMES = st.datetimes(datetime(1969, 12, 31), datetime(2090, 1, 1), timezones=st.just(UTC))

CELLS: dict[str, list[tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "body": [(pa.binary(), BODY), (pa.large_string(), TEXT)],
    "topic": [(pa.string(), st.sampled_from(["orders", "alpha", "b", "%RETRY%g", "no topic", ""]))],
    "tags": [(pa.string(), TEXT)],
    "keys": [
        (pa.string(), TEXT),
        (pa.binary(), OCTETS),
        (pa.list_(pa.string()), st.lists(st.none() | TEXT, max_size=3)),
    ],
    "properties": [
        (pa.map_(pa.string(), pa.string()), MAPS),
        (STRUCTS, st.lists(PAIRS, max_size=2, unique_by=lambda pair: pair["key"])),
        (TURNED_STRUCTS, st.lists(PAIRS, max_size=2, unique_by=lambda pair: pair["key"])),
    ],
    "shardingKey": [(pa.string(), TEXT)],
    "queueId": [(pa.int32(), st.integers(-2, 3))],
    "delayTimeLevel": [(pa.int32(), st.integers(-1, 19))],
    "deliverTimeMs": [(pa.int64(), st.integers(-1, 3)), (pa.timestamp("us", "America/New_York"), TIMES)],
    "flag": [(pa.int32(), st.integers(-(2**31), 2**31 - 1))],
    "rowId": [(pa.string(), TEXT)],
}
"""The types of each column, with the cells that a test draws."""


@st.composite
def frames(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw a record batch of some columns, perhaps a slice of a larger one."""
    count, columns = draw(st.integers(0, 12)), {}
    names = draw(st.sets(st.sampled_from(sorted(CELLS)))) | {"body"}
    for name in sorted(names):
        kind, cell = draw(st.sampled_from(CELLS[name]))
        values = draw(st.lists(st.none() | cell, min_size=count, max_size=count))
        columns[draw(st.sampled_from([name, COLUMNS[name].alias or name]))] = pa.array(values, kind)
    if "queueId" in names and draw(st.booleans()):
        brokers = st.sampled_from([None, "", "broker-a", "broker-b", "other"])
        columns["brokerName"] = pa.array(draw(st.lists(brokers, min_size=count, max_size=count)), pa.string())
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.slice(draw(st.integers(0, 2)))


def plain(request: SendRequest) -> SendRequest:
    """Return a request whose fields can be compared."""
    return request._replace(body=bytes(request.body), rows=list(request.rows))


@given(frames(), st.integers(1, 4), st.booleans(), st.booleans())
def test_arrays_encode_as_the_readable_encoder_does(
    batch: pa.RecordBatch, batch_rows: int, key_is_sharding_key: bool, places_by_key: bool
) -> None:
    """Requests, their order, the rows in them, and the faults are the same."""
    topic = None if "topic" in batch.schema.names else "orders"
    settings = replace(
        SETTINGS,
        topic=topic,
        batch_rows=batch_rows,
        key_is_sharding_key=key_is_sharding_key,
        places_by_key=places_by_key,
    )
    encoded = Encoder(settings, IDENTITY, 5, queues_of).encode(batch)
    requests, faults = encode_readably(batch, settings, IDENTITY, 5, queues_of)
    assert {row: fault.column for row, fault in encoded.faults.items()} == faults
    assert list(map(plain, encoded.requests)) == list(map(plain, requests))
