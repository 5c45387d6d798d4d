"""Assign queues to members by RocketMQ's six strategies.

RocketMQ has no coordinator: every member of a group computes the assignment for all members by the same strategy, and
reads only its own queues. The same strategies assign a Spark batch's queues to its slots. Strategies are values
without state. They never sort; callers pass lists in RocketMQ's order.
"""

from __future__ import annotations

from .by_config import ByConfig
from .by_position import AVERAGELY, AVERAGELY_BY_CIRCLE, ByPosition
from .choice import AllocationSettings, StrategyName, build_strategy, room_in_name
from .consistent_hash import ConsistentHash
from .machine_room import MachineRoom, MachineRoomNearby, no_match
from .strategy import AllocateStrategy

__all__ = [
    "AVERAGELY",
    "AVERAGELY_BY_CIRCLE",
    "AllocateStrategy",
    "AllocationSettings",
    "ByConfig",
    "ByPosition",
    "ConsistentHash",
    "MachineRoom",
    "MachineRoomNearby",
    "StrategyName",
    "build_strategy",
    "no_match",
    "room_in_name",
]
