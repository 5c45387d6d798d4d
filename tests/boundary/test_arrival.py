"""A worker without the package says so; one with it gets what was sent."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyspark.cloudpickle
import pytest

from pyspark_rocketmq.datasource import RocketMQDataSource
from tests.boundary.test_calls import BODY, GIVEN

CLOUDPICKLE: Any = pyspark.cloudpickle  # It has no types.
OPEN = "import pickle, sys; {}; print(pickle.loads(sys.stdin.buffer.read()))"


def source() -> RocketMQDataSource:
    """Return the data source."""
    return RocketMQDataSource(GIVEN)


SENT: list[Callable[[], Any]] = [source, lambda: source().reader(BODY), lambda: source().streamReader(BODY)]


@pytest.mark.usefixtures("spark_process")
@pytest.mark.parametrize("make", SENT, ids=["source", "reader", "stream"])
def test_a_worker_without_the_package_says_so(make: Callable[[], object]) -> None:
    """Where the package cannot be imported, the error names Python, host and package, and what to do."""
    sent = CLOUDPICKLE.dumps(make())
    command = [sys.executable, "-c", OPEN.format("sys.modules['pyspark_rocketmq'] = None")]

    done = subprocess.run(command, input=sent, capture_output=True, timeout=60, check=False)

    first, *_, last = done.stderr.decode().splitlines()
    assert last == f"RuntimeError: {first}"
    assert first.startswith(f"[SPARK_SETUP] {sys.executable} (Python {sys.version.split()[0]}) on host ")
    assert " lacks pyspark_rocketmq, which" in first and "pip install pyspark-rocketmq" in first


@pytest.mark.usefixtures("spark_process")
def test_a_worker_with_another_release_is_not_told_that_it_has_none() -> None:
    """If only a module of the package is missing, the error says that the releases differ."""
    code = OPEN.format("sys.modules['pyspark_rocketmq.datasource'] = None")

    done = subprocess.run(
        [sys.executable, "-c", code], input=CLOUDPICKLE.dumps(source()), capture_output=True, timeout=60, check=False
    )

    first = done.stderr.decode().splitlines()[0]
    assert " has another release of pyspark_rocketmq, without pyspark_rocketmq.datasource;" in first
    assert "install the driver's release on that host" in first


@pytest.mark.usefixtures("spark_process")
def test_a_worker_with_the_package_gets_what_was_sent() -> None:
    """Source and readers arrive with their options, sent once or passed on."""
    for make in SENT:
        sent = make()
        copy = CLOUDPICKLE.loads(CLOUDPICKLE.dumps(CLOUDPICKLE.loads(CLOUDPICKLE.dumps(sent))))
        assert type(copy) is type(sent) and copy.options == sent.options


def test_outside_of_spark_objects_are_pickled_as_usual() -> None:
    """A test that pickles a reader needs no pickler of Spark."""
    assert pickle.loads(pickle.dumps(source())).options == GIVEN
