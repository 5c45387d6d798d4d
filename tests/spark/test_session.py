"""Test that Spark runs here, with this Java, and with this Python in its workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_workers_run_the_python_of_the_tests(spark: SparkSession) -> None:
    """A worker runs the Python that finds the packages under test."""

    def name_python(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.from_pydict({"python": [sys.executable] * len(batch)})

    rows = spark.range(4).mapInArrow(name_python, "python string").distinct().collect()

    assert [row.python for row in rows] == [sys.executable]
