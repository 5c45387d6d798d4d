"""Send the rows of one task back to their brokers.

Rows are sent in rounds, each of as many requests as a broker takes in one burst, to all brokers at once, over one
connection to each. Requests that failed but may succeed later are repeated after a pause, together with others of their
round. The number of pauses is limited for the whole task, not for each round. A broker that does not answer even then
gets no more rows of the same topic from this task.

If a response is lost, the broker may have accepted the row all the same. If the row is then sent again, it is delivered
twice, which happens with RocketMQ's own consumers as well. A row whose response was lost twice is not sent a third
time, so no row is delivered more than twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from ..cluster.broker import RoutedRequest
from ..cluster.cluster import Cluster
from ..cluster.links import BURST
from ..cluster.messages import send_back_request
from ..cluster.servers import Reply
from ..errors import BrokerError, ConnectionLost, OptionError, RemoteProtocolError, RequestTimeout, RocketMQError

__all__ = ["DEAD_LETTER_LEVEL", "Outcome", "ReturnSettings", "Returned", "Returner"]

DEAD_LETTER_LEVEL = -1
_LAST_LEVEL = 18
_MOST_COPIES = 2
"""The largest number of times that a row is sent without a response; the broker may have stored it each time."""

Outcome = RocketMQError | None
"""The error because of which a row was not accepted by its broker; None if it was accepted."""


class Returned(NamedTuple):
    """A row to send back: the columns that identify its message, and its delay level."""

    topic: str
    broker_name: str
    physical_offset: int
    message_id: str | None
    delay_level: int


@dataclass(frozen=True, slots=True)
class ReturnSettings:
    """The group for which rows are sent back, and the number of further deliveries before they become dead letters."""

    group: str
    max_reconsume_times: int


class Returner:
    """Sends rows of one Spark task back to the brokers that they came from, for later delivery."""

    def __init__(
        self, cluster: Cluster, settings: ReturnSettings, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._sleep = sleep
        self._pauses = 0
        self._silent: dict[tuple[str, str], RocketMQError] = {}
        """The errors of (topic, broker name) pairs to which this task sends no more, because no response came."""

    def send_back(self, rows: Mapping[int, Returned]) -> dict[int, Outcome]:
        """Send rows back, and return the outcome of each row, under the row's key in `rows`."""
        outcomes = {number: _refusal(row) for number, row in rows.items()}
        numbers = [number for number, refusal in outcomes.items() if refusal is None]
        for start in range(0, len(numbers), BURST):
            outcomes |= self._send_round({number: rows[number] for number in numbers[start : start + BURST]})
        return outcomes

    def _send_round(self, rows: Mapping[int, Returned]) -> dict[int, Outcome]:
        silent = {number: self._silent.get(_place(row)) for number, row in rows.items()}
        sent = {number: row for number, row in rows.items() if silent[number] is None}
        outcomes = self._send(sent)
        copies = Counter(_perhaps_accepted(outcomes))
        while (failed := _to_repeat(outcomes, copies)) and self._has_pauses_left:
            self._pause()
            again = self._send({number: rows[number] for number in failed})
            copies.update(_perhaps_accepted(again))
            outcomes |= again
        self._silent |= {_place(rows[number]): error for number, error in outcomes.items() if _is_silence(error)}
        return silent | outcomes

    def _send(self, rows: Mapping[int, Returned]) -> dict[int, Outcome]:
        """Send each row to its broker once; return, by the keys of `rows`, None for an accepted row, else the error.

        A request that takes too long has a timeout as its error.
        """
        results = self._cluster.brokers.try_all({number: self._request(row) for number, row in rows.items()})
        return {number: None if isinstance(result, Reply) else result for number, result in results.items()}

    def _request(self, row: Returned) -> RoutedRequest:
        return send_back_request(
            self._settings.group,
            row.topic,
            row.broker_name,
            row.physical_offset,
            delay_level=row.delay_level,
            origin_message_id=row.message_id,
            max_reconsume_times=self._settings.max_reconsume_times,
        )

    @property
    def _has_pauses_left(self) -> bool:
        """Whether this task may pause once more."""
        return self._pauses < self._cluster.settings.retries

    def _pause(self) -> None:
        self._sleep(self._cluster.settings.pause.delay_s(self._pauses))
        self._pauses += 1


def _place(row: Returned) -> tuple[str, str]:
    return row.topic, row.broker_name


def _to_repeat(outcomes: Mapping[int, Outcome], copies: Mapping[int, int]) -> list[int]:
    return [number for number, error in outcomes.items() if error and error.retriable and copies[number] < _MOST_COPIES]


def _perhaps_accepted(outcomes: Mapping[int, Outcome]) -> list[int]:
    """Return the keys of rows that got no valid response, so that their broker may have accepted them."""
    lost = (ConnectionLost, RequestTimeout, RemoteProtocolError)
    return [number for number, error in outcomes.items() if isinstance(error, lost)]


def _is_silence(outcome: Outcome) -> TypeGuard[RocketMQError]:
    """Return whether a row failed without an error response of its broker, for example by a timeout."""
    return outcome is not None and not isinstance(outcome, BrokerError)


def _refusal(row: Returned) -> Outcome:
    """Return an error if an identifying column of the row is null, or its delay level is out of range; else None."""
    place: dict[str, object] = dict(zip(("topic", "brokerName", "commitLogOffset"), row, strict=False))
    if missing := [column for column, value in place.items() if value is None]:
        advice = "leave such rows out; inner batches and rows read over gRPC have no place in a log"
        return OptionError(missing[0], None, "null, so the broker cannot find the message", advice=advice)
    if not DEAD_LETTER_LEVEL <= row.delay_level <= _LAST_LEVEL:
        advice = f"give {DEAD_LETTER_LEVEL}..{_LAST_LEVEL}"
        return OptionError("delayLevel", str(row.delay_level), "out of range", advice=advice)
    return None
