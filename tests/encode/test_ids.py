"""Test the message ids of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_rocketmq.encode.ids import BatchIdentity, ids_by_content, ids_by_row_id
from pyspark_rocketmq.encode.requests import Encoder, EncodeSettings
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.batch import decode_batch
from pyspark_rocketmq.wire.message_id import decode_unique_id
from pyspark_rocketmq.wire.properties import decode_properties

IDENTITY = BatchIdentity("f00d", "sink", 3)


def ids_of(identity: BatchIdentity, partition: int, bodies: list[bytes], **columns: Any) -> list[str]:
    """Return the message ids of rows with these bodies, in their order."""
    queues = [MessageQueue("t", "a", number) for number in range(3)]
    encoder = Encoder(EncodeSettings(topic="t"), identity, partition, lambda _: queues)
    batch = pa.RecordBatch.from_pydict({"body": bodies, **columns})
    entries = [entry for request in encoder.encode(batch).requests for entry in decode_batch(request.body)]
    return [decode_properties(entry.properties_text)["UNIQ_KEY"] for entry in entries]


def test_a_replay_repeats_the_ids() -> None:
    """The same rows of the same batch get the same ids, however they are cut into record batches."""
    bodies = [b"%d" % number for number in range(100)]
    encoder = Encoder(EncodeSettings(topic="t"), IDENTITY, 0, lambda topic: [MessageQueue(topic, "a", 0)])
    cut = [encoder.encode(pa.RecordBatch.from_pydict({"body": bodies[at : at + 7]})) for at in range(0, 100, 7)]
    entries = [entry for part in cut for request in part.requests for entry in decode_batch(request.body)]
    ids = [decode_properties(entry.properties_text)["UNIQ_KEY"] for entry in entries]
    assert ids == ids_of(IDENTITY, 0, bodies) and len(set(ids)) == 100


def test_a_row_that_moved_takes_no_other_rows_id() -> None:
    """Rows that a replay gives other numbers get ids that no row had before."""
    bodies = [b"%d" % number for number in range(50)]
    assert not set(ids_of(IDENTITY, 0, bodies)) & set(ids_of(IDENTITY, 0, bodies[::-1]))


def test_rows_that_differ_in_anything_that_is_sent_have_different_ids() -> None:
    """Rows at the same place differ by properties, body, flag or queue, and none passes for another."""
    flags, numbers = pa.array([1], pa.int32()), pa.array([0], pa.int32())
    rows = [
        ids_of(IDENTITY, 0, [b"x"]),
        ids_of(IDENTITY, 0, [b"x"], tags=["x"]),
        ids_of(IDENTITY, 0, [b"x"], keys=["x"]),
        ids_of(IDENTITY, 0, [b"TAGS\x01x\x02x"]),
        ids_of(IDENTITY, 0, [b"x"], flag=flags),
        ids_of(IDENTITY, 0, [b"x"], queueId=numbers),
    ]
    assert len({text for row in rows for text in row}) == len(rows)


def test_a_flag_is_no_queue_number() -> None:
    """Rows with a flag, or a queue of the same number, have different ids."""
    numbers = pa.array([0, 1, 2], pa.int32())
    bodies = [b"x"] * 3
    assert not set(ids_of(IDENTITY, 0, bodies, flag=numbers)) & set(ids_of(IDENTITY, 0, bodies, queueId=numbers))


def test_equal_rows_of_one_batch_have_different_ids() -> None:
    """Rows with the same content differ by their number."""
    assert len(set(ids_of(IDENTITY, 0, [b"same"] * 1000))) == 1000


def test_everything_that_names_a_batch_counts() -> None:
    """Another query, sink, batch or partition gives other ids; names cannot be shifted into each other."""
    others = [
        (IDENTITY, 1),
        (IDENTITY._replace(query_id="f00e"), 0),
        (IDENTITY._replace(sink_name="other"), 0),
        (IDENTITY._replace(batch_id=4), 0),
        (BatchIdentity("f00ds", "ink", 3), 0),
    ]
    ids = [ids_of(identity, partition, [b"body"])[0] for identity, partition in [(IDENTITY, 0), *others]]
    assert len(set(ids)) == len(ids)


def test_own_ids_make_the_place_irrelevant() -> None:
    """A row with a `rowId` has the same id in another partition and at another place; an empty one does not count."""
    first = ids_of(IDENTITY, 0, [b"x", b"y", b"z"], rowId=["1", "2", ""])
    again = ids_of(IDENTITY, 5, [b"y", b"changed", b"z"], rowId=["2", "1", ""])
    assert first[:2] == again[1::-1] and first[2] != again[2]


def test_tools_can_read_the_time_of_an_id() -> None:
    """Bytes 10 to 13 are zero, the first millisecond of a month for tools."""
    now_ms = 1_763_600_000_000
    ids = ids_by_content(IDENTITY, 0, np.arange(100), np.arange(100).astype(np.uint64)).to_pylist()
    ids += ids_by_row_id(IDENTITY, pa.array([b"a", b"b"], pa.large_binary())).to_pylist()
    for text in ids:
        assert len(text) == 32 and text[20:28] == b"00000000" and text == text.upper()
        assert (now_ms - decode_unique_id(text.decode(), now_ms).born_ms) < 31 * 86_400_000


def test_ids_do_not_change_between_releases() -> None:
    """A batch that was sent before an update of this package is replayed with the same ids."""
    assert ids_of(IDENTITY, 0, [b"body"]) == ["978DBD4525A9EE5322E0000000006788"]
    assert ids_of(IDENTITY, 0, [b"body"], rowId=["1"]) == ["424D31B24BF393E3EE1100000000F94C"]
    numbers = pa.array([1], pa.int32())
    assert ids_of(IDENTITY, 0, [b"body"], flag=numbers) == ["24FD14609E6F061D4BDB00000000A954"]
    assert ids_of(IDENTITY, 0, [b"body"], queueId=numbers) == ["9832DD3EB6D1442DDD8A00000000DBFC"]
    placed = ids_of(IDENTITY, 0, [b"body"], queueId=numbers, brokerName=["a"], tags=["t"])
    assert placed == ["4EEF369862D1CCED468E000000001460"]
