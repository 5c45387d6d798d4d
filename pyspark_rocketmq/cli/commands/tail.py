"""Follow a topic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ...errors import OptionError
from ...model import MessageQueue, QueueRange
from ..command import Command, Parameter
from ..messages import BODY, FILTERS, MessageRow, make_filter, read_messages, show_messages, to_row
from ..positions import resolve
from ..views import View

if TYPE_CHECKING:
    from ...client.message import ReceivedMessage
    from ...pull.settings import Subscription
    from ..session import Session

__all__ = ["COMMANDS"]

_PAUSE_S = 0.5
"""The pause between two questions whether there are new messages; one request per broker asks."""
_MOST_OFFSETS = 10_000
"""Most offsets of a queue that are read before the others get their turn."""


def _run(
    session: Session, topic: str, start: str, count: int | None, tags: str | None, sql: str | None, body: str | None
) -> Iterator[MessageRow]:
    if count is not None and count < 1:
        raise OptionError("--count", str(count), "out of range", advice="give at least 1, or leave it out")
    queues = session.cluster.routes.route(topic).readable
    subscription = make_filter(session, queues, tags, sql)
    positions = resolve(session.cluster, queues, "--from", start, now_ms=session.now_ms())
    messages = _follow(session, topic, positions, subscription)
    return (to_row(each, body) for each in islice(messages, count))


def _follow(
    session: Session, topic: str, positions: dict[MessageQueue, int], subscription: Subscription
) -> Iterator[ReceivedMessage]:
    """Yield messages from the positions on, for ever; queues that are new are read from their first message."""
    while True:
        ranges = _waiting(session, topic, positions)
        yield from read_messages(session, ranges, subscription)
        positions.update((each.queue, each.end) for each in ranges)
        if not ranges:
            session.sleep(_PAUSE_S)


def _waiting(session: Session, topic: str, positions: dict[MessageQueue, int]) -> list[QueueRange]:
    """Return the ranges that wait to be read; tell of messages that are gone, and of queues that end earlier now."""
    queues = session.cluster.routes.route(topic).readable
    ranges = []
    for queue, (low, high, _) in session.cluster.offsets.fetch_bounds(queues).items():
        at = positions.setdefault(queue, low)
        if at > high:
            session.screen.warn(f"{queue} ends at {high} now, before {at}: was the topic created again?")
            positions[queue] = at = high
        if at < low:
            session.screen.warn(f"messages from {at} to {low} of {queue} are gone")
        start = max(at, low)
        if start < high:
            ranges.append(QueueRange(queue, start, min(high, start + _MOST_OFFSETS)))
    return ranges


def _show(row: MessageRow) -> list[View]:
    return show_messages([row])


COMMANDS = (
    Command(
        "tail",
        MessageRow,
        _run,
        _show,
        parameters=(
            Parameter("TOPIC", "topic", is_required=True),
            Parameter("--from/--start", "begin here: latest, earliest or a time", str, "latest", metavar="WHERE"),
            Parameter("-n/--count", "end after so many messages", int, metavar="COUNT"),
            *FILTERS,
            BODY,
        ),
        details="Prints messages as they come, until Ctrl-C. Reads without a group, so no position moves. "
        "Messages of one queue come in order.",
        examples=("pyspark-rocketmq tail orders --from earliest -n 5 --tags new",),
        is_stream=True,
    ),
)
