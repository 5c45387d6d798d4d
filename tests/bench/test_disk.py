"""Who is fastest where brokers answer as if from disk? Written to docs/benchmarks/disk.md."""

from __future__ import annotations

import pytest

from tests.bench.contenders import FLOOR, TASKS, open_crew
from tests.bench.floors import DISK
from tests.bench.plan import QUARTER, ROUNDS
from tests.bench.report import report_of
from tests.bench.rounds import interleave
from tests.bench.stage import DISK_ANSWER, Stage

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = (
    "The broker takes nothing to be cached (`accessMessageInMemoryMaxRatio=0`), so it answers a pull with 8 messages "
    "at most. Bare sockets know that; all others have to learn it."
)


def test_disk(stage: Stage) -> None:
    """Everybody outside Spark."""
    with (
        report_of("disk", "Draining answers from disk", ABOUT, RocketMQ=stage.cluster.version) as report,
        open_crew(stage) as crew,
    ):
        known = {FLOOR: {"each": DISK_ANSWER}}
        contenders = [crew.contender(stage, QUARTER, name, **known.get(name, {})) for name in TASKS]
        with stage.answering_from_disk():
            assert stage.answer_size(QUARTER) == DISK_ANSWER
            report.add_outcomes(DISK, interleave(contenders, ROUNDS))
