"""Who drains a topic, and how? The official consumers, bare sockets, our engine, and our source inside Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.partners import Partner, java_partner, python_partner
from tests.bench.plan import DEPTH, HALF, IS_QUICK, LARGE, Shape
from tests.bench.rounds import Contender
from tests.bench.stage import Stage

if TYPE_CHECKING:
    from tests.bench.sparks import BenchSpark

JAVA_PUSH, JAVA_LITE, JAVA_PULL = "Java push consumer", "Java lite pull consumer", "Java pull consumer"
JAVA = (JAVA_PUSH, JAVA_LITE, JAVA_PULL)
FLOOR = "raw sockets"
ENGINE = "pull engine"
FILTERED = "pull engine, with tags"
ARROW, ARROW_NO_MAP = "pull engine + Arrow", "pull engine + Arrow, no map"
ARROW_GROWN = "pull engine + Arrow, window as it grows"
SPARK, SPARK_NO_MAP = "Spark batch", "Spark batch, no map"
SPARK_STREAM = "Spark availableNow"
READY, READY_NO_MAP = "Spark batch, rows ready", "Spark batch, rows ready, no map"
_ESSENTIAL = (*JAVA, FLOOR, ENGINE, ARROW, SPARK)

PUSH_BATCH = 32
TAG = "bench"
"""What the producer of all topics tags its messages with."""
MOST_WARMING = 300_000
"""Compiled code needs no more messages than these to be warm."""


@dataclass(frozen=True)
class Crew:
    """The processes that work for contenders: a JVM for each kind of official consumer, one Python."""

    java: dict[str, Partner]
    python: Partner

    def contender(self, stage: Stage, shape: Shape, name: str, **more: object) -> Contender:
        """Somebody outside Spark, by name, who may have to be told more."""
        topic, partner = stage.topic(shape), self.java.get(name, self.python)
        task, wish = TASKS[name](shape)
        wish.update(more)
        return Contender(
            name,
            lambda count: partner.drain(task, topic=topic, count=count, **wish),
            {**partner.processes, **stage.processes},
            shape.messages,
            min(shape.messages, MOST_WARMING // shape.queues * shape.queues),
        )


Task = Callable[[Shape], tuple[str, dict[str, object]]]
TASKS: dict[str, Task] = {
    JAVA_PUSH: lambda _: ("push", {"batch": PUSH_BATCH}),
    JAVA_LITE: lambda _: ("lite", {}),
    JAVA_PULL: lambda _: ("pull", {}),
    FLOOR: lambda shape: ("floor", {"depth": DEPTH, "size": shape.size}),
    ENGINE: lambda _: ("engine", {"depth": DEPTH}),
    FILTERED: lambda _: ("engine", {"depth": DEPTH, "tags": TAG}),
    ARROW: lambda _: ("arrow", {"columns": "default", "depth": DEPTH}),
    ARROW_NO_MAP: lambda _: ("arrow", {"columns": "no map", "depth": DEPTH}),
    ARROW_GROWN: lambda _: ("arrow", {"columns": "default", "depth": None}),
}
"""What to ask a process for, by contender."""


@contextmanager
def open_crew(stage: Stage) -> Iterator[Crew]:
    """All processes, ended after the block."""
    with ExitStack() as stack:
        java = {name: stack.enter_context(java_partner(stage.name_server)) for name in JAVA}
        yield Crew(java, stack.enter_context(python_partner(stage.name_server)))


def takes_part(name: str) -> bool:
    """Whether there is time for somebody; topics are filled for those alone."""
    return name in _ESSENTIAL or not IS_QUICK


def spark_contenders(spark: BenchSpark, stage: Stage, shape: Shape) -> list[Contender]:
    """Our source inside Spark: batches, and with large bodies a stream from its start to its end; and rows ready."""
    batches = [
        make(stage, shape, name, no_map=no_map)
        for make, name, no_map in (
            (spark.batch, SPARK, False),
            (spark.batch, SPARK_NO_MAP, True),
            (spark.ready, READY, False),
            (spark.ready, READY_NO_MAP, True),
        )
        if takes_part(name)
    ]
    if shape == LARGE and takes_part(SPARK_STREAM):
        return [*batches, spark.stream(stage, HALF, SPARK_STREAM)]
    return batches
