"""Check that processes that plan or read import no more modules than they need."""

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


READING = """
import gc, sys
from pyspark_rocketmq.datasource import RocketMQDataSource

name_server, topic = sys.argv[1:]
source = RocketMQDataSource({"nameServer": name_server, "subscribe": topic})
reader = source.reader(source.schema())
rows = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
print(rows, len(gc.get_objects()) < gc.get_freeze_count() / 10, "pandas" in sys.modules)
"""


def test_planning_imports_nothing_that_only_reading_needs() -> None:
    """A planning process plans tasks even if the heavy modules that only reading needs cannot be imported."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.put(TOPIC, b"a", queue_id=1)
        command = [sys.executable, "-c", PLANNING, stub.name_server, TOPIC, *HEAVY]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("1", "")


def test_a_worker_imports_little_and_looks_at_it_once() -> None:
    """A process that reads imports no pandas, and excludes 90 % of its objects from later garbage collection."""
    with StubBroker({TOPIC: 1}) as stub:
        stub.fill(TOPIC, 10, 10)
        command = [sys.executable, "-c", READING, stub.name_server, TOPIC]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("10 True False", "")
