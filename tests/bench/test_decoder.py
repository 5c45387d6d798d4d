"""How fast is decoding alone? Written to docs/benchmarks/decoder.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.bench.floors import COPIED, JAVA_DECODER
from tests.bench.partners import Partner, java_partner, on_one_core, python_partner
from tests.bench.plan import IS_QUICK, MESSAGES, ROUNDS, Shape, share_of
from tests.bench.profiles import DECODING, add_profile
from tests.bench.report import report_of
from tests.bench.rounds import Contender, Run, interleave
from tests.bench.stage import Stage

pytestmark = [pytest.mark.bench, pytest.mark.real]

RECORDED = share_of(MESSAGES, 1) if MESSAGES < 65_536 else 65_536
SHAPES = {
    "1 KiB": Shape(8, 1024, RECORDED),
    "100 B": Shape(8, 100, RECORDED),
    "1 KiB, all records alike": Shape(8, 1024, RECORDED, alike=True),
    "100 B, all records alike": Shape(8, 100, RECORDED, alike=True),
}
OURS = {"full map": "all properties", "user's properties": "default", "no map": "no map"}
ABOUT = (
    "Answers of a real broker were kept in a file; both sides decode the same bytes again and again, warm, "
    "on one core. "
    "Java makes a message object with a map of all properties. Ours makes record batches of the default columns: "
    "with all properties in the map, with those that users set, and without the map; finding where records begin is "
    "part of it. Properties differ in length from message to message, except where all records are alike. "
    "Copying what was received, and then the bodies into a column, is what is left if decoding costs nothing."
)


def test_decoder(stage: Stage, tmp_path: Path) -> None:
    """Stored messages of a real broker, mixed and all alike."""
    with report_of("decoder", "The decoder", ABOUT, RocketMQ=stage.cluster.version) as report:
        for setting, shape in SHAPES.items():
            if IS_QUICK and shape.alike:
                continue
            file = str(tmp_path / f"{shape.size}-{shape.alike}")
            with python_partner(stage.name_server) as reader:
                reader.drain("dump", topic=stage.topic(shape), count=shape.messages, file=file)
            with on_one_core():
                java, python = java_partner(), python_partner()
            with java, python:
                contenders = _contenders(java, python, file, shape.size)
                report.add_outcomes(setting, interleave(contenders, ROUNDS), best_of=[JAVA_DECODER])
                wish = {"file": file, "count": shape.messages, "columns": OURS["no map"]}
                add_profile(report, f"{setting}, no map", python, DECODING, "decode", **wish)


def _decode(python: Partner, file: str, columns: str, count: int) -> Run:
    return python.drain("decode", file=file, count=count, columns=columns)


def _copy(python: Partner, file: str, size: int, count: int) -> Run:
    return python.drain("copy", file=file, count=count, size=size)


def _contenders(java: Partner, python: Partner, file: str, size: int) -> list[Contender]:
    """Both sides go over the file until they have decoded so many messages."""
    count = share_of(MESSAGES, 2)
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
