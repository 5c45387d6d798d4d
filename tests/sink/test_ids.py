"""A repeated row has the message id of its first copy, and no two different rows share one."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest

from pyspark_rocketmq.options.writer_options import GivenBatch
from tests.sink.fixtures import BATCH, Target, frame, rows


def test_a_replay_repeats_the_ids(target: Target) -> None:
    """If a batch is written again as it was, each row has the id that it had, however Spark cuts record batches."""
    target.write(rows(300))
    first = target.ids()
    target.write([rows(100), rows(200, 100)])
    assert target.ids() == first and len(set(first.values())) == 300
    assert len(target.records()) == 600


@pytest.mark.parametrize(
    "other",
    [
        {"batch": GivenBatch("other", BATCH.batch_id)},
        {"batch": GivenBatch(BATCH.query_id, 8)},
        {"partition": 1},
        {"options": {"sinkName": "audit"}},
    ],
)
def test_equal_rows_of_other_places_have_other_ids(target: Target, other: dict[str, object]) -> None:
    """Another query, batch, partition or sink gives equal rows other ids."""
    target.write(rows(50))
    target.write(rows(50), **other)  # type: ignore[arg-type]
    assert len({record.properties["UNIQ_KEY"] for record in target.records()}) == 100


def test_a_row_that_moved_never_takes_the_id_of_another(target: Target) -> None:
    """If a replay has other rows at the same places, none of them takes an id that a different row has."""
    target.write(rows(100))
    target.write(rows(100, 1))
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for record in target.records():
        bodies[record.properties["UNIQ_KEY"]].add(record.body)
    assert [shared for shared in bodies.values() if len(shared) > 1] == []


def test_a_row_id_follows_its_row(target: Target) -> None:
    """With `rowId` a row keeps its id in another order and in another partition."""
    bodies, names = [b"%d" % row for row in range(20)], [f"row-{row}" for row in range(20)]
    target.write(frame(body=bodies, rowId=names))
    first = target.ids()
    target.write(frame(body=bodies[::-1], rowId=names[::-1]), partition=5)
    assert target.ids() == first


def test_single_and_batch_sends_give_the_same_ids(target: Target) -> None:
    """The size of batch messages does not change ids."""
    target.write(rows(50))
    first = target.ids()
    target.write(rows(50), {"sendBatchSize": "1"})
    assert target.ids() == first


def test_an_id_has_32_digits_and_no_time(target: Target) -> None:
    """Bytes 10 to 13 of an id are zero: tools read them as milliseconds since the start of the month."""
    target.write(rows(50))
    for unique in target.ids().values():
        assert len(unique) == 32 and unique == unique.upper() and int(unique, 16)
        assert unique[20:28] == "00000000"


def test_a_delayed_row_has_its_id(target: Target) -> None:
    """Rows that are sent singly, such as delayed ones, have ids of the same kind."""
    batch = frame(delayTimeLevel=pa.array([None, 1, 2], pa.int32()))
    target.write(batch)
    first = target.ids()
    target.write(batch)
    assert target.ids() == first
