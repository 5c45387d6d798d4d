"""How fast is the stub? Written to docs/benchmarks/stub.md."""

from __future__ import annotations

import time

import pytest

from tests.bench.partners import Partner, python_partner
from tests.bench.plan import ROUNDS
from tests.bench.report import Report, report_of
from tests.bench.usage import Meter

pytestmark = pytest.mark.bench

TOPIC, QUEUES, SIZE, DEPTH = "bench", 8, 1024, 16
FILL = 1_000_000
MANY_QUEUES = {f"topic-{number}": 1000 for number in range(10)}
IDLE_S = 5
ABOUT = (
    "The stub in a process of its own; bare sockets in another drain it with 16 requests in flight and decode nothing, "
    f"each time all of {FILL:,} messages of 1 KiB in 8 queues. Filling, its memory, and starting are the stub's alone."
)


def test_stub() -> None:
    """Filling, serving, resting, starting."""
    with report_of("stub", "The stub", ABOUT) as report:
        for _ in range(ROUNDS):
            with python_partner() as stub, python_partner() as started:
                name_server = str(stub.ask("stub", topics={TOPIC: QUEUES})["name_server"])
                _fill(report, stub)
                _serve(report, stub, name_server)
                _rest(report, stub)
                report.collect("start", float(started.ask("stub", topics=MANY_QUEUES)["seconds"]), "s")
        report.add_collected("Medians over rounds")


def _fill(report: Report, stub: Partner) -> None:
    meter = Meter(stub.processes)
    report.collect("fill", stub.drain("stub_fill", topics=[TOPIC], count=FILL, size=SIZE).seconds, "s")
    report.collect("fill peak", meter.read()["Python"].peak_mib, "MiB")


def _serve(report: Report, stub: Partner, name_server: str) -> None:
    with python_partner(name_server) as client:
        meter = Meter(stub.processes)
        run = client.drain("floor", topic=TOPIC, count=FILL, depth=DEPTH, size=SIZE)
        assert run.messages == FILL
        report.collect("served", run.messages / run.seconds, "/s")
        report.collect("CPU a message served", meter.read()["Python"].cpu_s / run.messages * 1e6, "µs")


def _rest(report: Report, stub: Partner) -> None:
    meter = Meter(stub.processes)
    time.sleep(IDLE_S)
    report.collect("CPU while idle", meter.read()["Python"].cpu_s / IDLE_S * 100, "%")
