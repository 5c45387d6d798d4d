"""The cost of planning grows in proportion to the number of queues."""

from __future__ import annotations

import json

import pytest

from pyspark_rocketmq.allocation import AllocationSettings
from pyspark_rocketmq.allocation.strategy_names import parse_strategy
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.offsets.position import advance, batch_ranges, parse_position, position_json
from pyspark_rocketmq.planning.admission import Limits, admit
from pyspark_rocketmq.planning.ranges import PlanSettings, Task, plan_tasks
from tests.calls import count_calls

STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY")
BROKERS = 10


class Name(str):
    """A broker name whose comparisons call Python functions, so that a profiler counts them."""

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def queues(count: int) -> list[MessageQueue]:
    """Return `count` queues of a topic, spread over brokers in two rooms."""
    names = [Name(f"room{number % 2}@broker{number}") for number in range(BROKERS)]
    return [MessageQueue("orders", name, number) for name in names for number in range(count // BROKERS)]


def plan(held: list[MessageQueue], settings: PlanSettings) -> list[Task]:
    """Return the tasks of a batch over these queues; its end passes through the JSON that Spark logs."""
    starts = dict.fromkeys(held, 100)
    latest = {queue: 101 + number % 50 for number, queue in enumerate(held)}
    ends = admit(starts, latest, Limits(max_per_trigger=10 * len(held), max_per_queue=40)).ends
    logged = json.dumps(position_json(advance(None, starts, ends, "g")))
    end = parse_position(json.loads(logged))
    assert end is not None
    return plan_tasks(batch_ranges(None, end), settings)


def settings_for(strategy: str, slots: int | None, held: list[MessageQueue]) -> PlanSettings:
    """Return settings under which the strategy assigns every queue to a slot."""
    allocation = AllocationSettings(
        parse_strategy(strategy),
        queue_lists=tuple(tuple(held[slot::8]) for slot in range(8)),
        machine_rooms=("room0", "room1"),
    )
    return PlanSettings(allocation, max_partitions=slots)


@pytest.mark.parametrize("slots", [None, 8])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ten_times_the_queues_cost_ten_times_the_work(strategy: str, slots: int | None) -> None:
    """With ten times the queues, planning makes about ten times the calls, by any strategy, also if slots are few."""
    counts = []
    for count in (200, 2_000):
        held = queues(count)
        settings = settings_for(strategy, slots, held)
        counts.append(count_calls(lambda held=held, settings=settings: plan(held, settings)))  # type: ignore[misc]
    assert counts[1] <= 11 * counts[0]


def test_offsets_of_ten_thousand_queues_fit_into_sparks_log() -> None:
    """The JSON of a position with ten thousand queues, which Spark writes for every batch, is below a megabyte."""
    ends = dict.fromkeys(queues(10_000), 2**31)
    assert len(json.dumps(position_json(advance(None, ends, ends, "group")))) < 10**6
