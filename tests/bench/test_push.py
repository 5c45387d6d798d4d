"""Which push consumer hands out messages fastest? Written to docs/benchmarks/push.md."""

from __future__ import annotations

import pytest

from tests.bench.contenders import MOST_WARMING
from tests.bench.partners import Partner, java_partner, python_partner
from tests.bench.plan import QUARTER, ROUNDS
from tests.bench.report import report_of
from tests.bench.rounds import Contender, interleave
from tests.bench.stage import Stage

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = (
    "Both are members of a group, concurrent, with a listener that does nothing; clocks start with the first message."
)
BATCHES = {"32 at a time": 32, "one at a time": 1}


def test_push(stage: Stage) -> None:
    """Listeners that get 32 messages at a time, then one."""
    with (
        report_of("push", "Push consumers", ABOUT, RocketMQ=stage.cluster.version) as report,
        java_partner(stage.name_server) as java,
        python_partner(stage.name_server) as python,
    ):
        for setting, batch in BATCHES.items():
            contenders = [
                _contender("Java push", java, stage, batch),
                _contender("our push", python, stage, batch),
            ]
            report.add_outcomes(setting, interleave(contenders, ROUNDS), best_of=["Java push"])


def _contender(name: str, partner: Partner, stage: Stage, batch: int) -> Contender:
    topic, count = stage.topic(QUARTER), QUARTER.messages
    return Contender(
        name,
        lambda count: partner.drain("push", topic=topic, count=count, batch=batch),
        {**partner.processes, **stage.processes},
        count,
        min(count, MOST_WARMING),
    )
