"""Define the nouns that all rooms share.

A *queue* is one numbered partition of a topic at one broker. An *offset* of a reader is always the next one to read; a
*range* is half-open, `[start, end)`. Queues sort as RocketMQ sorts them, because all members of a group must assign
queues from the same list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from .errors import OptionError, shown

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
LIGHT_TOPIC_PREFIX = "%LMQ%"
"""Prefix of light topics: their records refer to messages of another topic, and hold its name, queue and offset."""

CAUSE, ORIGIN_TOPIC = "CAUSE", "ORIGIN_TOPIC"
"""Properties of the dead letters that Spark's tasks write."""

MOST_TOPIC, MOST_GROUP_TOPIC, MOST_GROUP = 127, 255, 120
"""Longest name of a topic, of a topic that brokers create for a group, and of a group, in characters."""
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_MOST_NAMED = 8
"""The most queues that an error lists."""


class MessageQueue(NamedTuple):
    """One queue of a topic at one broker."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{shown(self.topic)}/{shown(self.broker_name)}/{self.queue_id}"


def is_light(queue: MessageQueue) -> bool:
    """Return whether the queue belongs to a light topic, whose records refer to messages in another queue."""
    return queue.topic.startswith(LIGHT_TOPIC_PREFIX)


class MessageModel(Enum):
    """The members of a group that get a message: one of them (CLUSTERING), or all of them (BROADCASTING)."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class QueueRange(NamedTuple):
    """Offsets `[start, end)` of one queue."""

    queue: MessageQueue
    start: int
    end: int
    is_front_open: bool = False
    """Whether the range begins at the queue's first readable message: messages missing at its start are no loss."""

    @property
    def offset_count(self) -> int:
        """Number of offsets in the range, with or without a message."""
        return self.end - self.start


class QueueBounds(NamedTuple):
    """The offsets `[min_offset, max_offset)` that a broker holds of a queue."""

    min_offset: int
    max_offset: int
    """The offset that the next message gets."""
    from_replica: bool = False
    """Whether a replica reported the bounds; it may lag behind its master."""

    @property
    def has_unknown_front(self) -> bool:
        """Whether the queue may hold messages before `min_offset`.

        A replica that joined late copies only the end of its master's log, so its minimum may exceed the master's.
        """
        return self.from_replica and self.min_offset > 0


class Finding(Enum):
    """A way in which brokers can differ from what a reader planned, such as a queue that ends too early."""

    BELOW_MIN = auto()
    ABOVE_MAX = auto()
    WENT_BACK = auto()
    VANISHED = auto()
    NOT_IN_ROUTE = auto()
    RESET_BY_ADMIN = auto()
    MESSAGES_MISSING = auto()


class Block(NamedTuple):
    """The encoded records of one response to a pull, and the range of offsets that is wanted from them."""

    data: memoryview
    wanted: QueueRange
    message_count: int
    """Without a filter, an upper bound of the number of messages; with a filter, the number of records.

    One record may be an inner batch of several messages.
    """
    first: int = 0
    """The offset that the pull requested; the wanted range may begin later."""
    covered: int = 0
    """Number of messages that the response must hold, one per offset from `first` on.

    0 if a filter or compaction may leave some out.
    """
    next_offset: int = 0
    """The offset after the last one that the response answers for; 0 if the records' own offsets decide."""


class Address(NamedTuple):
    """Host and port at which a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    deliver_at_ms: int = 0
    """The time before which it is not delivered, in milliseconds since 1970; brokers before 5.0 ignore it."""


class SendRequest(NamedTuple):
    """The body and the properties of one send, and the rows that it stores."""

    topic: str
    queue: MessageQueue | None
    """None if any queue of the topic will do."""
    body: bytes | memoryview
    properties: str
    rows: Collection[int]
    """The numbers of the rows within the partition."""
    is_batch: bool = False
    flag: int = 0
    sys_flag: int = 0


@lru_cache(maxsize=4096)  # Few names, many queues.
def java_order(text: str) -> bytes:
    """Return a sort key that orders text as Java does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return queues sorted by topic, broker name (both in Java's order) and number."""
    return sorted(queues, key=lambda q: (java_order(q.topic), java_order(q.broker_name), q.queue_id))


def find_queue(queues: Sequence[MessageQueue], topic: str, text: str, *, option: str, kind: str) -> MessageQueue:
    """Return the queue of a topic that a text BROKER/ID names.

    Raise `OptionError` about `option` if it is none of `queues`; `kind` says of which kind these are.
    """
    names = {f"{queue.broker_name}/{queue.queue_id}": queue for queue in queues}
    if text not in names:
        advice = f"queues are: {', '.join(list(names)[:_MOST_NAMED])}"
        raise OptionError(option, text, f"topic {topic} has no such {kind} queue", advice=advice)
    return names[text]


def retry_topic(group: str) -> str:
    """Return the topic from which a group receives messages that it sent back."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic that holds a group's dead letters."""
    return DEAD_LETTER_PREFIX + group


def is_topic_name(name: str) -> bool:
    """Return whether brokers accept a name for a topic; names of retry and dead-letter topics may be longer."""
    most = MOST_GROUP_TOPIC if name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) else MOST_TOPIC
    return len(name) <= most and _NAME.fullmatch(name) is not None


def is_group_name(name: str) -> bool:
    """Return whether brokers accept a name for a group of consumers or producers."""
    return len(name) <= MOST_GROUP and _NAME.fullmatch(name) is not None


MOST_HOST_CHARACTERS = 255
"""Longest DNS name (RFC 1035); a longer one from the network would fill error texts."""


def parse_address(text: str, option: str = "address") -> Address:
    """Return the address in a text `host:port`, with IPv6 hosts in brackets; raise `OptionError` for any other text."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if (
        not (colon and host and port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536)
        or "//" in host
        or len(host) > MOST_HOST_CHARACTERS
        or not host.isprintable()
    ):
        raise OptionError(
            option, text[:MOST_HOST_CHARACTERS], "not an address", advice="give host:port, for example localhost:9876"
        )
    return Address(host, int(port))


def parse_addresses(text: str, option: str = "address") -> tuple[Address, ...]:
    """Return the addresses in a list separated by semicolons or commas; raise `OptionError` for any other text."""
    parts = [part for part in text.replace(",", ";").split(";") if part.strip()]
    if not parts:
        raise OptionError(option, text, "no address", advice="give host:port, several separated by ';'")
    return tuple(parse_address(part, option) for part in parts)
