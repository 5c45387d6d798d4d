"""Write record batches to a stub as a Spark task does, without Spark."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from broker_stub import StubCluster
from pyspark_rocketmq.options import parse_writer_options
from pyspark_rocketmq.options.writer_options import GivenBatch
from pyspark_rocketmq.sink.plan import WritePlan, freeze, make_plan
from pyspark_rocketmq.sink.report import WriteReport
from pyspark_rocketmq.sink.task import write_task
from pyspark_rocketmq.wire.record import Record

TOPIC = "orders"
BATCH = GivenBatch("0a1b", 7)

Frames = Any
"""A record batch, or an iterable of them."""


def frame(**columns: Any) -> pa.RecordBatch:
    """Return a record batch with these columns, whose types Arrow chooses; `body` defaults to the row's number."""
    count = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({"body": [b"%d" % row for row in range(count)], **columns})


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    """Return a record batch whose bodies are the numbers from `first` on."""
    return frame(body=[b"%d" % row for row in range(first, first + count)])


class Target:
    """A stub to write to, with a topic of four queues at each broker."""

    def __init__(self, stub: StubCluster) -> None:
        self.stub = stub

    def plan(self, options: Mapping[str, str] | None = None, *, columns: Collection[str] = ()) -> WritePlan:
        """Return the plan of a batch with these columns as tasks get it: made on the driver, and pickled."""
        given = {"nameServer": self.stub.name_server, "topic": TOPIC, **(options or {})}
        parsed = parse_writer_options({name: text for name, text in given.items() if text}, env={})
        plan: WritePlan = pickle.loads(pickle.dumps(freeze(make_plan(parsed, columns))))
        return plan

    def write(
        self,
        frames: Frames,
        options: Mapping[str, str] | None = None,
        *,
        batch: GivenBatch = BATCH,
        partition: int = 0,
        plan: WritePlan | None = None,
    ) -> WriteReport:
        """Write record batches as one task; an option with an empty text is left out."""
        batches = [frames] if isinstance(frames, pa.RecordBatch) else frames
        return write_task(batches, plan or self.plan(options), batch, partition)

    def records(self, topic: str = TOPIC) -> list[Record]:
        """Return all stored messages of a topic, queue by queue."""
        return self.stub.messages(topic)

    def bodies(self, topic: str = TOPIC) -> list[bytes]:
        """Return the bodies of all stored messages, sorted."""
        return sorted(record.body for record in self.records(topic))

    def ids(self, topic: str = TOPIC) -> dict[bytes, str]:
        """Return {body: message id} of the stored messages; a later message replaces an earlier one."""
        return {record.body: record.properties["UNIQ_KEY"] for record in self.records(topic)}


_PAIR = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "TIMESTAMP": TimestampType(),
    "TIMESTAMP_NTZ": TimestampNTZType(),
    "ARRAY<STRING>": ArrayType(StringType()),
    "MAP<STRING, STRING>": MapType(StringType(), StringType()),
    "MAP<STRING, INT>": MapType(StringType(), IntegerType()),
    "ARRAY<STRUCT<key: STRING, value: BINARY>>": ArrayType(_PAIR),
}


def schema_of(columns: str) -> StructType:
    """Return Spark's schema of columns such as `body STRING, flag INT`, without a session, which Spark's own needs."""
    pairs = re.findall(r"(\w+) ([A-Z_]+(?:<.*?>+)?)(?:, |$)", columns)
    return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


MakeTarget = Callable[..., Target]


@pytest.fixture
def make_target(make_stub: Callable[..., StubCluster]) -> MakeTarget:
    """Return a function that makes a stub to write to; it takes the number of brokers and options of the stub."""

    def make(brokers: int = 1, **options: Any) -> Target:
        return Target(make_stub(brokers, **{"topics": {TOPIC: 4}, **options}))

    return make


@pytest.fixture
def target(make_target: MakeTarget) -> Target:
    """Return a stub with one broker to write to."""
    return make_target()
