"""Follow a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING

from ...errors import OptionError, RocketMQError
from ...model import MessageQueue, QueueBounds, QueueRange
from ..asking import may_pass
from ..checks.together import map_together
from ..command import Command, Parameter
from ..messages import BODY, FILTERS, MessageRow, make_filter, read_messages, show_messages, to_row
from ..positions import resolve_time
from ..views import View, show_count

if TYPE_CHECKING:
    from ...client.message import ReceivedMessage
    from ...pull.settings import Subscription
    from ..session import Session

__all__ = ["COMMANDS", "Follower"]

_PAUSE_S = 0.5
"""The pause between two questions whether there are new messages; one request per broker asks."""
_MOST_OFFSETS = 10_000
"""Most offsets of a queue that are read before the others get their turn."""


def _run(
    session: Session, topic: str, start: str, count: int | None, tags: str | None, sql: str | None, body: str | None
) -> Iterator[MessageRow]:
    if count is not None and count < 1:
        raise OptionError("--count", str(count), "out of range", advice="give at least 1, or leave it out")
    with session.screen.waiting("tail: waiting for the cluster"):
        queues = session.cluster.routes.route(topic).readable
        subscription = make_filter(session, queues, tags, sql)
        positions = resolve_time(session.cluster, queues, "--from", start, now_ms=session.now_ms())
    messages = Follower(session, topic, positions, subscription).follow()
    return (to_row(each, body) for each in islice(messages, count))


class Follower:
    """Reads the queues of a topic as they grow.

    A failure that may pass is told once, and ends nothing: the queues of other brokers are read on.
    """

    def __init__(
        self, session: Session, topic: str, positions: dict[MessageQueue, int], subscription: Subscription
    ) -> None:
        self._session = session
        self._topic = topic
        self._positions = positions
        """The next offset to read of each queue."""
        self._subscription = subscription
        self._away: frozenset[MessageQueue] = frozenset()
        """The queues that have left the route."""
        self._failures: frozenset[_Failure] = frozenset()
        """The places of the last round's failures."""

    def follow(self) -> Iterator[ReceivedMessage]:
        """Yield messages from the positions on, for ever; queues that are new are read from their first message."""
        while True:
            failures: list[RocketMQError] = []
            ranges: list[QueueRange] = []
            try:
                ranges = self._find_waiting(failures)
                yield from self._read(ranges)
            except RocketMQError as error:
                failures.append(error)
            self._tell(failures)
            if failures or not ranges:
                self._session.sleep(_PAUSE_S)

    def _read(self, ranges: Collection[QueueRange]) -> Iterator[ReceivedMessage]:
        for message in read_messages(self._session, ranges, self._subscription):
            # After a failure, the next round begins behind the messages that were yielded.
            self._positions[message.queue] = message.offset + 1
            yield message
        self._positions.update((each.queue, each.end) for each in ranges)

    def _tell(self, failures: Collection[RocketMQError]) -> None:
        """Tell failures that the round before did not have; raise one that will not pass."""
        for error in failures:
            if not may_pass(error):
                raise error
        places = {_failure_of(error): error for error in failures}
        for place in sorted(places.keys() - self._failures):
            self._session.screen.warn(f"{places[place]}; going on")
        self._failures = frozenset(places)

    def _find_waiting(self, failures: list[RocketMQError]) -> list[QueueRange]:
        """Return the ranges that wait to be read; brokers that do not answer go to `failures`."""
        queues = self._session.cluster.routes.route(self._topic).readable
        self._tell_of_left_queues(queues)
        bounds = self._fetch_bounds(queues, failures)
        ranges = (self._range(queue, each) for queue, each in bounds.items())
        return [each for each in ranges if each and each.offset_count > 0]

    def _fetch_bounds(
        self, queues: Collection[MessageQueue], failures: list[RocketMQError]
    ) -> dict[MessageQueue, QueueBounds]:
        """Return the bounds of the queues, by one burst; while a broker fails, each is asked by itself, together."""
        fetch = self._session.cluster.offsets.fetch_bounds
        if not self._failures:
            try:
                return fetch(queues)
            except RocketMQError as error:
                if not may_pass(error):
                    raise

        def ask(held: list[MessageQueue]) -> dict[MessageQueue, QueueBounds] | RocketMQError:
            try:
                return fetch(held)
            except RocketMQError as error:
                return error

        by_broker = groupby(sorted(queues, key=_broker_of), key=_broker_of)
        bounds: dict[MessageQueue, QueueBounds] = {}
        for found in map_together(ask, [list(held) for _, held in by_broker]):
            if isinstance(found, RocketMQError):
                failures.append(found)
            else:
                bounds |= found
        return bounds

    def _range(self, queue: MessageQueue, bounds: QueueBounds) -> QueueRange | None:
        """Return what is to be read of a queue; tell of messages that are gone, and of a queue that was made again."""
        low, high, from_replica = bounds
        at = self._positions.setdefault(queue, low)
        if at > high and from_replica:
            return None  # The replica lags behind what the master had.
        if at > high:
            self._session.screen.warn(
                f"{queue} ends at {high} now, before {at}: it was made again, and is read from {low}"
            )
            at = low
        if at < low:
            self._session.screen.warn(f"messages from {at} to {low} of {queue} are gone")
        self._positions[queue] = start = max(at, low)
        return QueueRange(queue, start, min(high, start + _MOST_OFFSETS))

    def _tell_of_left_queues(self, queues: Collection[MessageQueue]) -> None:
        away = frozenset(self._positions.keys() - set(queues))
        for broker, count in Counter(map(_broker_of, away - self._away)).items():
            what, them = f"{show_count(count, 'queue')} of {broker} left the route", "it" if count == 1 else "them"
            self._session.screen.warn(f"{what}, to be read on when the route has {them} again")
        self._away = away


_Failure = tuple[str, str, str]


def _failure_of(error: RocketMQError) -> _Failure:
    """Return which broker fails and how; the texts of one failure have other numbers in each round."""
    return error.code, error.where.get("broker", ""), error.where.get("address", "")


def _broker_of(queue: MessageQueue) -> str:
    return queue.broker_name


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
        "Messages of one queue come in order. It begins when all brokers of the topic answer; one that fails later is "
        "told, and read on when it answers again.",
        examples=("pyspark-rocketmq tail orders --from earliest -n 5 --tags new",),
        is_stream=True,
    ),
)
