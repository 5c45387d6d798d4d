"""Test that the memory of a Python worker is bounded, however many messages the topic has.

After each task a worker writes its peak memory, as the operating system reports it, to a file.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_stub import StubBroker
from pyspark_rocketmq.datasource import RocketMQDataSource
from tests.spark.queries import TOPIC, given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

MIB, BODY_BYTES = 2**20, 1024
LIMIT_MIB, GROWTH_MIB = 400, 32
"""The upper bound of a worker's memory, and of its growth with ten times as many messages, in MiB."""


def measured_source(peaks: Path) -> type[RocketMQDataSource]:
    """Return a data source whose Python workers write their peak memory into the folder `peaks`."""

    class MeasuredSource(RocketMQDataSource):
        @classmethod
        def name(cls) -> str:
            return "rocketmq-measured"

        def reader(self, schema: StructType) -> Any:
            base: Any = type(super().reader(schema))

            class MeasuredReader(base):  # type: ignore[misc]
                def read(self, partition: Any) -> Iterator[Any]:
                    yield from super().read(partition)
                    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                    peak_bytes = peak if sys.platform == "darwin" else peak * 1024
                    (peaks / str(os.getpid())).write_text(str(peak_bytes))

            return MeasuredReader(self._options(schema, stream=False))

    return MeasuredSource


def peak_mib(spark: SparkSession, stub: StubBroker, peaks: Path, count: int) -> float:
    """Read the whole topic; return the highest peak memory that any worker has written so far, in MiB."""
    reader = spark.read.format("rocketmq-measured").options(**given(stub, maxPartitions="2"))
    assert reader.load().selectExpr("sum(length(body)) AS bytes").collect() == [(count * BODY_BYTES,)]
    return max(int(path.read_text()) for path in peaks.iterdir()) / MIB


@pytest.mark.parametrize("gigabytes", [0.2, pytest.param(5.0, marks=pytest.mark.slow)])
def test_a_worker_needs_no_more_memory_for_a_larger_backlog(
    spark: SparkSession, tmp_path: Path, gigabytes: float
) -> None:
    """If a topic has ten times as many messages, a worker's peak memory grows by less than 32 MiB."""
    spark.dataSource.register(measured_source(tmp_path))
    count = int(gigabytes * 1e9) // BODY_BYTES
    with StubBroker({TOPIC: 8}) as stub:
        stub.fill(TOPIC, count // 10, BODY_BYTES)
        first = peak_mib(spark, stub, tmp_path, count // 10)
        stub.fill(TOPIC, count - count // 10, BODY_BYTES)
        last = peak_mib(spark, stub, tmp_path, count)
    print(f"\npeak of a worker: {first:.0f} MiB after {gigabytes / 10:g} GB, {last:.0f} MiB after {gigabytes:g} GB")
    assert last < LIMIT_MIB
    assert last - first < GROWTH_MIB
