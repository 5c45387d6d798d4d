"""Test that Spark runs with this Java, and that its workers run this Python."""

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
    """The Python workers of a session run the same Python as the tests."""

    def name_python(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.from_pydict({"python": [sys.executable] * len(batch)})

    rows = spark.range(4).mapInArrow(name_python, "python string").distinct().collect()

    assert [row.python for row in rows] == [sys.executable]
