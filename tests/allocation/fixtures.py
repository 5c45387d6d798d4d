"""Build queues, members and strategies from the results recorded from RocketMQ (vectors)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark_rocketmq.allocation import (
    AVERAGELY,
    AVERAGELY_BY_CIRCLE,
    AllocateStrategy,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
)
from pyspark_rocketmq.model import MessageQueue

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "allocation.json").read_text(encoding="utf-8"))


def as_queues(rows: Iterable[list[Any]]) -> list[MessageQueue]:
    """Return queues from rows of topic, broker name and queue id."""
    return [MessageQueue(*row) for row in rows]


def make_queues(count: int, brokers: int = 3) -> list[MessageQueue]:
    """Return sorted queues spread evenly over brokers `room0@b`, `room1@b`, ..."""
    names = sorted((f"room{index % brokers}@b", index // brokers) for index in range(count))
    return [MessageQueue("T", broker_name, queue_id) for broker_name, queue_id in names]


def room_of(name: str) -> str | None:
    """Return the machine room of a broker or client by its name: the text before the first dash, if any."""
    return name.partition("-")[0] if "-" in name else None


def strategy_of(case: dict[str, Any]) -> AllocateStrategy:
    """Return the strategy that a recorded case describes; cases of errors hold the strategy's setting in `param`."""
    outer, _, inner = case["strategy"].partition("-")
    match outer:
        case "MACHINE_ROOM_NEARBY":
            return MachineRoomNearby(strategy_of({"strategy": inner}), room_of, room_of)
        case "MACHINE_ROOM":
            return MachineRoom(frozenset(case.get("rooms") or case.get("param") or ()))
        case "CONFIG":
            return ByConfig(tuple(as_queues(case["config_queues"] or ())))
        case "CONSISTENT_HASH":
            setting = case.get("virtual_nodes", case.get("param"))
            return ConsistentHash() if setting is None else ConsistentHash(int(setting))
    return {"AVG": AVERAGELY, "AVG_BY_CIRCLE": AVERAGELY_BY_CIRCLE}[outer]
