"""Measure all contenders on a topic of one queue; write docs/benchmarks/single.md."""

from __future__ import annotations

import pytest

from tests.bench.bench_broker import MEMORY_ANSWER, BenchBroker
from tests.bench.bench_settings import ROUNDS, SINGLE
from tests.bench.contenders import TASKS, open_client_processes
from tests.bench.report import report_of
from tests.bench.rounds import measure_in_rounds

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = "One queue: a client that waits for a response before its next request does nothing meanwhile."


def test_single(bench_broker: BenchBroker) -> None:
    with (
        report_of("single", "Draining one queue", ABOUT, RocketMQ=bench_broker.cluster.version) as report,
        open_client_processes(bench_broker) as clients,
    ):
        contenders = [clients.contender(bench_broker, SINGLE, name) for name in TASKS]
        assert bench_broker.answer_size(SINGLE) == MEMORY_ANSWER
        report.add_measurements(str(SINGLE), measure_in_rounds(contenders, ROUNDS))
