"""Run the stub's command in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark_rocketmq.wire.commands import GetRouteInfoRequestHeader

from .remoting_client import RemotingClient

ROOT = Path(__file__).parents[2]
READY = re.compile(r"nameServer=(127\.0\.0\.1:\d+) endpoints=(\S+)\n")


class Running(NamedTuple):
    """A running command."""

    name_server: str
    endpoints: str
    process: subprocess.Popen[str]


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """Run the stub's command, and yield it when it is ready; the process is killed at the end."""
    command = [sys.executable, "-m", "broker_stub", "--port", "0", "--grpc-port", "0", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            ready = READY.fullmatch(process.stdout.readline())
            assert ready
            yield Running(ready[1], ready[2], process)
        finally:
            process.kill()


def broker_of(name_server: str, topic: str) -> str:
    """Return the address of a topic's only broker, as its route gives it."""
    with RemotingClient(name_server) as client:
        route = json.loads(bytes(client.ask(GetRouteInfoRequestHeader(topic=topic)).body))
    address: str = route["brokerDatas"][0]["brokerAddrs"]["0"]
    return address
