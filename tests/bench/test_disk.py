"""Measure all contenders with a broker that answers as if it read from disk; write docs/benchmarks/disk.md."""

from __future__ import annotations

import pytest

from tests.bench.bench_broker import DISK_ANSWER, BenchBroker
from tests.bench.bench_settings import QUARTER, ROUNDS
from tests.bench.contenders import RAW_SOCKETS, TASKS, open_client_processes
from tests.bench.goals import DISK
from tests.bench.report import report_of
from tests.bench.rounds import measure_in_rounds

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = (
    "The broker takes nothing to be cached (`accessMessageInMemoryMaxRatio=0`), so it answers a pull with 8 "
    "messages at most. Raw sockets know that number; all others have to learn it."
)


def test_disk(bench_broker: BenchBroker) -> None:
    with (
        report_of("disk", "Draining answers from disk", ABOUT, RocketMQ=bench_broker.cluster.version) as report,
        open_client_processes(bench_broker) as clients,
    ):
        known = {RAW_SOCKETS: {"each": DISK_ANSWER}}
        contenders = [clients.contender(bench_broker, QUARTER, name, **known.get(name, {})) for name in TASKS]
        with bench_broker.answering_from_disk():
            assert bench_broker.answer_size(QUARTER) == DISK_ANSWER
            report.add_measurements(DISK, measure_in_rounds(contenders, ROUNDS))
