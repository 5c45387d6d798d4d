"""Tell where a dead letter was first sent and why it failed, and make the message that it was.

There are two kinds of dead letters. Brokers keep those of a group in the topic `%DLQ%` + group: they name the origin in
a property of RocketMQ, and count deliveries. Spark's tasks write theirs to a topic of the user's, with the properties
CAUSE and ORIGIN_TOPIC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..cluster.cluster import Cluster
from ..cluster.names import is_system_topic
from ..errors import DecodeError, NoBrokerAvailable, OptionError, TopicNotFound
from ..model import (
    CAUSE,
    DEAD_LETTER_PREFIX,
    ORIGIN_TOPIC,
    RETRY_PREFIX,
    MessageQueue,
    QueueBounds,
    SendRequest,
    dead_letter_topic,
    find_queue,
    is_topic_name,
)
from ..wire.codes import SysFlag
from ..wire.properties import is_reserved, join_properties
from .message import ReceivedMessage

__all__ = [
    "TOPIC_MARK",
    "LetterFilter",
    "StoredLetter",
    "choose_letter_queues",
    "fault_of_target",
    "fetch_letter_bounds",
    "find_letter_topic",
]

TOPIC_MARK = "topic:"
"""Begins a name that is to be a topic's, where a group of the same name has dead letters, too."""
_ORIGINS = ("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")
"""The properties in which brokers name the topic of a dead letter's message."""
_KEPT = ("TAGS", "KEYS", "__SHARDINGKEY")
"""Properties of RocketMQ that the user has chosen."""
_COMPRESSION_BITS = SysFlag.COMPRESSED | 0x700
_NO_ORIGIN = "name a topic for such letters with `to` (in the command line --to TOPIC)"


class StoredLetter:
    """One dead letter."""

    def __init__(self, message: ReceivedMessage) -> None:
        self.message = message
        self.queue = message.queue
        self.offset = message.offset

    def __repr__(self) -> str:
        return f"<StoredLetter {self.queue}@{self.offset}>"

    @property
    def stored_ms(self) -> int:
        """The time at which the letter was stored, in milliseconds since 1970."""
        return self.message.store_timestamp_ms

    @property
    def count(self) -> int:
        """The number of deliveries that failed, as brokers count them; 0 for a letter of a Spark task."""
        return self.message.reconsume_times

    @cached_property
    def message_id(self) -> str:
        """The unique id, which RocketMQ's dead letters have from their message; without one, the broker's id."""
        try:
            return self.message.message_id
        except DecodeError:
            return self.message.record.offset_message_id

    @cached_property
    def origin(self) -> str | None:
        """The topic to which the message was first sent; None if the letter does not name one to which users send."""
        keys = _ORIGINS if self._is_of_broker else (ORIGIN_TOPIC,)
        named = next((name for key in keys if (name := self._properties.get(key))), None)
        found = named and self._user_topic(named)
        return found if found and fault_of_target(found, self.queue.topic) is None else None

    @property
    def cause(self) -> str | None:
        """The reason why the row failed; None for a letter of RocketMQ, which does not know."""
        return None if self._is_of_broker else self._properties.get(CAUSE)

    def to_request(self, topic: str, number: int) -> SendRequest:
        """Return the request that sends the letter's message to a topic, under the letter's id; `number` is its row.

        The body goes as it is stored. The message has the user's properties, and none that came with the failure.
        Properties are not checked, because a broker has stored them before. Raise if they cannot be read.
        """
        record = self.message.record
        found = record.properties
        ours = () if self._is_of_broker else (CAUSE, ORIGIN_TOPIC)
        own = {name: value for name, value in found.items() if not is_reserved(name) and name not in ours}
        kept = {name: found[name] for name in _KEPT if name in found}
        text = join_properties({"UNIQ_KEY": self.message_id, "WAIT": "true", **own, **kept})
        sys_flag = record.sys_flag & _COMPRESSION_BITS
        return SendRequest(topic, None, record.body, text, (number,), flag=record.flag, sys_flag=sys_flag)

    def require_origin(self) -> str:
        """Return the origin; raise `DecodeError` if it is not known."""
        if self.origin is None:
            what = "the dead letter does not name the topic that it was first sent to"
            raise DecodeError(what, advice=_NO_ORIGIN)
        return self.origin

    @property
    def _is_of_broker(self) -> bool:
        return self.queue.topic.startswith(DEAD_LETTER_PREFIX)

    @cached_property
    def _properties(self) -> Mapping[str, str]:
        """The properties; none if they cannot be read."""
        try:
            return self.message.properties
        except DecodeError:
            return {}

    def _user_topic(self, topic: str) -> str:
        """Return the user's name of a topic that a letter names.

        For consumers that pop, that is a retry topic of its own for each topic: `%RETRY%group_topic`, or with a plus.
        """
        unwrap = self.message.unwrap
        retries = RETRY_PREFIX + self.queue.topic.removeprefix(DEAD_LETTER_PREFIX)
        name = unwrap(topic)
        return unwrap(name.removeprefix(f"{retries}_").removeprefix(f"{retries}+"))


def fault_of_target(target: str, letter_topic: str) -> str | None:
    """Return why the letters in a topic must not be sent to this one, or None if they may; both are names of users."""
    if target == letter_topic:
        return "the letters lie in this topic"
    if target.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return "the topic belongs to a consumer group"
    if is_system_topic(target):
        return "a topic of RocketMQ's own"
    return None if is_topic_name(target) else "no topic's name"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """The choice of letters in a topic; by default all."""

    queue: str | None = None
    """The name of the only queue: `BROKER/ID`."""
    cause: str | None = None
    """A part of the cause, in large or small letters."""
    since_ms: int = 0
    until_ms: int | None = None
    """The end of the time in which the letter was stored; the end itself does not belong to it."""

    def wants(self, letter: StoredLetter) -> bool:
        """Return whether a letter of a wanted queue is wanted."""
        is_late = self.until_ms is not None and letter.stored_ms >= self.until_ms
        if is_late or letter.stored_ms < self.since_ms:
            return False
        return self.cause is None or self.cause.casefold() in (letter.cause or "").casefold()


# --- where letters lie -----------------------------------------------------------------------------------------------


def find_letter_topic(cluster: Cluster, name: str) -> str:
    """Return the topic of the dead letters that a name means: those of a group, or those in a topic.

    Raise `TopicNotFound` if there is neither topic nor group, and `OptionError` if both have dead letters.
    """
    unwrap = cluster.settings.namespace.unwrap
    if name.startswith(TOPIC_MARK):
        return cluster.routes.route(unwrap(name.removeprefix(TOPIC_MARK))).topic
    name = unwrap(name)
    group = name.removeprefix(DEAD_LETTER_PREFIX)
    of_group = dead_letter_topic(group)
    found = [topic for topic in dict.fromkeys((of_group, name)) if cluster.routes.has(topic)]
    if len(found) == 2:
        advice = f"give {of_group} for those of the group, {TOPIC_MARK}{name} for those in the topic"
        raise OptionError("NAME", name, "both a topic and a group with dead letters", advice=advice)
    if not found and not _is_group(cluster, group):
        advice = "check the name: a group, or a topic to which Spark's tasks write dead letters"
        raise TopicNotFound("there is neither a group nor a topic of this name", advice=advice, topic=name)
    return found[0] if found else of_group


def _is_group(cluster: Cluster, name: str) -> bool:
    survey = cluster.survey
    found = survey.fetch_group_configs(survey.fetch_brokers())
    return any(name in groups for groups in found.values() if isinstance(groups, Mapping))


def fetch_letter_bounds(
    cluster: Cluster, topic: str, queue: str | None = None, *, partly: bool = False
) -> dict[MessageQueue, QueueBounds]:
    """Return the bounds of a topic's queues, or of the one that a text BROKER/ID names; none if there is no topic.

    Raise `NoBrokerAvailable` if a broker lets nobody read its queues, unless one queue is named or `partly` is true,
    and where only a replica answers: it may lack letters.
    """
    bounds = cluster.offsets.fetch_bounds(choose_letter_queues(cluster, topic, queue, partly=partly))
    for each, found in bounds.items():
        if found.from_replica:
            what, advice = (
                "only a replica of the broker answers, which may lack letters",
                "wait for the broker's master",
            )
            raise NoBrokerAvailable(what, advice=advice, topic=topic, broker=each.broker_name)
    return bounds


def choose_letter_queues(
    cluster: Cluster, topic: str, queue: str | None = None, *, partly: bool = False
) -> Sequence[MessageQueue]:
    """Return the queues of a topic that may be read, or the one that a text BROKER/ID names; none without a topic."""
    try:
        route = cluster.routes.route(topic)
    except TopicNotFound:
        return ()
    if not route.readable:
        advice = f"give it read permission: mqadmin updateTopicPerm -t {topic} -p 6"
        raise NoBrokerAvailable("no queue of the topic may be read now", advice=advice, topic=topic)
    hidden = sorted(route.brokers.keys() - {each.broker_name for each in route.readable})
    if hidden and queue is None and not partly:
        what = f"the broker's queues may not be read now, and {len(hidden) - 1} other brokers' neither"
        what = what if hidden[1:] else "the broker's queues may not be read now"
        advice = f"give read permission: mqadmin updateTopicPerm -t {topic} -p 6; or name a queue of another broker"
        raise NoBrokerAvailable(what, advice=advice, topic=topic, broker=hidden[0])
    if queue is None:
        return route.readable
    return [find_queue(route.readable, topic, queue, option="queue", kind="readable")]
