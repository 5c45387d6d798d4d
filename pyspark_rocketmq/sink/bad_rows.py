"""Deal with rows that cannot be sent, as `onBadRow` says: drop them, or send them to a topic for dead letters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ..encode.dead_letters import DeadLetter, letter_of_request, letters_of_rows, to_batch
from ..encode.faults import Fault
from ..encode.ids import BatchIdentity
from ..encode.requests import Encoder
from ..encode.settings import EncodeSettings
from ..errors import RocketMQError, shown
from ..model import SendRequest
from ..send.outcome import SendStatistics
from .outgoing import Outgoing, Unsendable

if TYPE_CHECKING:
    from ..decode.decoder import RecordBatch

__all__ = ["BadRowHandler", "DeadLetters", "Dropper"]

_SHARE = (15, 16)
"""The part of the largest body that a dead letter takes: a broker may have refused the row because of its size."""
_log = logging.getLogger(__name__)


class BadRowHandler(Protocol):
    """A handler of rows that cannot be sent."""

    dropped: int

    @property
    def dead_letters(self) -> int:
        """The number of rows whose dead letters have landed."""

    @property
    def statistics(self) -> SendStatistics | None:
        """The figures of what was sent for these rows, if anything was."""

    def handle_faults(self, batch: RecordBatch, first: int, faults: Mapping[int, Fault]) -> None:
        """Take rows of a record batch whose first row has the number `first`; `faults` has them by their numbers.

        Raise `Unsendable` only if they cannot be taken.
        """

    def handle_refused(self, request: SendRequest, error: RocketMQError) -> None:
        """Take the row of a request that a broker refused for good; raise `Unsendable` only if it cannot be taken."""

    def check(self) -> None:
        """Raise `Unsendable` if what was done about an earlier row has failed."""

    def finish(self) -> None:
        """Wait until what was done about the rows is complete."""

    def stop(self) -> None:
        """Do nothing more, but count what was done."""

    def close(self) -> None:
        """Release connections."""


class Dropper:
    """Drops rows, counts them, and warns of the first one."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.dropped = 0

    @property
    def dead_letters(self) -> int:
        """Return 0."""
        return 0

    @property
    def statistics(self) -> SendStatistics | None:
        """Return None: nothing is sent."""
        return None

    def handle_faults(self, batch: RecordBatch, first: int, faults: Mapping[int, Fault]) -> None:
        """Drop rows of a record batch."""
        for number, fault in faults.items():
            self._drop(number, f"column {fault.column}: {fault.what}")

    def handle_refused(self, request: SendRequest, error: RocketMQError) -> None:
        """Drop the row of a request that a broker refused."""
        self._drop(next(iter(request.rows)), str(error))

    def _drop(self, number: int, why: str) -> None:
        if not self.dropped:
            text = "row %d of %s is dropped (onBadRow=drop), and others like it without a further warning: %s"
            _log.warning(text, number, self._place, shown(why, 1000))
        self.dropped += 1

    def check(self) -> None:
        """Do nothing: dropping cannot fail."""

    def finish(self) -> None:
        """Do nothing: dropped rows are done with."""

    def stop(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class DeadLetters:
    """Sends rows to the topic for dead letters, with the task's guarantee, and message ids that a replay repeats."""

    def __init__(
        self,
        settings: EncodeSettings,
        identity: BatchIdentity,
        partition: int,
        open_outgoing: Callable[[], Outgoing],
        queues_of: Callable[[str], Sequence],  # type: ignore[type-arg]
        dead_letter_topic: str,
    ) -> None:
        self._topic = settings.topic
        self._most_bytes = settings.max_body_bytes * _SHARE[0] // _SHARE[1]
        self._partition = partition
        self._open = open_outgoing
        self._outgoing: Outgoing | None = None
        # A space makes the name different from that of every sink.
        own = identity._replace(sink_name=f"{identity.sink_name} dead letters")
        own_settings = EncodeSettings(topic=dead_letter_topic, max_body_bytes=settings.max_body_bytes)
        self._encoder = Encoder(own_settings, own, partition, queues_of)
        self._sent = 0
        """Number of rows that the encoder has got."""
        self.dropped = 0

    @property
    def dead_letters(self) -> int:
        """The number of dead letters that have landed."""
        return self._outgoing.landed if self._outgoing else 0

    @property
    def statistics(self) -> SendStatistics | None:
        """The figures of the dead letters' pipeline."""
        return self._outgoing.statistics if self._outgoing else None

    def handle_faults(self, batch: RecordBatch, first: int, faults: Mapping[int, Fault]) -> None:
        """Send rows of a record batch."""
        self._send(letters_of_rows(batch, self._topic, faults, str(self._partition), first))

    def handle_refused(self, request: SendRequest, error: RocketMQError) -> None:
        """Send the row of a request that a broker refused."""
        self._send([letter_of_request(request, str(error))])

    def check(self) -> None:
        """Raise `Unsendable` if a dead letter could not be sent."""
        if self._outgoing:
            self._outgoing.check()

    def finish(self) -> None:
        """Wait until all dead letters have landed; raise `Unsendable` if one has not."""
        if self._outgoing:
            self._outgoing.finish()

    def stop(self) -> None:
        """Send no more dead letters, and count those that have landed."""
        if self._outgoing:
            self._outgoing.stop()

    def close(self) -> None:
        """Leave dead letters that are still in flight to themselves."""
        if self._outgoing:
            self._outgoing.close()

    def _send(self, letters: Sequence[DeadLetter]) -> None:
        refused = [letter for letter, _ in self._send_sound(letters, is_bare=False)]
        if not refused:
            return
        for letter, fault in self._send_sound(refused, is_bare=True):
            raise Unsendable(
                f"the row {letter.row_id} cannot become a dead letter, because of its {fault.column}: {fault.what}",
                advice="correct or leave out such rows, or set onBadRow=drop",
                where={"topic": letter.origin_topic},
                is_bad_row=True,
            )

    def _send_sound(self, letters: Sequence[DeadLetter], *, is_bare: bool) -> list[tuple[DeadLetter, Fault]]:
        """Send dead letters; return those that are not sent because they have a fault, as their rows may have."""
        self._outgoing = self._outgoing or self._open()
        first, self._sent = self._sent, self._sent + len(letters)
        encoded = self._encoder.encode(to_batch(letters, self._most_bytes, is_bare=is_bare))
        self._outgoing.submit(encoded.requests)
        return [(letters[number - first], fault) for number, fault in encoded.faults.items()]
