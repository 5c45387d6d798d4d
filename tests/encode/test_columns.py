"""Test which frames can be written, and which rows of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import Encoded, Encoder, EncodeSettings
from pyspark_rocketmq.errors import ColumnError
from pyspark_rocketmq.model import MessageQueue

BODY = pa.array([b"x"])


def queues_of(topic: str) -> Sequence[MessageQueue]:
    """Return one queue at each of two brokers."""
    return [MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-b", 1)]


def encode(columns: dict[str, Any], topic: str | None = "orders") -> Encoded:
    """Encode a frame of these columns."""
    encoder = Encoder(EncodeSettings(topic=topic, max_body_bytes=1000), BatchIdentity("q", "", 0), 0, queues_of)
    return encoder.encode(pa.RecordBatch.from_pydict(columns))


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        ({"body": BODY, "queueOffset": pa.array([1])}, "t", "no column 'queueOffset' can be written; drop or rename"),
        ({"body": BODY, "value": BODY}, "t", "columns body and value are the same; keep one"),
        ({"body": pa.array([1.5])}, "t", "column body has the type double; cast it to BINARY or STRING"),
        ({"body": BODY, "key": pa.array([[1]])}, "t", "cast it to STRING, BINARY or ARRAY<STRING>"),
        ({"body": BODY, "headers": pa.array([["a"]])}, "t", "cast it to MAP<STRING, STRING> or ARRAY<STRUCT<key"),
        ({"body": BODY, "headers": pa.array([[{"value": "a", "kex": "b"}]])}, "t", "cast it to MAP<STRING, STRING> or"),
        (
            {"body": BODY, "deliverTimeMs": pa.array([0], pa.timestamp("us"))},
            "t",
            "cast it to BIGINT (milliseconds) or",
        ),
        ({"body": BODY, "queueId": pa.array([1])}, "t", "column queueId has the type int64; cast it to INT"),
        ({"topic": pa.array(["t"])}, None, "the frame has no column body; name the column"),
        ({"body": BODY}, None, "no topic is given; set the option topic, or add a column topic"),
        ({"body": BODY, "brokerName": pa.array(["a"])}, "t", "a column brokerName without queueId; add queueId"),
    ],
)
def test_wrong_frames_are_refused(columns: dict[str, Any], topic: str | None, text: str) -> None:
    """The error says which column is wrong and what to do."""
    with pytest.raises(ColumnError) as caught:
        encode(columns, topic)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"body": pa.array([b"", b"x"])}, "the body is null or empty"),
        ({"body": [b"y" * 1001, b"x"]}, "longer than maxMessageSize, 1000 bytes"),
        ({"topic": ["no topic", "t"]}, "'no topic' is no topic's name"),
        ({"topic": ["%DLQ%g", "t"]}, "%DLQ%g belongs to a consumer group"),
        ({"topic": pa.array([None, "t"])}, "the topic is null"),
        ({"topic": pa.array([b"\xff", b"t"]).view(pa.string())}, "the text is no UTF-8"),
        ({"tags": ["a|b", ""]}, "holds `|`"),
        ({"keys": pa.array([b"\x80", None])}, "no UTF-8"),
        ({"shardingKey": ["a\x01", ""]}, "control character 1 or 2"),
        ({"properties": pa.array([[("TAGS", "x")], []], pa.map_(pa.string(), pa.string()))}, "RocketMQ's own"),
        ({"properties": pa.array([[("a", " ")], []], pa.map_(pa.string(), pa.string()))}, "is blank"),
        ({"properties": pa.array([[("a", "x" * 32800)], []], pa.map_(pa.string(), pa.string()))}, "longer than 32767"),
        ({"delayTimeLevel": pa.array([19, 0], pa.int32())}, "not in 0..18"),
        ({"deliverTimeMs": [-1, 0]}, "negative"),
        ({"queueId": pa.array([None, None], pa.int32()), "brokerName": ["broker-a", ""]}, "without a queueId"),
        ({"queueId": pa.array([0, None], pa.int32())}, "exists at several brokers (broker-a, broker-b); name one"),
        ({"queueId": pa.array([1, None], pa.int32()), "brokerName": ["broker-a", ""]}, "does not exist or is not"),
    ],
)
def test_bad_rows_are_named_and_the_others_are_sent(columns: dict[str, Any], text: str) -> None:
    """The fault says what is wrong with the first row; the second row is encoded."""
    topic = None if "topic" in columns else "orders"
    encoded = encode({"body": [b"x", b"x"], **columns}, topic)
    assert list(encoded.faults) == [0] and text in encoded.faults[0].what
    assert [list(request.rows) for request in encoded.requests] == [[1]]


def test_rows_are_numbered_over_all_record_batches() -> None:
    """The rows of a second record batch continue the numbers of the first, bad rows included."""
    encoder = Encoder(EncodeSettings(topic="t"), BatchIdentity("q", "", 0), 0, queues_of)
    encoder.encode(pa.RecordBatch.from_pydict({"body": [b"a", b""]}))
    encoded = encoder.encode(pa.RecordBatch.from_pydict({"body": [b"", b"b"]}))
    assert list(encoded.faults) == [2] and list(encoded.requests[0].rows) == [3]


def test_batches_keep_their_limits() -> None:
    """A batch message has at most the allowed rows and bytes; a row that is larger than that is sent alone."""
    settings = EncodeSettings(topic="t", batch_rows=10, batch_bytes=3000, compress_over_bytes=10**6)
    bodies = [b"x" * size for size in [10] * 25 + [1000] * 5 + [4000, 10]]
    requests = (
        Encoder(settings, BatchIdentity("q", "", 0), 0, queues_of)
        .encode(pa.RecordBatch.from_pydict({"body": bodies}))
        .requests
    )
    assert [len(request.rows) for request in requests] == [10, 10, 7, 2, 1, 1, 1]
    assert all(len(request.body) <= 3000 for request in requests if request.is_batch)
    assert [request.is_batch for request in requests] == [True] * 5 + [False, True]


def test_large_properties_keep_a_row_out_of_batches() -> None:
    """A row is sent alone if the properties that brokers append in a batch might exceed the limit."""
    names = pa.map_(pa.string(), pa.string())
    properties = pa.array([[("a", "x" * size)] for size in (31_000, 31_743, 32_000, 10)], names)
    requests = encode({"body": [b"x"] * 4, "properties": properties}).requests
    assert [(request.is_batch, list(request.rows)) for request in requests] == [
        (True, [0]),
        (False, [1]),
        (False, [2]),
        (True, [3]),
    ]


def test_a_delivery_time_may_lie_in_the_hour_that_occurs_twice() -> None:
    """Times are those of the moment, whatever the zone's clocks show."""
    times = pa.array([1_762_063_200_123_456], pa.timestamp("us", "America/New_York"))
    [request] = encode({"body": [b"x"], "deliverTimeMs": times}).requests
    assert "TIMER_DELIVER_MS\x011762063200123\x02" in request.properties
