"""Test Spark Connect, where the package is installed on the server and the client sends only names and options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker_stub import StubBroker
from tests.page_blocks import read_blocks
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.queries import TOPIC, ends

pytestmark = pytest.mark.spark

GROUP = "over-connect"
REGISTERED = """
from pyspark_rocketmq import register

register(spark)
print(spark.read.format("rocketmq").options(**options).load().count(), "orders, with the format registered")
spark.stop()
"""


def test_batch_and_stream_work_over_connect(tmp_path: Path) -> None:
    """By the program of the page a batch and a stream read all messages; the client may register the format, too.

    The client runs in a process of its own, because one process cannot have a classic session and a client.
    """
    [program] = read_blocks("docs/deploy/connect.md", __file__)
    with StubBroker({TOPIC: 4}) as stub:
        for body in "abcdef":
            stub.put(TOPIC, body.encode())
        places = {"sc://spark-connect:15002": "local[2]", "localhost:9876": stub.name_server, "/data/": f"{tmp_path}/"}
        for example, given in places.items():
            assert example in program
            program = program.replace(example, given)
        command, environment = [sys.executable, "-c", program + REGISTERED], {**os.environ, **spark_environment()}
        ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=240, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr[-4000:]
        assert ended.stdout.splitlines()[-2:] == ["6 orders", "6 orders, with the format registered"]
        assert stub.offsets(GROUP) == ends(stub)
    assert sorted(read_bodies(tmp_path / "orders")) == list("abcdef")


def read_bodies(table: Path) -> list[str]:
    """Return the bodies in a Parquet table as texts."""
    import pyarrow.dataset as ds

    files = sorted(table.glob("*.parquet"))
    return [body.decode() for body in ds.dataset(files).to_table(columns=["body"]).column("body").to_pylist()]
