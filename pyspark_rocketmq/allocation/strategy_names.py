"""Read the name of an allocation strategy: RocketMQ's short name, or the name of its Java class."""

from __future__ import annotations

from ..errors import OptionError
from .choice import StrategyName

__all__ = ["ACCEPTED", "parse_strategy"]

ACCEPTED = (
    "`AVG`, `AVG_BY_CIRCLE`, `CONSISTENT_HASH`, `CONFIG`, `MACHINE_ROOM`, `MACHINE_ROOM_NEARBY` (alone, or followed by "
    "`-` and one of the first three), or RocketMQ's class name"
)
_PACKAGE = "org.apache.rocketmq.client.consumer.rebalance."
_LONG_NAMES = {
    "AllocateMessageQueueAveragely": "AVG",
    "AllocateMessageQueueAveragelyByCircle": "AVG_BY_CIRCLE",
    "AllocateMessageQueueConsistentHash": "CONSISTENT_HASH",
    "AllocateMessageQueueByConfig": "CONFIG",
    "AllocateMessageQueueByMachineRoom": "MACHINE_ROOM",
    "AllocateMachineRoomNearby": "MACHINE_ROOM_NEARBY",
}
_INNER_NAMES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")


def _spellings() -> dict[str, StrategyName]:
    names = {short: StrategyName(short) for short in _LONG_NAMES.values()}
    names["MACHINE_ROOM_NEARBY"] = StrategyName("MACHINE_ROOM_NEARBY", "AVG")
    names |= {f"MACHINE_ROOM_NEARBY-{inner}": StrategyName("MACHINE_ROOM_NEARBY", inner) for inner in _INNER_NAMES}
    names |= {prefix + long: names[short] for long, short in _LONG_NAMES.items() for prefix in ("", _PACKAGE)}
    return {spelling.casefold(): name for spelling, name in names.items()}


_SPELLINGS = _spellings()


def parse_strategy(text: str, option: str = "allocateMessageQueueStrategy") -> StrategyName:
    """Return the strategy that a text names, in upper or lower case; raise `OptionError` for an unknown name."""
    name = _SPELLINGS.get(text.strip().casefold())
    if name is None:
        accepted = ", ".join([*_LONG_NAMES.values(), *(f"MACHINE_ROOM_NEARBY-{inner}" for inner in _INNER_NAMES)])
        raise OptionError(option, text, "no such strategy", advice=f"give one of {accepted}")
    return name
