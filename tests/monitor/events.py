"""Events as Spark gives them to a listener, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.monitor import LagListener
from pyspark_rocketmq.offsets.position import Position

TOPIC = "orders"
_TIMES = count()
BATCH = {"addBatch": 900, "triggerExecution": 1500}


def queue_of(number: int, broker: str = "broker-a", topic: str = TOPIC) -> MessageQueue:
    """Return a queue, by default of `TOPIC` at broker-a."""
    return MessageQueue(topic, broker, number)


def end_offset(positions: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """Return the end offset of a RocketMQ source in a progress event."""
    offset: dict[str, Any] = json.loads(str(Position(positions)))
    return offset


def progress_event(
    positions: Mapping[MessageQueue, int] | None,
    *,
    name: str | None = "archive",
    query: str = "query-1",
    run: str = "run-1",
    rows: int = 0,
    durations: Mapping[str, int] = BATCH,
    status: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> Any:
    """Return a progress event of a query at these positions; None: the query reads no RocketMQ.

    `text` replaces the JSON of the progress.
    """
    source: dict[str, Any] = (
        {"endOffset": {"logOffset": 3}} if positions is None else {"endOffset": end_offset(positions)}
    )
    if status is not None:
        source["latestOffset"] = {"status": status}
    progress = SimpleNamespace(
        id=query,
        runId=run,
        name=name,
        numInputRows=rows,
        durationMs=durations,
        json=json.dumps({"timestamp": next(_TIMES), "sources": [source]}) if text is None else text,
    )
    return SimpleNamespace(progress=progress)


def run_event(run: str = "run-1") -> Any:
    """Return an event that only names a run: idle, or terminated."""
    return SimpleNamespace(runId=run, id="query-1")


def tell(listener: LagListener, positions: Mapping[MessageQueue, int] | None, **given: Any) -> None:
    """Tell a listener of a query's progress, as Spark does."""
    listener.onQueryProgress(progress_event(positions, **given))
