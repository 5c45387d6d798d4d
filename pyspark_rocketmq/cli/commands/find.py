"""Find messages by key, by id, or by the time at which they were stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...broker_errors import BrokerSystemError, QueryNotFound
from ...errors import DecodeError, OptionError, RocketMQError
from ...model import MessageQueue, QueueRange
from ..command import Command, Parameter
from ..exits import NotFound
from ..messages import (
    BODY,
    FILTERS,
    MessageRow,
    make_filter,
    ranges_between,
    read_messages,
    show_messages,
    to_row,
)
from ..positions import resolve_time
from ..views import Note, View

if TYPE_CHECKING:
    from ...client.message import ReceivedMessage
    from ...cluster.messages import FoundMessage
    from ..session import Session

__all__ = ["COMMANDS"]

_AT_MOST = "there may be more: a broker returns only the last 64 messages with a key; --since reads all of a topic"


@dataclass(frozen=True, slots=True)
class Found:
    """Messages, in the order in which they were stored: the first ones since a time, the last ones with a key."""

    messages: tuple[MessageRow, ...]
    is_cut: bool
    """Whether there may be more."""
    warnings: tuple[str, ...]
    """Messages that were to be read and are lost, and a limit of brokers that was reached."""


class Search(NamedTuple):
    """The values of the parameters that say which messages are meant."""

    key: str | None
    id: str | None
    since: str | None
    until: str | None
    tags: str | None
    sql: str | None

    def check(self) -> None:
        """Raise `OptionError` unless exactly one kind of search is given."""
        if [self.key, self.id, self.since].count(None) != 2:
            raise OptionError("find", None, "needs exactly one of --key, --id and --since", advice="see find --help")
        if not (self.key or self.id or self.since or "").strip():
            raise OptionError("find", None, "the value of --key, --id or --since is blank", advice="write what to find")
        if self.since is None and (self.until or self.tags or self.sql):
            raise OptionError("find", None, "--until, --tags and --sql go with --since only", advice="leave them out")

    def __str__(self) -> str:
        if self.since:
            return f"a store time since {self.since}"
        return f"key {self.key}" if self.key else f"id {self.id}"


def _run(session: Session, topic: str, limit: int, body: str | None, **wanted: str | None) -> Found:
    from ..store_order import require_count

    search = Search(**wanted)
    search.check()
    require_count("--limit", limit)
    if search.key is not None:
        found = _by_key(session, topic, search.key, limit, body)
    elif search.since is not None:
        found = _by_time(session, topic, search, limit, body)
    else:
        found = _by_id(session, topic, search.id or "", limit, body)
    if not found.messages:
        advice = "; ".join((*found.warnings, "check topic, name server and retention"))
        raise NotFound(f"no message of {topic} has {search}", advice=advice)
    return found


def _by_key(session: Session, topic: str, key: str, limit: int, body: str | None) -> Found:
    """Return the messages that were stored last: brokers return the last ones, and only so many."""
    from ...cluster.messages import MOST_BY_KEY
    from ..store_order import in_store_order

    found, is_cut = session.cluster.messages.query_by_key(topic, key, max_count=limit + 1)
    rows = in_store_order(to_row(each, body) for each in _viewed(session, found))
    warnings = (_AT_MOST,) if is_cut and limit >= MOST_BY_KEY else ()
    return Found(tuple(rows[-limit:]), is_cut or len(rows) > limit, warnings)


def _by_time(session: Session, topic: str, search: Search, limit: int, body: str | None) -> Found:
    """Return the messages that were stored first since a time."""
    from ..store_order import read_first

    cluster, now_ms = session.cluster, session.now_ms()
    queues = cluster.routes.route(topic).readable
    starts = resolve_time(cluster, queues, "--since", search.since or "", now_ms=now_ms)
    ends = resolve_time(cluster, queues, "--until", search.until or "latest", now_ms=now_ms)
    subscription = make_filter(session, queues, search.tags, search.sql)
    warnings: list[str] = []

    def read(ranges: Iterable[QueueRange]) -> Iterator[ReceivedMessage]:
        return read_messages(session, ranges, subscription, warnings.append)

    rows = read_first(read, ranges_between(starts, ends), limit + 1, partial(to_row, body=body))
    return Found(tuple(rows[:limit]), len(rows) > limit, tuple(warnings))


def _by_id(session: Session, topic: str, message_id: str, limit: int, body: str | None) -> Found:
    from ..store_order import in_store_order

    rows = in_store_order(to_row(each, body) for each in _view_id(session, topic, message_id))
    return Found(tuple(rows[:limit]), len(rows) > limit, ())


def _view_id(session: Session, topic: str, message_id: str) -> Iterable[ReceivedMessage]:
    """Return the message with an id: a unique id of a producer, else the id that a broker gave."""
    from ...cluster.messages import FoundMessage

    messages = session.cluster.messages
    found = messages.query_by_unique_key(topic, message_id)
    if not found and (broker_name := _broker_in(session, topic, message_id)):
        with suppress(QueryNotFound, BrokerSystemError, DecodeError):
            record = messages.view(message_id, topic)
            if record.topic == topic:
                found = [FoundMessage(MessageQueue(topic, broker_name, record.queue_id), record)]
    return _viewed(session, found)


def _broker_in(session: Session, topic: str, message_id: str) -> str | None:
    """Return the broker of the topic whose address is in a message id; None if no broker has it.

    An id may name any address; requests with the user's signature go to brokers only.
    """
    from ...wire.message_id import decode_offset_message_id

    try:
        address = session.cluster.settings.address_map.reach(decode_offset_message_id(message_id)[0])
    except RocketMQError:
        return None
    for name, broker in session.cluster.routes.route(topic).brokers.items():
        if address in [each.address for each in broker.endpoints]:
            return name
    return None


def _viewed(session: Session, found: Iterable[FoundMessage]) -> list[ReceivedMessage]:
    from ...client.message import Pulled, view_record

    unwrap = session.cluster.settings.namespace.unwrap
    return [view_record(Pulled(each.queue, memoryview(b""), 0, 0, unwrap), each.record) for each in found]


def _show(found: Found) -> list[View]:
    views = [*show_messages(found.messages), *(Note(text, is_warning=True) for text in found.warnings)]
    if found.is_cut and _AT_MOST not in found.warnings:
        views.append(Note("there may be more; --limit shows more", is_warning=True))
    return views


COMMANDS = (
    Command(
        "find",
        Found,
        _run,
        _show,
        parameters=(
            Parameter("TOPIC", "topic", is_required=True),
            Parameter("--key", "messages with this key", metavar="KEY"),
            Parameter("--id", "the message with this id: a producer's or a broker's", metavar="ID"),
            Parameter("--since", "messages stored at this time or later: -2h, 2026-01-31T00:00:00Z", metavar="TIME"),
            Parameter("--until", "messages stored before this time", metavar="TIME"),
            Parameter("--limit", "most messages to show, at most 10000", int, 100, metavar="COUNT"),
            *FILTERS,
            BODY,
        ),
        details="Give exactly one of --key, --id and --since. Brokers find keys and ids by an index, which they keep "
        "as long as the messages; each returns at most the last 64 messages with a key. --limit shows the last ones "
        "with a key, and the first ones since a time.",
        examples=(
            "pyspark-rocketmq find orders --key key-3",
            "pyspark-rocketmq find orders --since -1h --limit 5 --tags new",
        ),
    ),
)
