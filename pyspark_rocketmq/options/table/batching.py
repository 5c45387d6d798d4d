"""List the options that say how much is read per batch, and how the work is cut into tasks."""

from __future__ import annotations

from ...allocation.strategy_names import ACCEPTED, parse_strategy
from ..option import Option, section
from ..queue_json import read_queue_lists
from ..values import Kind, choice, duration, integer, read_list, text_map

MAX_OFFSETS = Option(
    "maxOffsetsPerTrigger",
    "S",
    integer(1),
    meaning="Cap of a batch over all queues, shared in proportion to backlog; each queue with data gets at least 1. "
    "Counts offsets, not rows.",
)
MAX_OFFSETS_PER_QUEUE = Option(
    "maxOffsetsPerQueue", "S", integer(1), meaning="Cap of a batch for each queue, applied first."
)
MIN_OFFSETS = Option(
    "minOffsetsPerTrigger",
    "S",
    integer(1),
    meaning="Fewer offsets than these are held back; not by the triggers availableNow and once.",
)
MAX_DELAY = Option("maxTriggerDelay", "S", duration(1), "15m", meaning="Longest time to hold data back.")
STRATEGY = Option(
    "allocateMessageQueueStrategy",
    "SB",
    Kind(ACCEPTED, lambda given: parse_strategy(given.text, given.option)),
    "AVG",
    native=True,
    meaning="How queues are dealt to tasks, or with `groupMembership=shared` to the members of the group, which must "
    "all use the same.",
)
VIRTUAL_NODES = Option(
    "virtualNodeCnt",
    "SB",
    integer(1, 10_000, hint=": an empty ring gives nobody a queue"),
    "10",
    meaning="CONSISTENT_HASH: places of each task on the ring.",
)
QUEUE_LISTS = Option(
    "messageQueueList",
    "SB",
    Kind("JSON array, one entry per task, each like `assign`", read_queue_lists),
    otherwise="required by CONFIG",
    meaning="CONFIG: which task reads which queues; every queue is listed, and once.",
)
MACHINE_ROOMS = Option(
    "machineRooms",
    "SB",
    read_list("list of rooms"),
    otherwise="MACHINE_ROOM: required; NEARBY: all rooms of the brokers",
    aliases=("consumeridcs",),
    meaning="MACHINE_ROOM: the rooms to read, those of brokers named `room@name`. MACHINE_ROOM_NEARBY: the rooms that "
    "tasks stand for in turn.",
)
BROKER_ROOMS = Option(
    "brokerRooms",
    "SB",
    Kind("JSON broker name → room", text_map),
    otherwise="text before `@` in a name with exactly one `@`",
    meaning="MACHINE_ROOM_NEARBY: in which room each broker is.",
)
CONSUMER_ROOMS = Option(
    "consumerRooms",
    "S",
    Kind("JSON client-id pattern → room", text_map),
    otherwise="required by `shared` + NEARBY",
    meaning="MACHINE_ROOM_NEARBY with `groupMembership=shared`: in which room each member is. In a pattern `*` stands "
    "for anything; the first one that fits counts.",
)
MIN_PARTITIONS = Option("minPartitions", "SB", integer(1), meaning="At least so many tasks, by splitting ranges.")
MAX_PARTITIONS = Option(
    "maxPartitions",
    "SB",
    integer(1),
    meaning="At most so many tasks, by giving one task several queues. The number of cores is a good choice.",
)
MAX_RECORDS = Option("maxRecordsPerPartition", "SB", integer(1), meaning="Offsets per task; wins over `maxPartitions`.")
ORDERING = Option(
    "ordering",
    "SB",
    choice({"none": False, "queue": True}),
    "none",
    meaning="`queue`: one task reads a queue's whole range and hands rows out in the order of their offsets.",
)

SECTION = section("How much per batch, and how work is cut", globals())
