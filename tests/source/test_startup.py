"""What a process that plans has to import."""

from __future__ import annotations

import subprocess
import sys

from broker_stub import StubBroker
from tests.source.driving import TOPIC

HEAVY = ("pyarrow", "numpy", "grpc", "google.protobuf", "asyncio")

PLANNING = """
import json, sys
import pyspark.sql.datasource

name_server, topic, *heavy = sys.argv[1:]
for name in heavy:  # Spark itself has imported some of them; whoever asks from here on fails.
    sys.modules[name] = None

from pyspark_rocketmq.datasource import RocketMQDataSource

source = RocketMQDataSource({"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest"})
reader = source.streamReader(source.schema())
start = reader.initialOffset()
end = reader.latestOffset(start, reader.getDefaultReadLimit())
print(len(reader.partitions(start, json.loads(json.dumps(end)))))
reader.stop()
"""


def test_planning_imports_nothing_that_only_reading_needs() -> None:
    """From options to tasks, in a process of its own as Spark has it."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.put(TOPIC, b"a", queue_id=1)
        command = [sys.executable, "-c", PLANNING, stub.name_server, TOPIC, *HEAVY]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("1", "")
