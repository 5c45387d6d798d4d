"""Find messages by key, by id, or by the time at which they were stored."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ...broker_errors import BrokerSystemError, QueryNotFound
from ...errors import DecodeError, OptionError, RocketMQError
from ...model import MessageQueue
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
from ..positions import resolve
from ..views import Note, View

if TYPE_CHECKING:
    from ...client.message import ReceivedMessage
    from ...cluster.messages import FoundMessage
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class Found:
    """Messages, in the order in which they were stored; `is_cut` says that there may be more."""

    messages: tuple[MessageRow, ...]
    is_cut: bool


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
        if self.since is None and (self.until or self.tags or self.sql):
            raise OptionError("find", None, "--until, --tags and --sql go with --since only", advice="leave them out")

    def __str__(self) -> str:
        if self.since:
            return f"a store time since {self.since}"
        return f"key {self.key}" if self.key else f"id {self.id}"


def _run(session: Session, topic: str, limit: int, body: str | None, **wanted: str | None) -> Found:
    search = Search(**wanted)
    search.check()
    if limit < 1:
        raise OptionError("--limit", str(limit), "out of range", advice="give at least 1")
    messages = list(islice(_search(session, topic, search, limit), limit + 1))
    if not messages:
        raise NotFound(f"no message of {topic} has {search}", advice="check topic, name server and retention")
    rows = sorted((to_row(each, body) for each in messages[:limit]), key=lambda each: (each.stored.ms, each.offset))
    return Found(tuple(rows), len(messages) > limit)


def _search(session: Session, topic: str, search: Search, limit: int) -> Iterable[ReceivedMessage]:
    if search.key is not None:
        return _viewed(session, session.cluster.messages.query_by_key(topic, search.key, max_count=limit + 1))
    if search.since is None:
        return _by_id(session, topic, search.id or "")
    cluster, now_ms = session.cluster, session.now_ms()
    queues = cluster.routes.route(topic).readable
    starts = resolve(cluster, queues, "--since", search.since, now_ms=now_ms)
    ends = resolve(cluster, queues, "--until", search.until or "latest", now_ms=now_ms)
    subscription = make_filter(session, queues, search.tags, search.sql)
    return read_messages(session, ranges_between(starts, ends), subscription)


def _by_id(session: Session, topic: str, message_id: str) -> Iterable[ReceivedMessage]:
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
    views = show_messages(found.messages)
    return [*views, Note("there may be more; --limit shows more", is_warning=True)] if found.is_cut else views


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
            Parameter("--limit", "most messages to show", int, 100, metavar="COUNT"),
            *FILTERS,
            BODY,
        ),
        details="Brokers find keys and ids by an index, which they keep as long as the messages. Give exactly one of "
        "--key, --id and --since.",
        examples=(
            "pyspark-rocketmq find orders --key key-3",
            "pyspark-rocketmq find orders --since -1h --limit 5 --tags new",
        ),
    ),
)
