"""As which group is read, and what is published about it?"""

from __future__ import annotations

from ..option import Option, section
from ..values import BOOLEAN, choice, duration, group_name, to_come

CONSUMER_GROUP = Option(
    "consumerGroup",
    "SBH",
    "T1",
    group_name({"DEFAULT_CONSUMER": "RocketMQ's own name for no group"}),
    otherwise="`TOOLS_CONSUMER`, read-only (exists on every broker)",
    aliases=("group", "groupId"),
    native=True,
    meaning="The group in requests, permissions and commits. Give Spark a group of its own.",
)
MESSAGE_MODEL = Option(
    "messageModel",
    "SB",
    "T1; BROADCASTING T2",
    choice({"CLUSTERING": None}, planned=["BROADCASTING"]),
    "CLUSTERING",
    native=True,
    meaning="Where positions are published: at the broker. `BROADCASTING`, a local file, is planned.",
)
GROUP_MEMBERSHIP = Option(
    "groupMembership",
    "S",
    "T1; shared T2",
    choice({"none": None}, planned=["shared"]),
    "none",
    meaning="Spark reads all queues and registers nothing. `shared`, one member among others, is planned.",
)
REBALANCE_INTERVAL = Option(
    "rebalanceInterval",
    "S",
    "T2",
    to_come("duration 1000..600000 ms"),
    "20000",
    aliases=("rocketmq.client.rebalance.waitInterval",),
    planned=True,
    meaning="How often a group member checks which queues are its own.",
)
COMMIT_OFFSETS = Option(
    "commitOffsets",
    "S",
    "T1",
    choice({"none": False, "batch": True}),
    otherwise="`batch` if `consumerGroup` is set (BROADCASTING: if also `localOffsetStoreDir`), else `none`",
    meaning="Publish the positions of finished batches to the broker. The checkpoint alone decides where a query "
    "goes on. Refused for a group with live members.",
)
COMMIT_INTERVAL = Option(
    "persistConsumerOffsetInterval",
    "S",
    "T1",
    duration(0, 600_000),
    "0",
    native=True,
    meaning="Least time between two publications; 0 publishes after each finished batch.",
)
LOCAL_STORE = Option(
    "localOffsetStoreDir",
    "SB",
    "T2",
    to_come("directory on the driver"),
    aliases=("rocketmq.client.localOffsetStoreDir",),
    planned=True,
    meaning="Where BROADCASTING keeps positions.",
)
LOCK_QUEUES = Option(
    "lockQueues",
    "S",
    "T2",
    BOOLEAN,
    otherwise="true with `shared` + `ordering=queue`, else false",
    planned=True,
    meaning="Hold broker locks on the queues that are read.",
)
LOCK_INTERVAL = Option(
    "lockInterval",
    "S",
    "T2",
    to_come("duration 1000..30000 ms"),
    "20000",
    aliases=("rocketmq.client.rebalance.lockInterval",),
    planned=True,
    meaning="How often locks are renewed.",
)
LOCK_LIFETIME = Option(
    "lockMaxLiveTime",
    "S",
    "T2",
    to_come("duration 2000..60000 ms"),
    "30000",
    aliases=("rocketmq.client.rebalance.lockMaxLiveTime",),
    planned=True,
    meaning="A lock not renewed for so long counts as lost.",
)
MAX_RECONSUME_TIMES = Option(
    "maxReconsumeTimes",
    "H",
    "T2",
    to_come("integer -1 or ≥ 0"),
    "-1",
    native=True,
    planned=True,
    meaning="Deliveries after which a row sent back becomes a dead letter.",
)
DELAY_LEVEL = Option(
    "delayLevelWhenNextConsume",
    "H",
    "T2",
    to_come("integer -1..18"),
    "0",
    planned=True,
    meaning="Delay of rows sent back.",
)

SECTION = section("Group and commits", globals())
