"""Compare our decoder with Java's on stored responses; write docs/benchmarks/decoder.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.bench.bench_broker import BenchBroker
from tests.bench.bench_settings import IS_QUICK, MESSAGES, ROUNDS, Shape, divide_messages
from tests.bench.goals import COPIED, JAVA_DECODER
from tests.bench.profiles import DECODING, add_profile
from tests.bench.report import report_of
from tests.bench.rounds import Contender, Run, measure_in_rounds
from tests.bench.worker_processes import WorkerProcess, on_one_core, start_java_worker, start_python_worker

pytestmark = [pytest.mark.bench, pytest.mark.real]

RECORDED = divide_messages(MESSAGES, 1) if MESSAGES < 65_536 else 65_536
SHAPES = {
    "1 KiB": Shape(8, 1024, RECORDED),
    "100 B": Shape(8, 100, RECORDED),
    "1 KiB, all records alike": Shape(8, 1024, RECORDED, alike=True),
    "100 B, all records alike": Shape(8, 100, RECORDED, alike=True),
}
OURS = {"full map": "all properties", "user's properties": "default", "no map": "no map"}
ABOUT = (
    "A file holds responses of a real broker; both sides decode the same bytes again and again, warm, on one "
    "core. Java makes a message object with a map of all properties. Ours makes record batches of the default "
    "columns: with all properties in the map, with those that users set, and without the map; finding the "
    "records is included. Properties differ in length from message to message, except where all records are "
    "alike. Copying the responses, and then the bodies into a column, is the minimum of decoding."
)


def test_decoder(bench_broker: BenchBroker, tmp_path: Path) -> None:
    with report_of("decoder", "The decoder", ABOUT, RocketMQ=bench_broker.cluster.version) as report:
        for setting, shape in SHAPES.items():
            if IS_QUICK and shape.alike:
                continue
            file = str(tmp_path / f"{shape.size}-{shape.alike}")
            with start_python_worker(bench_broker.name_server) as reader:
                reader.drain("dump", topic=bench_broker.topic(shape), count=shape.messages, file=file)
            with on_one_core():
                java, python = start_java_worker(), start_python_worker()
            with java, python:
                contenders = _contenders(java, python, file, shape.size)
                report.add_measurements(setting, measure_in_rounds(contenders, ROUNDS), best_of=[JAVA_DECODER])
                parameters = {"file": file, "count": shape.messages, "columns": OURS["no map"]}
                add_profile(report, f"{setting}, no map", python, DECODING, "decode", **parameters)


def _decode(python: WorkerProcess, file: str, columns: str, count: int) -> Run:
    return python.drain("decode", file=file, count=count, columns=columns)


def _copy(python: WorkerProcess, file: str, size: int, count: int) -> Run:
    return python.drain("copy", file=file, count=count, size=size)


def _contenders(java: WorkerProcess, python: WorkerProcess, file: str, size: int) -> list[Contender]:
    """Return contenders that decode the file: Java's decoder, ours with three sets of columns, and mere copying."""
    count = divide_messages(MESSAGES, 2)
    warm_up = min(count, 4 * RECORDED)
    ours = [
        Contender(
            name,
            partial(_decode, python, file, columns),
            python.processes,
            count,
            warm_up,
        )
        for name, columns in OURS.items()
    ]
    official = Contender(
        JAVA_DECODER, lambda count: java.drain("decode", file=file, count=count), java.processes, count, 2 * warm_up
    )
    least = Contender(COPIED, partial(_copy, python, file, size), python.processes, count, warm_up)
    return [official, *ours, least]
