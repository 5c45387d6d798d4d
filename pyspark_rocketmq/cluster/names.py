"""Translate the user's names of topics and groups to the cluster's names, and back.

Namespaces come in two versions. Version 1 is spelled into the names: `NS%orders`, `%RETRY%NS%group`. Version 2
leaves names alone and travels in two header fields. System names belong to no namespace.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import DEAD_LETTER_PREFIX, RETRY_PREFIX, MessageQueue

READER_GROUP = "TOOLS_CONSUMER"
"""The group of readers without a group of their own: every broker has it from the beginning."""

SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
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
"""Names that every broker keeps for itself; topics named after a broker or cluster are not among them."""


def is_system_topic(topic: str) -> bool:
    """Return whether brokers keep a topic for themselves."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of either version; both empty means none."""

    prefix: str = ""
    """Version 1: spelled before names."""
    header: str = ""
    """Version 2: sent beside them."""

    def wrap(self, name: str) -> str:
        """Return the cluster's name of a topic or group."""
        kind, bare = _split(name)
        if not (self.prefix and bare) or _is_system(name) or bare.startswith(f"{self.prefix}%"):
            return name
        return f"{kind}{self.prefix}%{bare}"

    def unwrap(self, name: str) -> str:
        """Return the user's name of a topic or group of the cluster; names outside the namespace stay."""
        kind, bare = _split(name)
        if not self.prefix or _is_system(name):
            return name
        return kind + bare.removeprefix(f"{self.prefix}%")

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue of the cluster under the user's name of its topic."""
        return queue._replace(topic=self.unwrap(queue.topic))

    def holds(self, name: str) -> bool:
        """Return whether a name of the cluster belongs to this namespace; without version 1 every name does."""
        return not self.prefix or _is_system(name) or _split(name)[1].startswith(f"{self.prefix}%")

    def fields(self) -> dict[str, str]:
        """Return the header fields that every request carries."""
        return {"ns": self.header, "nsd": "true"} if self.header else {}


def _split(name: str) -> tuple[str, str]:
    """Return a retry or dead-letter prefix, and the rest."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _is_system(name: str) -> bool:
    return name == READER_GROUP or is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)
