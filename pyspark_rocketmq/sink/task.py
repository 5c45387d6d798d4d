"""Write the rows of one task: encode record batches, keep sends in flight, and wait for every acknowledgement.

A report is returned only after each row has landed, is a dead letter that has landed, or was dropped because the user
wants that. A task that is repeated sends its rows again; those at the same places have the same message ids.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..cluster.cluster import worker_cluster
from ..encode.faults import Fault
from ..encode.ids import BatchIdentity
from ..encode.requests import Encoded, Encoder
from ..errors import BadRow, ColumnError, RocketMQError, Where, WriteError, shown
from ..model import MessageQueue
from ..options.writer_options import BadRows, GivenBatch
from ..send.pipeline import SendPipeline
from ..send.settings import SendSettings
from .bad_rows import BadRowHandler, DeadLetters, Dropper
from .outgoing import Outgoing, Unsendable
from .plan import WritePlan
from .queues import FrozenQueues
from .report import WriteReport

if TYPE_CHECKING:
    from ..decode.decoder import RecordBatch

__all__ = ["write_task"]

_PIECE_BYTES, _PIECE_ROWS = 4 * 2**20, 2**15
"""The largest record batches that are encoded at once, which bounds the memory for requests."""


def write_task(batches: Iterable[RecordBatch], plan: WritePlan, batch: GivenBatch, partition: int) -> WriteReport:
    """Write the rows of one task, and return its report; raise `WriteError` if a row does not land."""
    task = _Task(plan, batch, partition)
    try:
        return task.write(batches)
    finally:
        task.close()


class _Task:
    """One attempt of a task."""

    def __init__(self, plan: WritePlan, batch: GivenBatch, partition: int) -> None:
        options = plan.options
        self._plan = plan
        self._partition = partition
        self._identity = BatchIdentity(batch.query_id, options.sink_name, batch.batch_id)
        self._taken = 0
        """The number of rows that the encoder has got."""
        self._bad_rows = self._make_handler()
        queues = self._freeze(plan.queues, may_create=not options.send.keeps_order, has_keys=plan.has_keys)
        self._encoder = Encoder(options.encode, self._identity, partition, queues)
        self._outgoing = Outgoing(
            self._open_pipeline(options.send, queues),
            self._bad_rows.handle_refused if self._bad_rows else None,
            keeps_order=options.send.keeps_order,
        )
        self._report = WriteReport(batch, partition)
        self._encoding_s = 0.0
        self._reading_s = 0.0

    def write(self, batches: Iterable[RecordBatch]) -> WriteReport:
        """Write all rows; see `write_task`."""
        try:
            for piece in self._pieces(batches):
                self._send(piece)
            self._outgoing.finish()
            if self._bad_rows:
                self._bad_rows.finish()
        except Unsendable as failure:
            self._outgoing.stop()
            if self._bad_rows:
                self._bad_rows.stop()
            raise self._error(failure) from failure.__cause__
        self._require_all()
        return self._make_report()

    def close(self) -> None:
        """Close the pipelines; rows still in flight are left to themselves."""
        self._outgoing.close()
        if self._bad_rows:
            self._bad_rows.close()

    # --- rows --------------------------------------------------------------------------------------------------------

    def _pieces(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the record batches in pieces of limited size; measure how long Spark takes to bring them."""
        began = time.perf_counter()
        for batch in batches:
            self._reading_s += time.perf_counter() - began
            rows = max(1, min(_PIECE_ROWS, batch.num_rows * _PIECE_BYTES // max(batch.nbytes, 1)))
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
            began = time.perf_counter()

    def _send(self, piece: RecordBatch) -> None:
        began, first = time.perf_counter(), self._taken
        self._taken += piece.num_rows
        encoded = self._encode(piece, first)
        self._encoding_s += time.perf_counter() - began
        if encoded.faults:
            self._treat_faults(piece, first, encoded.faults)
        if self._bad_rows:
            self._bad_rows.check()
        self._outgoing.send(encoded.requests)

    def _encode(self, piece: RecordBatch, first: int) -> Encoded:
        """Encode rows; raise `Unsendable` if the queues of a topic that they name cannot be listed."""
        try:
            return self._encoder.encode(piece)
        except ColumnError:
            raise
        except RocketMQError as error:
            what = f"rows from row {first} on could not be given queues: {error.code}, {error.what}"
            raise Unsendable(what, advice=error.advice, where=error.where, is_bad_row=False) from error

    def _treat_faults(self, piece: RecordBatch, first: int, faults: dict[int, Fault]) -> None:
        self._require_absent(faults)
        if self._bad_rows:
            self._bad_rows.handle_faults(piece, first, faults)
            return
        number = min(faults)
        column, what, _ = faults[number]
        topic = self._plan.options.encode.topic or _shown_text(piece.column("topic"), number - first)
        raise Unsendable(
            f"row {number} cannot be sent, because of its column {column}: {what}",
            advice="correct or leave out such rows, or set onBadRow to deadLetter or drop",
            where={"topic": topic},
            is_bad_row=True,
        )

    def _require_absent(self, faults: dict[int, Fault]) -> None:
        """Raise `Unsendable` if a row names a queue whose broker may be away: then it is no fault of the row.

        The broker may also have come back since the queues of the batch were listed.
        """
        named = {number: fault.absent_queue for number, fault in faults.items() if fault.absent_queue}
        if not named:
            return
        try:
            listed, writable = self._look_again({queue.topic for queue in named.values()})
        except RocketMQError as error:
            what = f"the queues that rows name could not be looked up: {error.code}, {error.what}"
            raise Unsendable(what, advice=error.advice, where=error.where, is_bad_row=False) from error
        for number, queue in named.items():
            place: Where = {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
            if queue.broker_name not in listed:
                what = f"row {number} names a queue of a broker that no name server lists now"
                advice = "bring the broker back; if there is no such broker, leave out the rows that name it"
            elif queue in writable:
                what = f"row {number} names a queue that was not writable yet when the queues of the batch were listed"
                advice = "write the batch again"
            else:
                continue
            raise Unsendable(what, advice=advice, where=place, is_bad_row=False)

    def _look_again(self, topics: Iterable[str]) -> tuple[set[str], set[MessageQueue]]:
        """Return the brokers that name servers list now, and the writable queues that these topics have now."""
        cluster = worker_cluster(self._plan.options.planning_cluster)
        listed = {broker.broker_name for broker in cluster.name_servers.fetch_brokers()}
        writable = set[MessageQueue]()
        for topic in topics:
            cluster.routes.expire(topic)
            writable.update(cluster.routes.route(topic).writable)
        return listed, writable

    # --- ends --------------------------------------------------------------------------------------------------------

    def _error(self, failure: Unsendable) -> WriteError:
        error = BadRow if failure.is_bad_row else WriteError
        landed, unknown = self._outgoing.landed, self._outgoing.unknown
        return error(
            f"partition {self._partition}: {failure.what}",
            landed=landed,
            failed=self._taken - landed - unknown - self._set_aside,
            unknown=unknown,
            dead_letters=self._bad_rows.dead_letters if self._bad_rows else 0,
            dropped=self._bad_rows.dropped if self._bad_rows else 0,
            advice=failure.advice,
            **failure.where,
        )

    def _require_all(self) -> None:
        """Raise if a row has neither landed nor been set aside: nothing is acknowledged to Spark before."""
        missing = self._taken - self._outgoing.landed - self._set_aside
        if missing:
            landed = self._outgoing.landed
            what = f"partition {self._partition}: {missing} rows are unaccounted for"
            raise WriteError(what, landed=landed, failed=0, unknown=missing, advice="report this as a bug")

    @property
    def _set_aside(self) -> int:
        return self._bad_rows.dropped + self._bad_rows.dead_letters if self._bad_rows else 0

    def _make_report(self) -> WriteReport:
        report = self._report
        report.rows = self._taken
        report.seconds = {"reading": self._reading_s, "encoding": self._encoding_s}
        report.add_sends(self._outgoing.statistics)
        if self._bad_rows:
            report.dead_letters, report.dropped = self._bad_rows.dead_letters, self._bad_rows.dropped
            if statistics := self._bad_rows.statistics:
                report.add_sends(statistics)
        return report

    # --- parts -------------------------------------------------------------------------------------------------------

    def _freeze(
        self, known: tuple[MessageQueue, ...], *, may_create: bool = True, has_keys: bool = False
    ) -> FrozenQueues:
        plan = self._plan
        cluster = worker_cluster(plan.options.planning_cluster)
        return FrozenQueues(cluster, known, may_create=may_create, has_keys=has_keys, has_times=plan.has_times)

    def _open_pipeline(self, settings: SendSettings, queues: FrozenQueues) -> SendPipeline:
        """Return a pipeline for topics whose queues were listed: if one is not found later, it is away."""
        cluster = worker_cluster(self._plan.options.cluster)
        return SendPipeline(cluster, replace(settings, waits_for_topics=True), queues)

    def _make_handler(self) -> BadRowHandler | None:
        """Return the handler of rows that cannot be sent; None if they fail the task."""
        options = self._plan.options
        if options.on_bad_row is BadRows.DROP:
            return Dropper(f"partition {self._partition}")
        if options.dead_letter_topic is None:
            return None
        queues = self._freeze(self._plan.dead_letter_queues)
        settings = replace(options.send, rows_per_second=None)
        return DeadLetters(
            options.encode,
            self._identity,
            self._partition,
            lambda: Outgoing(self._open_pipeline(settings, queues), None, is_of_letters=True),
            queues,
            options.dead_letter_topic,
        )


def _shown_text(texts: Any, index: int) -> str:
    """Return a text of a column for an error; Spark's texts may hold bytes that are no UTF-8."""
    buffer = texts[index].as_buffer()
    return "null" if buffer is None else shown(buffer.to_pybytes().decode(errors="backslashreplace"))
