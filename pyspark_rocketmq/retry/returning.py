"""How does one task give many rows back to their brokers?

In rounds of as many requests as a broker takes in one burst, all brokers at once, over one connection each. What fails
and may succeed later is asked for again with the rest of its round, after a pause; a task pauses a few times in all,
not for every round. A broker that does not answer even then is not asked again by this task.

A lost answer may hide a success. Then the row is delivered twice, which RocketMQ's own consumers accept as well. It is
delivered no oftener: a row whose answer was lost twice is not asked for a third time.
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
"""How often a row may be stored for want of answers."""

Outcome = RocketMQError | None
"""Why a row was not taken back; nothing if it was."""


class Returned(NamedTuple):
    """A row on its way back, by the columns that say which message it is."""

    topic: str
    broker_name: str
    physical_offset: int
    message_id: str | None
    delay_level: int


@dataclass(frozen=True, slots=True)
class ReturnSettings:
    """For whom rows are sent back, and how often."""

    group: str
    max_reconsume_times: int


class Returner:
    """Gives the rows of one task back."""

    def __init__(
        self, cluster: Cluster, settings: ReturnSettings, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._sleep = sleep
        self._pauses = 0
        self._silent: dict[tuple[str, str], RocketMQError] = {}
        """Topics at brokers that gave no answer."""

    def send_back(self, rows: Mapping[int, Returned]) -> dict[int, Outcome]:
        """What became of each row, by its number."""
        outcomes = {number: _refusal(row) for number, row in rows.items()}
        numbers = [number for number, refusal in outcomes.items() if refusal is None]
        for start in range(0, len(numbers), BURST):
            outcomes |= self._send_round({number: rows[number] for number in numbers[start : start + BURST]})
        return outcomes

    def _send_round(self, rows: Mapping[int, Returned]) -> dict[int, Outcome]:
        silent = {number: self._silent.get(_place(row)) for number, row in rows.items()}
        asked = {number: row for number, row in rows.items() if silent[number] is None}
        outcomes = self._ask(asked)
        copies = Counter(_perhaps_taken(outcomes))
        while (failed := _worth_asking_again(outcomes, copies)) and self._has_pauses_left:
            self._pause()
            again = self._ask({number: rows[number] for number in failed})
            copies.update(_perhaps_taken(again))
            outcomes |= again
        self._silent |= {_place(rows[number]): error for number, error in outcomes.items() if _is_silence(error)}
        return silent | outcomes

    def _ask(self, rows: Mapping[int, Returned]) -> dict[int, Outcome]:
        """Ask for each row once; every step has the deadline of its kind."""
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


def _worth_asking_again(outcomes: Mapping[int, Outcome], copies: Mapping[int, int]) -> list[int]:
    return [number for number, error in outcomes.items() if error and error.retriable and copies[number] < _MOST_COPIES]


def _perhaps_taken(outcomes: Mapping[int, Outcome]) -> list[int]:
    """Rows that went out and got no answer: nobody knows whether their broker took them."""
    lost = (ConnectionLost, RequestTimeout, RemoteProtocolError)
    return [number for number, error in outcomes.items() if isinstance(error, lost)]


def _is_silence(outcome: Outcome) -> TypeGuard[RocketMQError]:
    """Whether no broker said so."""
    return outcome is not None and not isinstance(outcome, BrokerError)


def _refusal(row: Returned) -> Outcome:
    """What is wrong with the row itself."""
    place: dict[str, object] = dict(zip(("topic", "brokerName", "commitLogOffset"), row, strict=False))
    if missing := [column for column, value in place.items() if value is None]:
        advice = "leave such rows out; inner batches and rows read over gRPC have no place in a log"
        return OptionError(missing[0], None, "null, so the broker cannot find the message", advice=advice)
    if not DEAD_LETTER_LEVEL <= row.delay_level <= _LAST_LEVEL:
        advice = f"give {DEAD_LETTER_LEVEL}..{_LAST_LEVEL}"
        return OptionError("delayLevel", str(row.delay_level), "out of range", advice=advice)
    return None
