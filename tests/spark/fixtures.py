"""Provide one Spark session to all tests.

Its processes import the packages from this checkout, and its Python workers run the same Python as the tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
LOGGING = ROOT / "conf" / "log4j2.properties"
LOG_OPTION = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"


def spark_environment() -> dict[str, str]:
    """Return the environment variables of a Spark driver: Python, and the path of the packages under test."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": path}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two task slots and no web page, which logs warnings and errors only."""
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.extraJavaOptions", LOG_OPTION)
        .getOrCreate()
    )
    yield session
    session.stop()
