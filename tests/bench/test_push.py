"""Compare our push consumer with Java's; write docs/benchmarks/push.md."""

from __future__ import annotations

import pytest

from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import QUARTER, ROUNDS
from tests.bench.contenders import WARM_UP_LIMIT
from tests.bench.report import report_of
from tests.bench.rounds import Contender, measure_in_rounds
from tests.bench.worker_processes import WorkerProcess, start_java_worker, start_python_worker

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = (
    "Both are members of a group, concurrent, with a listener that does nothing; clocks start with the first message."
)
BATCHES = {"32 at a time": 32, "one at a time": 1}


def test_push(bench_broker: BenchBroker) -> None:
    with (
        report_of("push", "Push consumers", ABOUT, RocketMQ=bench_broker.cluster.version) as report,
        start_java_worker(bench_broker.name_server) as java,
        start_python_worker(bench_broker.name_server) as python,
    ):
        for setting, batch in BATCHES.items():
            contenders = [
                _contender("Java push", java, bench_broker, batch),
                _contender("our push", python, bench_broker, batch),
            ]
            report.add_measurements(setting, measure_in_rounds(contenders, ROUNDS), best_of=["Java push"])


def _contender(name: str, worker: WorkerProcess, bench_broker: BenchBroker, batch: int) -> Contender:
    topic, count = bench_broker.topic(QUARTER), QUARTER.messages
    return Contender(
        name,
        lambda count: worker.drain("push", topic=topic, count=count, batch=batch),
        {**worker.processes, **bench_broker.processes},
        count,
        min(count, WARM_UP_LIMIT),
    )
