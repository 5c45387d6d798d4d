"""Translate the user's names of topics and groups to the cluster's names, and back.

Namespaces come in two versions. Version 1 puts the namespace into the names: `NS%orders`, `%RETRY%NS%group`. Version 2
leaves names alone and is sent in two header fields. System names belong to no namespace.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import DEAD_LETTER_PREFIX, RETRY_PREFIX, MessageQueue

READER_GROUP = "TOOLS_CONSUMER"
"""The group for readers without a group of their own; it exists at every broker."""

SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SYSTEM_GROUPS = frozenset(
    """
    CID_ONSAPI_OWNER CID_ONSAPI_PERMISSION CID_ONSAPI_PULL CID_SYS_RMQ_TRANS CID_DefaultHeartBeatSyncerTopic
    CID_ONS-HTTP-PROXY FILTERSRV_CONSUMER SELF_TEST_C_GROUP SELF_TEST_P_GROUP TOOLS_CONSUMER
    __MONITOR_CONSUMER TOOLS_PRODUCER
    """.split()
)
"""Groups of brokers and of RocketMQ's own tools."""
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    }
)
"""Topics that brokers use internally; topics named after a broker or cluster are not among them."""


def is_system_topic(topic: str) -> bool:
    """Return whether a topic is one that brokers use internally, by its name or prefix."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Return whether a consumer group is one of brokers or of RocketMQ's own tools, by its name or prefix."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace of a cluster's user, of version 1 or 2; if both fields are empty, the user has none."""

    prefix: str = ""
    """The namespace of version 1, which is put before names."""
    header: str = ""
    """The namespace of version 2, which is sent in header fields."""

    def wrap(self, name: str) -> str:
        """Return the cluster's name for a topic or group that the user names."""
        kind, bare = _split(name)
        if not (self.prefix and bare) or _is_system(name) or bare.startswith(f"{self.prefix}%"):
            return name
        return f"{kind}{self.prefix}%{bare}"

    def unwrap(self, name: str) -> str:
        """Return the user's name for a topic or group of the cluster; a name outside the namespace stays as it is."""
        kind, bare = _split(name)
        if not self.prefix or _is_system(name):
            return name
        return kind + bare.removeprefix(f"{self.prefix}%")

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with the cluster's name of its topic."""
        return queue._replace(topic=self.wrap(queue.topic)) if self.prefix else queue

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with the user's name of its topic."""
        return queue._replace(topic=self.unwrap(queue.topic))

    def holds(self, name: str) -> bool:
        """Return whether a name of the cluster belongs to this namespace; always True unless it is of version 1."""
        return not self.prefix or _is_system(name) or _split(name)[1].startswith(f"{self.prefix}%")

    def fields(self) -> dict[str, str]:
        """Return the header fields that a namespace of version 2 adds to every request."""
        return {"ns": self.header, "nsd": "true"} if self.header else {}


def _split(name: str) -> tuple[str, str]:
    """Divide a name into its retry or dead-letter prefix ('' if it has none) and the rest; return both."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_system(name: str) -> bool:
    return name == READER_GROUP or is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)
