"""Which nouns does everybody share?

A *queue* is one numbered partition of a topic on one broker name. An *offset* is always the next one to
read; a *range* is half-open, `[start, end)`. Queues sort as RocketMQ sorts them, because every member of
a group must divide the same list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from .errors import OptionError

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
LIGHT_TOPIC_PREFIX = "%LMQ%"
"""Of topics that hold references to messages of another topic; these bear that topic's name, queue and offset."""


class MessageQueue(NamedTuple):
    """One queue of a topic at one broker."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


def is_light(queue: MessageQueue) -> bool:
    """Whether the queue's records say where they stand in another queue."""
    return queue.topic.startswith(LIGHT_TOPIC_PREFIX)


class QueueRange(NamedTuple):
    """Offsets `[start, end)` of one queue."""

    queue: MessageQueue
    start: int
    end: int
    is_front_open: bool = False
    """The range begins at the first readable message (`earliest`): messages missing at its very front are no loss."""

    @property
    def offset_count(self) -> int:
        """How many offsets the range spans; holes included."""
        return self.end - self.start


class QueueBounds(NamedTuple):
    """The offsets `[min_offset, max_offset)` that a broker holds of a queue."""

    min_offset: int
    max_offset: int
    """The offset that the next message gets."""
    from_replica: bool = False
    """Whether a replica reported them, which may lag behind its master."""

    @property
    def has_unknown_front(self) -> bool:
        """Whether the queue may hold messages before `min_offset`.

        A replica that joined late copies only the end of its master's log, so its minimum may exceed the master's.
        """
        return self.from_replica and self.min_offset > 0


class Finding(Enum):
    """One way in which brokers can differ from what a reader planned."""

    BELOW_MIN = auto()
    ABOVE_MAX = auto()
    WENT_BACK = auto()
    VANISHED = auto()
    NOT_IN_ROUTE = auto()
    RESET_BY_ADMIN = auto()
    GAP = auto()


class Block(NamedTuple):
    """Records of one pull's answer, still encoded, which of their offsets are wanted, and what the answer claims."""

    data: memoryview
    wanted: QueueRange
    message_count: int
    """How many messages there may be at most; who asked for all knows no better before they are decoded."""
    first: int = 0
    """The offset that the pull asked from, whatever part of the answer is wanted."""
    covered: int = 0
    """How many messages the answer must hold, one for each offset from `first` on; 0 where a filter or compaction
    may leave some out."""
    next_offset: int = 0
    """Where the answer ends, whatever part of it is wanted; 0 if its records stand where they say."""


class Address(NamedTuple):
    """Where a server listens."""

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


@lru_cache(maxsize=4096)  # Few names, many queues.
def java_order(text: str) -> bytes:
    """Sort key that orders text as Java does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Queues by topic, broker name (both in Java's order) and number."""
    return sorted(queues, key=lambda q: (java_order(q.topic), java_order(q.broker_name), q.queue_id))


def retry_topic(group: str) -> str:
    """Topic from which a group receives what it sent back."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Topic that keeps what a group gave up on."""
    return DEAD_LETTER_PREFIX + group


MOST_HOST_CHARACTERS = 255
"""No DNS name is longer (RFC 1035); a longer one from the network would fill error texts."""


def parse_address(text: str, option: str = "address") -> Address:
    """Read `host:port`; IPv6 hosts stand in brackets."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if (
        not (colon and host and port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536)
        or "//" in host
        or len(host) > MOST_HOST_CHARACTERS
    ):
        raise OptionError(
            option, text[:MOST_HOST_CHARACTERS], "not an address", advice="give host:port, for example localhost:9876"
        )
    return Address(host, int(port))


def parse_addresses(text: str, option: str = "address") -> tuple[Address, ...]:
    """Read a list of addresses separated by semicolons or commas."""
    parts = [part for part in text.replace(",", ";").split(";") if part.strip()]
    if not parts:
        raise OptionError(option, text, "no address", advice="give host:port, several separated by ';'")
    return tuple(parse_address(part, option) for part in parts)
