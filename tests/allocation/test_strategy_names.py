"""A strategy can be named by a short name or by its Java class."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.allocation.strategy_names import parse_strategy
from pyspark_rocketmq.errors import OptionError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("AVG", "AVG"),
        (" avg_by_circle ", "AVG_BY_CIRCLE"),
        ("AllocateMessageQueueAveragely", "AVG"),
        ("org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle", "AVG_BY_CIRCLE"),
        ("AllocateMessageQueueConsistentHash", "CONSISTENT_HASH"),
        ("allocatemessagequeuebyconfig", "CONFIG"),
        ("AllocateMessageQueueByMachineRoom", "MACHINE_ROOM"),
        ("AllocateMachineRoomNearby", "MACHINE_ROOM_NEARBY-AVG"),
        ("MACHINE_ROOM_NEARBY", "MACHINE_ROOM_NEARBY-AVG"),
        ("machine_room_nearby-consistent_hash", "MACHINE_ROOM_NEARBY-CONSISTENT_HASH"),
    ],
)
def test_spellings(text: str, name: str) -> None:
    """A short name, a class name and a full class name mean the same strategy, in any case."""
    assert str(parse_strategy(text)) == name


@pytest.mark.parametrize("text", ["", "AVERAGE", "MACHINE_ROOM_NEARBY-CONFIG", "com.example.AllocateMachineRoomNearby"])
def test_unknown_names_list_the_known_ones(text: str) -> None:
    """If a name is unknown, the error lists all accepted names."""
    with pytest.raises(
        OptionError, match=r"\[OPTION_VALUE\] allocateMessageQueueStrategy = .*AVG_BY_CIRCLE.*NEARBY-AVG"
    ):
        parse_strategy(text)
