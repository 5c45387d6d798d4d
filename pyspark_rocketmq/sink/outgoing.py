"""Send the requests of one task, and count what becomes of their rows.

A row has landed when a broker has acknowledged it with an accepted status. Only then it counts as written. A row that a
broker refuses for good is set aside, if `onBadRow` says so; any other failure ends the task. So does a topic that a
broker does not know: it was lost, or could not be created, which is no fault of a row. Dead letters are sent like rows,
but none of them is set aside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from ..broker_errors import MessageIllegal, TopicNotExist
from ..errors import RocketMQError, Where
from ..model import SendRequest
from ..send.outcome import Outcome, SendStatistics
from ..send.pipeline import SendPipeline
from ..wire.batch import decode_batch
from .queues import creation_advice

__all__ = ["Outgoing", "Unsendable", "split_batch"]

_SUBMITTED_AT_ONCE = 64
"""The number of requests after which outcomes are taken, which costs more than to submit one."""
_REFUSALS = (MessageIllegal,)
"""The errors by which brokers refuse a row for good, because of the row itself."""
SetAside = Callable[[SendRequest, RocketMQError], None]
"""Takes the request of one row that a broker refused for good, and the broker's error; if it raises, it has not."""


class Unsendable(Exception):
    """Rows because of which the task fails."""

    def __init__(self, what: str, *, advice: str, where: Where, is_bad_row: bool) -> None:
        super().__init__(what)
        self.what, self.advice, self.where = what, advice, where
        self.is_bad_row = is_bad_row
        """Whether a row is at fault, and not the cluster."""


class Outgoing:
    """The requests of one task that are in flight, and the numbers of rows that have ended."""

    def __init__(
        self,
        pipeline: SendPipeline,
        set_aside: SetAside | None,
        *,
        keeps_order: bool = False,
        is_of_letters: bool = False,
    ) -> None:
        self._pipeline = pipeline
        pipeline.pass_over(self._may_treat)
        self._set_aside = set_aside
        self._keeps_order = keeps_order
        self._is_of_letters = is_of_letters
        self._refused: deque[Outcome] = deque()
        """Outcomes that wait to be treated row by row, still without counting."""
        self._doubtful: set[int] = set()
        """Rows of batches that may be stored although they were refused in the end; what becomes of each is open."""
        self.landed = 0
        self.unknown = 0
        """Rows that may be stored without an accepted acknowledgement."""

    def send(self, requests: Iterable[SendRequest]) -> None:
        """Send requests; wait only while too many are in flight. Raise `Unsendable` if an earlier one has failed."""
        self._submit(requests)
        self._treat_refused()

    def submit(self, requests: Iterable[SendRequest]) -> None:
        """Send requests; wait only while too many are in flight. If an earlier one has failed, only `check` raises."""
        for request in requests:
            self._pipeline.submit(request)

    def check(self) -> None:
        """Count the requests that have ended; raise `Unsendable` if one has failed."""
        self._judge(self._pipeline.take_outcomes())
        self._treat_refused()

    def finish(self) -> None:
        """Wait until all requests have ended, also those that this wait adds; raise `Unsendable` if one has failed."""
        while outcomes := self._flush():
            self._judge(outcomes)
            self._treat_refused()

    def stop(self) -> None:
        """Wait until the requests in flight have ended, count their rows, and send nothing more."""
        self._pipeline.stop()
        for outcome in (*self._refused, *self._pipeline.take_outcomes()):
            self._count(outcome)
        self._refused.clear()
        self.unknown += len(self._doubtful)
        self._doubtful.clear()

    @property
    def statistics(self) -> SendStatistics:
        """The pipeline's figures so far."""
        return self._pipeline.statistics

    def close(self) -> None:
        """Leave the requests that are still in flight to themselves."""
        self._pipeline.close()

    def _may_treat(self, request: SendRequest, error: RocketMQError) -> bool:
        """Return whether a request that ended with this error is taken apart or set aside, instead of failing the task.

        A batch may only be too large as a whole, so it is taken apart, unless this could change the order of a key's
        rows. Later rows of a key do not wait for a row that is set aside.
        """
        if not isinstance(error, _REFUSALS):
            return False
        return not self._keeps_order if request.is_batch else self._set_aside is not None

    def _flush(self) -> list[Outcome]:
        self._pipeline.flush()
        return self._pipeline.take_outcomes()

    def _submit(self, requests: Iterable[SendRequest]) -> None:
        for number, request in enumerate(requests, 1):
            self._pipeline.submit(request)
            if number % _SUBMITTED_AT_ONCE == 0:
                self._judge(self._pipeline.take_outcomes())
        self._judge(self._pipeline.take_outcomes())

    def _judge(self, outcomes: Iterable[Outcome]) -> None:
        """Count rows, keep refused ones that can be set aside, and raise `Unsendable` for the first other failure."""
        failure: Outcome | None = None
        for outcome in outcomes:
            if outcome.error is not None and self._may_treat(outcome.request, outcome.error):
                self._refused.append(outcome)
                continue
            self._count(outcome)
            if outcome.error is not None:
                failure = failure or outcome
        if failure is not None and failure.error is not None:
            raise self._unsendable(failure.request, failure.error) from failure.error

    def _count(self, outcome: Outcome) -> None:
        rows = outcome.request.rows
        if outcome.error is None:
            self.landed += len(rows)
        elif outcome.is_unknown or outcome.receipt is not None:
            self.unknown += len(rows)
        else:
            return
        self._note_end(rows)

    def _note_end(self, rows: Iterable[int]) -> None:
        if self._doubtful:
            self._doubtful.difference_update(rows)

    def _treat_refused(self) -> None:
        """Send the rows of refused batches one by one, and set refused rows aside."""
        while self._refused:
            if self._refused[0].request.is_batch:
                self._take_apart(self._refused.popleft())
            else:
                self._put_aside(self._refused[0])
                self._refused.popleft()

    def _take_apart(self, batch: Outcome) -> None:
        self._doubtful.update(batch.request.rows if batch.is_unknown else ())
        self._submit(split_batch(batch.request))

    def _put_aside(self, single: Outcome) -> None:
        """Set a row aside, which then counts nowhere here. If that raises, the row is still one of the refused ones."""
        assert self._set_aside is not None and single.error is not None, "no other outcomes are kept as refused"
        self._set_aside(single.request, single.error)
        self._note_end(single.request.rows)

    def _unsendable(self, request: SendRequest, error: RocketMQError) -> Unsendable:
        unit = "dead letter" if self._is_of_letters else "row"
        what = f"{_describe(request.rows, unit)} could not be sent: {error.code}, {error.what}"
        where: Where = {"topic": request.topic, **error.where}
        is_bad_row = isinstance(error, _REFUSALS)
        return Unsendable(what, advice=self._advice(request, error), where=where, is_bad_row=is_bad_row)

    def _advice(self, request: SendRequest, error: RocketMQError) -> str:
        if isinstance(error, TopicNotExist):
            return creation_advice(request.topic)
        if not isinstance(error, _REFUSALS):
            return error.advice
        if self._is_of_letters:
            return "set maxMessageSize to what the brokers take, or set onBadRow=drop"
        if request.is_batch:
            return f"set sendBatchSize=1 to find the row; {error.advice}"
        return f"{error.advice}, or set onBadRow to deadLetter or drop"


def split_batch(request: SendRequest) -> Iterator[SendRequest]:
    """Yield a request for each message of a batch message."""
    for number, entry in zip(request.rows, decode_batch(request.body), strict=True):
        properties = entry.properties_text.decode()
        yield request._replace(body=entry.body, properties=properties, rows=(number,), is_batch=False, flag=entry.flag)


def _describe(rows: Collection[int], unit: str) -> str:
    numbers = [int(number) for number in rows]
    if len(numbers) == 1:
        return f"{unit} {numbers[0]}"
    return f"{len(numbers)} {unit}s from {unit} {numbers[0]} to {numbers[-1]}"
