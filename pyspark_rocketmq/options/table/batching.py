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
    meaning="Cap of a batch over all queues, divided in proportion to backlog; each queue with data gets at least 1. "
    "Counts offsets, not rows.",
)
MAX_OFFSETS_PER_QUEUE = Option(
    "maxOffsetsPerQueue", "S", integer(1), meaning="Cap of a batch for each queue, applied first."
)
MIN_OFFSETS = Option(
    "minOffsetsPerTrigger",
    "S",
    integer(1),
    meaning="A batch waits until it has this many offsets, except with the triggers availableNow and once.",
)
MAX_DELAY = Option("maxTriggerDelay", "S", duration(1), "15m", meaning="Longest time for which a batch waits.")
STRATEGY = Option(
    "allocateMessageQueueStrategy",
    "SB",
    Kind(ACCEPTED, lambda given: parse_strategy(given.text, given.option)),
    "AVG",
    native=True,
    meaning="Strategy that assigns queues to tasks, or with `groupMembership=shared` to the members of the group, "
    "which "
    "must all use the same one.",
)
VIRTUAL_NODES = Option(
    "virtualNodeCnt",
    "SB",
    integer(1, 10_000, hint=": an empty ring assigns no queue"),
    "10",
    meaning="CONSISTENT_HASH: number of virtual nodes of each task.",
)
QUEUE_LISTS = Option(
    "messageQueueList",
    "SB",
    Kind("JSON array, one entry per task, each like `assign`", read_queue_lists),
    otherwise="required by CONFIG",
    meaning="CONFIG: the queues of each task; list every queue exactly once.",
)
MACHINE_ROOMS = Option(
    "machineRooms",
    "SB",
    read_list("list of rooms"),
    otherwise="MACHINE_ROOM: required; NEARBY: all rooms of the brokers",
    aliases=("consumeridcs",),
    meaning="MACHINE_ROOM: the rooms to read, of brokers named `room@name`. MACHINE_ROOM_NEARBY: the rooms that tasks "
    "stand for, in turn.",
)
BROKER_ROOMS = Option(
    "brokerRooms",
    "SB",
    Kind("JSON broker name → room", text_map),
    otherwise="text before `@` in a name with exactly one `@`",
    meaning="MACHINE_ROOM_NEARBY: the room of each broker.",
)
CONSUMER_ROOMS = Option(
    "consumerRooms",
    "S",
    Kind("JSON client-id pattern → room", text_map),
    otherwise="required by `shared` + NEARBY",
    meaning="MACHINE_ROOM_NEARBY with `groupMembership=shared`: the room of each member. In a pattern `*` stands for "
    "any text; the first pattern that matches counts.",
)
MIN_PARTITIONS = Option(
    "minPartitions", "SB", integer(1), meaning="Least number of tasks, reached by splitting ranges."
)
MAX_PARTITIONS = Option(
    "maxPartitions",
    "SB",
    integer(1),
    meaning="Largest number of tasks, reached by giving one task several queues. The number of cores is a good choice.",
)
MAX_RECORDS = Option(
    "maxRecordsPerPartition", "SB", integer(1), meaning="Largest number of offsets per task; outranks `maxPartitions`."
)
ORDERING = Option(
    "ordering",
    "SB",
    choice({"none": False, "queue": True}),
    "none",
    meaning="`queue`: one task reads a queue's whole range and returns rows in the order of their offsets.",
)

SECTION = section("How much per batch, and how work is cut", globals())
