"""Measure the planning of a batch with 10,000 and 100,000 queues; write docs/benchmarks/planning.md."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.offsets.position import advance, batch_ranges, position_json
from pyspark_rocketmq.options import parse_reader_options
from pyspark_rocketmq.planning.admission import Limits, admit
from pyspark_rocketmq.planning.ranges import PlanSettings, plan_tasks
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.stream import make_stream_reader
from tests.bench.bench_settings import ROUNDS
from tests.bench.report import report_of
from tests.bench.worker_processes import start_python_worker

pytestmark = pytest.mark.bench

PER_TOPIC = 1000
COUNTS = (10_000, 100_000)
PER_TRIGGER = 1_000_000
ABOUT = (
    "*Pure*: admission with a cap, the offset and its JSON, ranges and tasks, from known offsets. *Asked*: "
    "`latestOffset` and `partitions` of the stream reader against the stub in a process of its own; topics of "
    f"{PER_TOPIC:,} queues. Routes are known already, as in every trigger but the first."
)


class Planned(NamedTuple):
    """The seconds that planning one batch took, and the length of its offset as JSON."""

    seconds: float
    json_bytes: int


def test_planning() -> None:
    with report_of("planning", "Planning", ABOUT) as report:
        for count in COUNTS:
            pure = [_plan_pure(count) for _ in range(ROUNDS)]
            asked = _plan_asked(count)
            for each in pure:
                report.collect(f"{count:,} queues, pure", each.seconds, "s")
            for each in asked:
                report.collect(f"{count:,} queues, asked", each.seconds, "s")
                report.collect(f"{count:,} queues, offset as JSON", each.json_bytes / 1024, "KiB")
        report.add_collected("Time and size")


def _plan_pure(count: int) -> Planned:
    queues = [MessageQueue(f"topic-{n // PER_TOPIC}", "broker-a", n % PER_TOPIC) for n in range(count)]
    starts: Mapping[MessageQueue, int] = dict.fromkeys(queues, 0)
    latest = {queue: 100 + number % 900 for number, queue in enumerate(queues)}
    began = time.perf_counter()
    ends = admit(starts, latest, Limits(max_per_trigger=PER_TRIGGER)).ends
    position = advance(None, starts, ends)
    text = json.dumps(position_json(position))
    tasks = plan_tasks(batch_ranges(None, position), PlanSettings(max_partitions=2))
    seconds = time.perf_counter() - began
    assert sum(len(task) for task in tasks) == count
    return Planned(seconds, len(text))


def _plan_asked(count: int) -> list[Planned]:
    topics = {f"topic-{number}": PER_TOPIC for number in range(count // PER_TOPIC)}
    with start_python_worker() as stub:
        name_server = str(stub.ask("stub", topics=topics)["name_server"])
        options = {"nameServer": name_server, "subscribe": ",".join(topics), "startingOffsets": "earliest"}
        reader = make_stream_reader(parse_reader_options({**options, "maxPartitions": "2"}, stream=True))
        start, planned = dict(reader.initialOffset()), []
        for _ in range(1 + ROUNDS):
            stub.ask("stub_fill", topics=list(topics), count=PER_TOPIC, size=10)
            time.sleep(PlannerRhythm().bounds_s * len(topics))  # Brokers are asked again only after this time.
            start, found = _plan_next(reader, start, count)
            planned.append(found)
        reader.stop()
    return planned[1:]


def _plan_next(reader: Any, start: dict[str, Any], count: int) -> tuple[dict[str, Any], Planned]:
    began = time.perf_counter()
    end = reader.latestOffset(start, ReadAllAvailable())
    tasks = reader.partitions(start, end)
    seconds = time.perf_counter() - began
    assert sum(len(task.ranges) for task in tasks) == count
    return end, Planned(seconds, len(json.dumps(end)))
