"""Measure how fast the stub starts, is filled and answers pulls; write docs/benchmarks/stub.md."""

from __future__ import annotations

import time

import pytest

from tests.bench.bench_settings import ROUNDS
from tests.bench.report import Report, report_of
from tests.bench.usage import Meter
from tests.bench.worker_processes import WorkerProcess, start_python_worker

pytestmark = pytest.mark.bench

TOPIC, QUEUES, SIZE, DEPTH = "bench", 8, 1024, 16
FILL = 1_000_000
MANY_QUEUES = {f"topic-{number}": 1000 for number in range(10)}
IDLE_S = 5
ABOUT = (
    "The stub runs in a process of its own; raw sockets in another process drain it with 16 requests in flight "
    f"and decode nothing, each time all of {FILL:,} messages of 1 KiB in 8 queues. Fill, memory and start are "
    "measured at the stub alone."
)


def test_stub() -> None:
    with report_of("stub", "The stub", ABOUT) as report:
        for _ in range(ROUNDS):
            with start_python_worker() as stub, start_python_worker() as started:
                name_server = str(stub.ask("stub", topics={TOPIC: QUEUES})["name_server"])
                _fill(report, stub)
                _serve(report, stub, name_server)
                _rest(report, stub)
                report.collect("start", float(started.ask("stub", topics=MANY_QUEUES)["seconds"]), "s")
        report.add_collected("Medians over rounds")


def _fill(report: Report, stub: WorkerProcess) -> None:
    meter = Meter(stub.processes)
    report.collect("fill", stub.drain("stub_fill", topics=[TOPIC], count=FILL, size=SIZE).seconds, "s")
    report.collect("fill peak", meter.read()["Python"].peak_mib, "MiB")


def _serve(report: Report, stub: WorkerProcess, name_server: str) -> None:
    with start_python_worker(name_server) as client:
        meter = Meter(stub.processes)
        run = client.drain("raw_sockets", topic=TOPIC, count=FILL, depth=DEPTH, size=SIZE)
        assert run.messages == FILL
        report.collect("served", run.messages / run.seconds, "/s")
        report.collect("CPU a message served", meter.read()["Python"].cpu_s / run.messages * 1e6, "µs")


def _rest(report: Report, stub: WorkerProcess) -> None:
    meter = Meter(stub.processes)
    time.sleep(IDLE_S)
    report.collect("CPU while idle", meter.read()["Python"].cpu_s / IDLE_S * 100, "%")
