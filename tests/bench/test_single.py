"""Who drains one queue fastest? Written to docs/benchmarks/single.md."""

from __future__ import annotations

import pytest

from tests.bench.contenders import TASKS, open_crew
from tests.bench.plan import ROUNDS, SINGLE
from tests.bench.report import report_of
from tests.bench.rounds import interleave
from tests.bench.stage import MEMORY_ANSWER, Stage

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = "One queue: whoever waits for an answer before asking again has nothing else to do meanwhile."


def test_single(stage: Stage) -> None:
    """Everybody outside Spark."""
    with (
        report_of("single", "Draining one queue", ABOUT, RocketMQ=stage.cluster.version) as report,
        open_crew(stage) as crew,
    ):
        contenders = [crew.contender(stage, SINGLE, name) for name in TASKS]
        assert stage.answer_size(SINGLE) == MEMORY_ANSWER
        report.add_outcomes(str(SINGLE), interleave(contenders, ROUNDS))
