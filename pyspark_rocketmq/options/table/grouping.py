"""List the options of groups: membership, commits, local positions, locks."""

from __future__ import annotations

from ...model import MessageModel
from ..option import Option, section
from ..values import BOOLEAN, DIRECTORY, choice, duration, group_name, integer, optional, words

_LARGEST_COUNT = 2**31 - 1

CONSUMER_GROUP = Option(
    "consumerGroup",
    "SBH",
    group_name({"DEFAULT_CONSUMER": "RocketMQ's own name for no group"}),
    otherwise="`TOOLS_CONSUMER`, read-only (exists on every broker)",
    aliases=("group", "groupId"),
    native=True,
    meaning="The group in requests, permissions and commits. Give Spark a group of its own.",
)
MESSAGE_MODEL = Option(
    "messageModel",
    "SB",
    words(MessageModel),
    "CLUSTERING",
    native=True,
    meaning="Where positions are committed: at the broker, or with `BROADCASTING` only in a local file.",
)
GROUP_MEMBERSHIP = Option(
    "groupMembership",
    "S",
    choice({"none": False, "shared": True}),
    "none",
    meaning="`none`: Spark reads all queues and registers nothing. `shared`: the query is one member of its group and "
    "reads only the queues that are assigned to it.",
)
REBALANCE_INTERVAL = Option(
    "rebalanceInterval",
    "S",
    duration(1000, 600_000),
    "20000",
    aliases=("rocketmq.client.rebalance.waitInterval",),
    meaning="How often a group member assigns queues anew; a broker's notice makes it do so at once.",
)
COMMIT_OFFSETS = Option(
    "commitOffsets",
    "S",
    choice({"none": False, "batch": True}),
    otherwise="`batch` if `consumerGroup` is set (BROADCASTING: if also `localOffsetStoreDir`), else `none`",
    meaning="Commit the positions of finished batches to the broker. Except for a member of a group, the checkpoint "
    "alone decides where a query continues. Refused for a group with live members, unless the query is one of them, "
    "and on one host for queues whose positions another query commits for the group.",
)
COMMIT_INTERVAL = Option(
    "persistConsumerOffsetInterval",
    "S",
    duration(0, 600_000),
    "0",
    native=True,
    meaning="Least time between two commits; 0 commits after each finished batch, for a member of a group at most once "
    "a second.",
)
LOCAL_STORE = Option(
    "localOffsetStoreDir",
    "SB",
    DIRECTORY,
    aliases=("rocketmq.client.localOffsetStoreDir",),
    meaning="BROADCASTING: positions are stored in `<directory>/<client id>/<consumerGroup>/offsets.json`, as "
    "RocketMQ's "
    "own consumers do it. `startingOffsets=group` starts there.",
)
LOCK_QUEUES = Option(
    "lockQueues",
    "S",
    BOOLEAN,
    otherwise="true with `shared` + `ordering=queue`, else false",
    meaning="Read a queue only while this query holds the broker's lock of it, as orderly consumers do. Excludes other "
    "queries that lock, and orderly consumers of the group.",
)
LOCK_INTERVAL = Option(
    "lockInterval",
    "S",
    duration(1000, 30_000),
    "20000",
    aliases=("rocketmq.client.rebalance.lockInterval",),
    meaning="How often locks are renewed.",
)
LOCK_LIFETIME = Option(
    "lockMaxLiveTime",
    "S",
    duration(2000, 60_000),
    "30000",
    aliases=("rocketmq.client.rebalance.lockMaxLiveTime",),
    meaning="Age from which on a lock that was not renewed counts as lost; the broker's own lease is 60 s.",
)
MAX_RECONSUME_TIMES = Option(
    "maxReconsumeTimes",
    "H",
    optional(integer(0, _LARGEST_COUNT)),
    "-1",
    native=True,
    meaning="Number of redeliveries of a row; if it fails again after the last one it becomes a dead letter. -1 means "
    "16.",
)
DELAY_LEVEL = Option(
    "delayLevelWhenNextConsume",
    "H",
    integer(-1, 18),
    "0",
    meaning="Delay of rows that are sent back without a `delayLevel` of their own: a delay level of the broker, 0 to "
    "have the broker raise it with each failure, -1 for a dead letter at once.",
)

SECTION = section("Group and commits", globals())
