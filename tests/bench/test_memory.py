"""Measure all contenders on eight queues whose messages are in the broker's memory; write docs/benchmarks/memory.md."""

from __future__ import annotations

import pytest

from tests.bench.bench_broker import MEMORY_ANSWER, BenchBroker
from tests.bench.bench_settings import IS_QUICK, LARGE, ROUNDS, SMALL
from tests.bench.contenders import ARROW_GROWN, ENGINE, TASKS, is_selected, open_client_processes, spark_contenders
from tests.bench.profiles import PULLING, READING, add_profile
from tests.bench.report import report_of
from tests.bench.rounds import measure_in_rounds
from tests.bench.sparks import open_spark

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = (
    "All contenders drain the same full topic from its beginning, one after the other, in rounds. Official "
    "consumers pull 32 messages at a time and do nothing with them; their clock starts with the first message. "
    "Our clock starts before the first request, and for Spark with the query. Raw sockets send the requests of "
    "our engine and decode nothing. *With tags* the broker filters, all messages match, and a probe confirms the "
    "responses once a second. Spark's workers run when the clock starts; *rows ready* are read once and handed "
    "to Spark again and again."
)


def test_memory(bench_broker: BenchBroker) -> None:
    with report_of(
        "memory", "Draining eight queues from memory", ABOUT, RocketMQ=bench_broker.cluster.version
    ) as report:
        for shape in (LARGE,) if IS_QUICK else (LARGE, SMALL):
            with open_client_processes(bench_broker) as clients, open_spark() as spark:
                contenders = [clients.contender(bench_broker, shape, name) for name in TASKS if is_selected(name)]
                contenders += spark_contenders(spark, bench_broker, shape)
                assert bench_broker.answer_size(shape) == MEMORY_ANSWER
                report.add_measurements(str(shape), measure_in_rounds(contenders, ROUNDS))
                for name, parts in ((ENGINE, PULLING), (ARROW_GROWN, READING)):
                    task, parameters = TASKS[name](shape)
                    reading = {"topic": bench_broker.topic(shape), "count": shape.messages, **parameters}
                    add_profile(report, f"{shape}, {name}", clients.python, parts, task, **reading)
