"""Test Spark Connect, where the package is installed on the server and the client sends only names and options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker_stub import StubBroker
from tests.spark.connect_client import GROUP
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.queries import TOPIC, ends

pytestmark = pytest.mark.spark


def test_batch_and_stream_work_over_connect(tmp_path: Path) -> None:
    """Over Spark Connect a batch and a stream read all messages.

    The client runs in a process of its own, because one process cannot have a classic session and a client.
    """
    with StubBroker({TOPIC: 4}) as stub:
        for body in "abcdef":
            stub.put(TOPIC, body.encode())
        command = [sys.executable, "-m", "tests.spark.connect_client", stub.name_server, str(tmp_path)]
        environment = {**os.environ, **spark_environment()}
        ended = subprocess.run(command, cwd=ROOT, env=environment, timeout=240, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr[-4000:]
        assert json.loads(ended.stdout.splitlines()[-1]) == [list("abcdef"), list("abcdef")]
        assert stub.offsets(GROUP) == ends(stub)
