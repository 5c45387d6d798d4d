"""Who drains eight queues fastest, answers coming from memory? Written to docs/benchmarks/memory.md."""

from __future__ import annotations

import pytest

from tests.bench.contenders import ARROW_GROWN, ENGINE, TASKS, open_crew, spark_contenders, takes_part
from tests.bench.plan import IS_QUICK, LARGE, ROUNDS, SMALL
from tests.bench.profiles import PULLING, READING, add_profile
from tests.bench.report import report_of
from tests.bench.rounds import interleave
from tests.bench.sparks import open_spark
from tests.bench.stage import MEMORY_ANSWER, Stage

pytestmark = [pytest.mark.bench, pytest.mark.real]

ABOUT = (
    "Everybody drains the same full topic from its beginning, one after the other, in rounds. Official consumers pull "
    "32 messages at a time and do nothing with them; their clock starts with the first message. Ours starts before the "
    "first request, and for Spark with the query. Raw sockets send what our engine sends and decode nothing. "
    "*With tags* the broker filters, all messages match, and what was read is vouched for once a second. "
    "Spark's workers are awake when the clock starts; *rows ready* are read once and handed to Spark again and again."
)


def test_memory(stage: Stage) -> None:
    """Large and small bodies, with Spark and without."""
    with report_of("memory", "Draining eight queues from memory", ABOUT, RocketMQ=stage.cluster.version) as report:
        for shape in (LARGE,) if IS_QUICK else (LARGE, SMALL):
            with open_crew(stage) as crew, open_spark() as spark:
                contenders = [crew.contender(stage, shape, name) for name in TASKS if takes_part(name)]
                contenders += spark_contenders(spark, stage, shape)
                assert stage.answer_size(shape) == MEMORY_ANSWER
                report.add_outcomes(str(shape), interleave(contenders, ROUNDS))
                for name, parts in ((ENGINE, PULLING), (ARROW_GROWN, READING)):
                    task, wish = TASKS[name](shape)
                    reading = {"topic": stage.topic(shape), "count": shape.messages, **wish}
                    add_profile(report, f"{shape}, {name}", crew.python, parts, task, **reading)
