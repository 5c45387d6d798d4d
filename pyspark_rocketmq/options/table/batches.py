"""How much is read per batch, and how is the work cut into tasks?"""

from __future__ import annotations

from ...allocation import parse_strategy
from ...offsets.strict_json import parse_json
from ...planning.assignment import parse_queue_lists
from ..option import Option, section
from ..values import Entry, Kind, choice, duration, integer, read_json, read_list, text_map, to_come

_STRATEGIES = (
    "`AVG`, `AVG_BY_CIRCLE`, `CONSISTENT_HASH`, `CONFIG`, `MACHINE_ROOM`, `MACHINE_ROOM_NEARBY` (alone, or followed by "
    "`-` and one of the first three), or RocketMQ's class name"
)


def _read_rooms(entry: Entry) -> dict[str, str]:
    return text_map(parse_json(entry.text, entry.option), entry)


MAX_OFFSETS = Option(
    "maxOffsetsPerTrigger",
    "S",
    "T1",
    integer(1),
    meaning="Cap of a batch over all queues, shared in proportion to backlog; each queue with data gets at least 1. "
    "Counts offsets, not rows.",
)
MAX_OFFSETS_PER_QUEUE = Option(
    "maxOffsetsPerQueue", "S", "T2", integer(1), meaning="Cap of a batch for each queue, applied first."
)
MIN_OFFSETS = Option(
    "minOffsetsPerTrigger",
    "S",
    "T2",
    integer(1),
    meaning="Fewer offsets than these are held back; not by the triggers availableNow and once.",
)
MAX_DELAY = Option("maxTriggerDelay", "S", "T2", duration(1), "15m", meaning="Longest time to hold data back.")
MAX_BYTES = Option(
    "maxBytesPerTrigger", "S", "T3", to_come("size ≥ 1"), planned=True, meaning="Soft cap of a batch in bytes."
)
STRATEGY = Option(
    "allocateMessageQueueStrategy",
    "SB",
    "T1",
    Kind(
        _STRATEGIES,
        lambda entry: parse_strategy(entry.text, entry.option),
    ),
    "AVG",
    native=True,
    meaning="How queues are dealt to tasks, or with `groupMembership=shared` to the members of the group, which must "
    "all use the same.",
)
VIRTUAL_NODES = Option(
    "virtualNodeCnt",
    "SB",
    "T1",
    integer(1, 10_000, hint=": an empty ring gives nobody a queue"),
    "10",
    meaning="CONSISTENT_HASH: places of each task on the ring.",
)
QUEUE_LISTS = Option(
    "messageQueueList",
    "SB",
    "T2",
    read_json("JSON array, one entry per task, each like `assign`", parse_queue_lists),
    otherwise="required by CONFIG",
    meaning="CONFIG: which task reads which queues; every queue is listed, and once.",
)
MACHINE_ROOMS = Option(
    "machineRooms",
    "SB",
    "T2",
    read_list("list of rooms"),
    otherwise="MACHINE_ROOM: required; NEARBY: all rooms of the brokers",
    aliases=("consumeridcs",),
    meaning="MACHINE_ROOM: the rooms to read, those of brokers named `room@name`. MACHINE_ROOM_NEARBY: the rooms that "
    "tasks stand for in turn.",
)
BROKER_ROOMS = Option(
    "brokerRooms",
    "SB",
    "T2",
    Kind("JSON broker name → room", _read_rooms),
    otherwise="text before `@` in a name with exactly one `@`",
    meaning="MACHINE_ROOM_NEARBY: in which room each broker is.",
)
CONSUMER_ROOMS = Option(
    "consumerRooms",
    "S",
    "T3",
    Kind("JSON client-id pattern → room", _read_rooms),
    otherwise="required by `shared` + NEARBY",
    meaning="MACHINE_ROOM_NEARBY with `groupMembership=shared`: in which room each member is. In a pattern `*` stands "
    "for anything; the first one that fits counts.",
)
MIN_PARTITIONS = Option("minPartitions", "SB", "T1", integer(1), meaning="At least so many tasks, by splitting ranges.")
MAX_PARTITIONS = Option(
    "maxPartitions",
    "SB",
    "T1",
    integer(1),
    meaning="At most so many tasks, by giving one task several queues. The number of cores is a good choice.",
)
MAX_RECORDS = Option(
    "maxRecordsPerPartition", "SB", "T2", integer(1), meaning="Offsets per task; wins over `maxPartitions`."
)
ORDERING = Option(
    "ordering",
    "SB",
    "T1",
    choice({"none": False, "queue": True}),
    "none",
    meaning="`queue`: one task reads a queue's whole range and hands rows out in the order of their offsets.",
)

SECTION = section("How much per batch, and how work is cut", globals())
