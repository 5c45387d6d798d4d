"""A task's memory does not grow with the data that it writes."""

from __future__ import annotations

from collections.abc import Callable

from broker_stub import StubCluster
from tests.peak import run_apart
from tests.sink.fixtures import TOPIC

PROGRAM = """
import pyarrow as pa
from pyspark_rocketmq.options import parse_writer_options
from pyspark_rocketmq.options.writer_options import GivenBatch
from pyspark_rocketmq.sink.plan import WritePlan, freeze
from pyspark_rocketmq.sink.task import write_task
options = parse_writer_options({{"nameServer": "{name_server}", "topic": "{topic}"}}, env={{}})
bodies = [bytes([number]) * 2**16 for number in range(32)]
batches = (pa.RecordBatch.from_pydict({{"body": bodies}}) for _ in range({mib} // 2))
print(write_task(batches, freeze(WritePlan(options)), GivenBatch("q", 0), 0).rows)
"""
MOST_GROWTH_MIB = 40
"""The most by which a process may grow after 120 MiB; then nearly all that waits or is in flight has its room."""


def test_the_peak_does_not_grow(make_stub: Callable[..., StubCluster]) -> None:
    """The peak of a process that writes 240 MiB is little above that of one that writes 120 MiB."""
    peaks = []
    for mib in (120, 240):
        stub = make_stub(topics={TOPIC: 4})
        printed, peak = run_apart(PROGRAM.format(name_server=stub.name_server, topic=TOPIC, mib=mib))
        assert printed == str(mib * 16)
        peaks.append(peak)
        stub.close()
    assert peaks[1] < peaks[0] + MOST_GROWTH_MIB, f"{peaks} MiB"
