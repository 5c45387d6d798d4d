"""Read messages for commands, and show them: bodies as text, JSON or hexadecimal digits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from ..errors import DecodeError, OptionError, shown
from ..model import MessageQueue, QueueRange, find_queue
from .command import Parameter
from .values import Moment, moment
from .views import Text, View, show_size, show_time

if TYPE_CHECKING:
    from ..client.message import ReceivedMessage
    from ..cluster.cluster import Cluster
    from ..pull.settings import PullSettings, Subscription
    from .session import Session

__all__ = [
    "BODY",
    "FILTERS",
    "MessageRow",
    "choose_queue",
    "make_filter",
    "ranges_between",
    "read_messages",
    "show_messages",
    "to_row",
]

_MOST_SHOWN = 4000
"""Most characters of a body that people see; `--json` has all."""
_RETRIES = 2
_LONGER = 2
"""A broker may be silent for so many times the timeout of other requests, since responses to pulls are long."""
_MOST_DEPTH = 100
"""Most levels of a JSON body; a deeper one is text, since programs that read it could fail."""

BODY = Parameter(
    "--body", "body as text, JSON or hexadecimal digits; none leaves it out (default: text, else hex)",
    choices=("text", "json", "hex", "none"),
)  # fmt: skip
FILTERS = (
    Parameter("--tags", "only messages with one of these tags, for example 'new || paid'", metavar="TAGS"),
    Parameter("--sql", "only messages for which this SQL92 condition on properties holds", metavar="CONDITION"),
)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    message_id: str
    tags: str | None
    keys: tuple[str, ...]
    born: Moment
    stored: Moment
    reconsume_times: int
    bytes: int
    """Size of the body as it is stored, perhaps compressed."""
    properties: dict[str, str]
    """All properties, also those of RocketMQ itself."""
    has_broken_properties: bool
    """Whether the properties cannot be read; they are empty then, and the id is the one that the broker gave."""
    body: Any
    """Text, or with `--body json` a JSON value; null if it was not asked for or cannot be unpacked."""
    body_format: str
    """One of `text`, `json`, `hex`, `none` and `broken`."""


def to_row(message: ReceivedMessage, body: str | None = None) -> MessageRow:
    """Return a message as commands print it, with its body in this format."""
    content, form = _body(message, body)
    known = _properties(message)
    properties = known or {}
    return MessageRow(
        topic=message.queue.topic,
        broker=message.queue.broker_name,
        queue_id=message.queue.queue_id,
        offset=message.offset,
        message_id=message.record.offset_message_id if known is None else message.message_id,
        tags=properties.get("TAGS"),
        keys=tuple(properties.get("KEYS", "").split()),
        born=moment(message.born_timestamp_ms),
        stored=moment(message.store_timestamp_ms),
        reconsume_times=message.reconsume_times,
        bytes=message.body_bytes,
        properties=dict(properties),
        has_broken_properties=known is None,
        body=content,
        body_format=form,
    )


def _properties(message: ReceivedMessage) -> Mapping[str, str] | None:
    """Return a message's properties; None if they cannot be read."""
    try:
        return message.properties
    except DecodeError:
        return None


def _body(message: ReceivedMessage, form: str | None) -> tuple[Any, str]:
    """Return the body and its format; text that is none becomes hexadecimal digits, JSON that is none text."""
    if form == "none":
        return None, "none"
    try:
        data = message.body
    except DecodeError:
        return None, "broken"
    if form == "hex":
        return data.hex(), "hex"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex(), "hex"
    if form == "json":
        try:
            return _parse(text), "json"
        except (ValueError, RecursionError):
            pass
    return text, "text"


def _parse(text: str) -> Any:
    """Return a JSON value; raise ValueError for text that is none, and for a value that could not be written again."""
    value = json.loads(text, parse_float=_finite, parse_constant=_finite)
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [part for each in level for part in _parts(each)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


# --- reading ---------------------------------------------------------------------------------------------------------


def read_messages(
    session: Session,
    ranges: Iterable[QueueRange],
    subscription: Subscription | None = None,
    warn: Callable[[str], object] | None = None,
) -> Iterator[ReceivedMessage]:
    """Yield the messages of ranges; with a subscription, only those that it wants.

    `warn` gets a line about messages that are lost; without it, they are told on the screen.
    """
    from ..client.range_reading import read_queue_ranges

    settings = _settings(session, subscription)
    tags = _tags(settings.subscription)
    wanted = [each for each in ranges if each.offset_count > 0]
    for message in read_queue_ranges(session.cluster, wanted, settings, warn or session.screen.warn):
        if not tags or _may_have(message, tags):
            yield message


def _may_have(message: ReceivedMessage, tags: frozenset[str]) -> bool:
    """Return whether a message has one of the tags; brokers compare hashes of tags, so others may come along."""
    properties = _properties(message)
    return properties is None or properties.get("TAGS") in tags


def make_filter(session: Session, queues: Iterable[MessageQueue], tags: str | None, sql: str | None) -> Subscription:
    """Return the subscription of `--tags` or `--sql` for reading these queues.

    Raise `OptionError` if both are given, or if brokers cannot read the condition: they would send all messages.
    """
    from ..pull.settings import Subscription
    from ..source.filters import require_filter

    if tags is not None and sql is not None:
        raise OptionError("--tags", tags, "not together with --sql", advice="drop one of the two")
    if tags is not None and not tags.strip(" |"):
        raise OptionError("--tags", tags, "names no tag", advice="name tags, or leave it out")
    if sql is not None:
        subscription = Subscription(sql, "SQL92")
        require_filter(session.cluster, _settings(session, subscription), queues)
        return subscription
    return Subscription("||".join(part.strip() for part in tags.split("||"))) if tags else Subscription()


def _settings(session: Session, subscription: Subscription | None) -> PullSettings:
    """Return settings of pulls under the group for readers without one.

    Under the group of the options, brokers would take an administrator's reset away from it, or create it.
    """
    from ..cluster.names import READER_GROUP
    from ..pull.settings import PullSettings, Subscription

    longest_s = _LONGER * session.cluster.settings.net.request_timeout_s
    return PullSettings(
        group=READER_GROUP,
        subscription=subscription or Subscription(),
        pull_timeout_s=longest_s,
        max_retries=_RETRIES,
        stall_timeout_s=longest_s,
    )


def _tags(subscription: Subscription) -> frozenset[str]:
    if subscription.expression_type != "TAG" or subscription.expression == "*":
        return frozenset()
    return frozenset(subscription.expression.split("||"))


def choose_queue(cluster: Cluster, topic: str, text: str | None) -> list[MessageQueue]:
    """Return the readable queues of a topic, or the one that a text BROKER/ID names."""
    queues = list(cluster.routes.route(topic).readable)
    if text is None:
        return queues
    return [find_queue(queues, topic, text, option="--queue", kind="readable")]


# --- for people ------------------------------------------------------------------------------------------------------


def show_messages(messages: Sequence[MessageRow]) -> list[View]:
    """Return messages as people see them: a line about each, and its body below."""
    return [Text("\n".join(_lines(each))) for each in messages]


def _lines(row: MessageRow) -> Iterator[str]:
    facts = [f"{row.topic}/{row.broker}/{row.queue_id} @ {row.offset}", show_time(row.stored)]
    if row.tags:
        facts.append(f"tags {row.tags}")
    if row.keys:
        facts.append(f"keys {' '.join(row.keys)}")
    if row.reconsume_times:
        facts.append(f"redelivered {row.reconsume_times} times")
    yield shown(" · ".join([*facts, f"id {row.message_id}", show_size(row.bytes)]), _MOST_SHOWN)
    if row.has_broken_properties:
        yield "  (the properties cannot be read)"
    if row.body_format == "broken":
        yield "  (the body cannot be unpacked)"
    elif row.body_format != "none":
        yield from (f"  {shown(line, _MOST_SHOWN)}" for line in _body_text(row).split("\n"))


def _body_text(row: MessageRow) -> str:
    text = json.dumps(row.body, ensure_ascii=False) if row.body_format == "json" else str(row.body)
    cut = len(text) - _MOST_SHOWN
    return text if cut <= 0 else f"{text[:_MOST_SHOWN]}\n… {cut} more characters; --json has all"


def ranges_between(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> list[QueueRange]:
    """Return the range of each queue from its start to its end; an end before the start makes an empty range."""
    return [QueueRange(queue, start, max(start, ends[queue])) for queue, start in starts.items()]
