"""Read under random faults, several at a time, and compare the rows with the stored messages.

A schedule is determined by its seed: how the topic is read, which faults responses have, when brokers are down, and
when retention deletes messages. The order of events still varies a little with the threads, so a failing seed may have
to run a few times until it fails again. Every row must be a stored message, and no message may come twice. Every
missing message must be reported: by an error, or by a warning whose offsets include it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import Finding, MessageQueue
from pyspark_rocketmq.offsets.loss import LossWarning
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import Command, encode_command
from pyspark_rocketmq.wire.record import decode_records, encode_record
from tests.source.driving import (
    GROUP,
    TOPIC,
    Checkpoint,
    Row,
    Run,
    batch_options_for,
    options_for,
    queue_of,
    read_batch,
)

from .behaviours import PULLS, ROUTE
from .call_outcome import run_call
from .server import Exchange, HangUp, HostileCluster, ServerFaults

SEEDS = (1, 5, 20, 39, 53, 61, 175, 184)
"""Seeds of the regular run; 39 and 175 once found wrong rows. `run_schedule` takes any other seed, too."""
BROKERS, QUEUES, COUNT = ("broker-a", "broker-b"), 2, 400
DEADLINE_S = 60.0
OPTIONS = {
    "connectTimeoutMillis": "500",
    "mqClientApiTimeout": "300",
    "pullTimeoutMs": "200",
    "pollTimeoutMs": "2500",
    "pullMaxRetries": "12",
    "fetchOffset.numRetries": "12",
}
FILTERS: dict[str, tuple[dict[str, str], Callable[[int], bool]]] = {
    "unfiltered": ({}, lambda offset: True),
    "tags": ({"tags": "a"}, lambda offset: offset % 5 == 0),
    "SQL": ({"sqlFilter": "number > 6"}, lambda offset: offset % 10 > 6),
}
BUSY = (1, 2, 14, 215)
"""Response codes of temporary refusals: server error, overloaded, not ready, and flow control."""


def queues() -> list[MessageQueue]:
    """Return all queues of the topic."""
    return [queue_of(number, broker) for broker in BROKERS for number in range(QUEUES)]


def body_of(queue: MessageQueue, offset: int) -> bytes:
    """Return the body that the message at this offset of this queue has, and no other message."""
    return b"%s %d %d" % (queue.broker_name.encode(), queue.queue_id, offset)


@dataclass
class Schedule:
    """The random choices that a seed determines; each read needs an instance of its own."""

    seed: int

    def __post_init__(self) -> None:
        self.random = random = Random(self.seed)
        self.filter = random.choice(list(FILTERS))
        self.is_tolerant = random.random() < 0.5
        self.is_stream = random.random() < 0.4
        self.is_open = not self.is_stream and random.random() < 0.4
        self.options = {**OPTIONS, **FILTERS[self.filter][0], "failOnDataLoss": str(not self.is_tolerant).lower()}
        self.options |= random.choice([{}, {"ordering": "queue"}, {"maxPartitions": "1"}, {"pullBatchSize": "7"}])
        self.faults = {name: random.random() * 0.08 for name in random.sample(sorted(FAULTS), random.randrange(1, 4))}
        self.retention = random.choice([0.0, 0.0, 0.02, 0.1])
        self.outages = random.choice([0.0, 0.0, 0.01])
        self.lock = threading.Lock()
        self.held: dict[int, bytes] = {}
        self.answers: dict[tuple[str, ...], Command] = {}

    def __str__(self) -> str:
        kind = "stream" if self.is_stream else "open batch" if self.is_open else "batch"
        faults = ", ".join(f"{name} {share:.3f}" for name, share in self.faults.items())
        return (
            f"seed {self.seed}: {kind}, {self.filter}, {self.options}, faults {faults}, "
            f"retention {self.retention}, outages {self.outages}"
        )

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        with self.lock:
            return self.random.random() < share

    def below(self, end: int) -> int:
        """Return a random integer in [0, end)."""
        with self.lock:
            return self.random.randrange(end)


# --- faults of responses ---------------------------------------------------------------------------------------------

Fault = Callable[[Schedule, Exchange], Iterable[bytes]]


def late(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Send the response late, sometimes after the client's timeout; later responses on the connection wait for it."""
    threading.Event().wait(schedule.below(300) / 1000 if schedule.chance(0.2) else 0.01)
    return [exchange.honest()]


def lost(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Never respond to the request."""
    return []


def twice(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Send the response twice."""
    return [exchange.honest()] * 2


def cut(schedule: Schedule, exchange: Exchange) -> Iterator[bytes]:
    """Send a part of the response, then close the connection."""
    frame = exchange.honest()
    yield frame[: schedule.below(len(frame))]
    raise HangUp


def behind(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Send the response after the connection's next response."""
    place, frame = threading.get_ident(), exchange.honest()
    return [] if schedule.held.setdefault(place, frame) is frame else [frame, schedule.held.pop(place)]


def busy(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Respond with a code that refuses the request temporarily."""
    code = BUSY[schedule.below(len(BUSY))]
    return [encode_command(replace(exchange.answer, code=code, remark="hostile", fields={}, body=b""))]


def shorter(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Respond with only the first of the found messages, as brokers may."""
    answer = exchange.answer
    if answer.code == 0 and len(records := decode_records(answer.body)) > 1:
        kept = records[: 1 + schedule.below(len(records) - 1)]
        said = {**(answer.fields or {}), "nextBeginOffset": str(kept[-1].queue_offset + 1)}
        answer = replace(answer, fields=said, body=b"".join(map(encode_record, kept)))
    return [encode_command(answer)]


def holed(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Leave messages out of the response, but keep its next offset; only a count of messages detects this."""
    answer = exchange.answer
    if schedule.filter == "unfiltered" and answer.code == 0 and answer.body:
        kept = [each for each in decode_records(answer.body) if schedule.chance(0.8)]
        answer = replace(answer, body=b"".join(map(encode_record, kept)))
    return [encode_command(answer)]


def foreign(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Change the queue id in one record of the response."""
    answer = exchange.answer
    if answer.code == 0 and answer.body:
        records = decode_records(answer.body)
        index = schedule.below(len(records))
        records[index] = replace(records[index], queue_id=records[index].queue_id ^ 1)
        answer = replace(answer, body=b"".join(map(encode_record, records)))
    return [encode_command(answer)]


def repeated(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Send one record of the response in the place of another one."""
    answer = exchange.answer
    if answer.code == 0 and answer.body:
        records = decode_records(answer.body)
        records[schedule.below(len(records))] = records[schedule.below(len(records))]
        answer = replace(answer, body=b"".join(map(encode_record, records)))
    return [encode_command(answer)]


def old(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Send an earlier response for the same queue again.

    With a filter only a response to the same offset is repeated, since any other one looks like a lawful gap.
    """
    said = exchange.request.fields or {}
    names = ("bname", "queueId", "subscription", *(("queueOffset",) if schedule.filter != "unfiltered" else ()))
    answer = schedule.answers.setdefault(tuple(said[name] for name in names), exchange.answer)
    return [encode_command(replace(answer, opaque=exchange.request.opaque))]


def misdirected(schedule: Schedule, exchange: Exchange) -> Iterable[bytes]:
    """Set the suggested broker id of a pull response to a replica, which may be down or not exist."""
    fields = {**(exchange.answer.fields or {}), "suggestWhichBrokerId": str(schedule.below(3))}
    return [encode_command(replace(exchange.answer, fields=fields))]


FAULTS: dict[str, Fault] = {
    each.__name__: each
    for each in (late, lost, twice, cut, behind, busy, shorter, holed, foreign, repeated, old, misdirected)
}


def unrouted(exchange: Exchange) -> Iterable[bytes]:
    """Remove one broker from the route."""
    answer = exchange.answer
    if answer.code == 0:
        route = json.loads(bytes(answer.body))
        for name in ("brokerDatas", "queueDatas"):
            route[name] = [each for each in route[name] if each["brokerName"] != BROKERS[1]]
        answer = replace(answer, body=json.dumps(route).encode())
    return [encode_command(answer)]


# --- the cluster -----------------------------------------------------------------------------------------------------


@dataclass
class FaultyCluster:
    """A stub with messages, and the servers' faults that stand between it and the reader."""

    stub: StubCluster
    schedule: Schedule
    finished: dict[MessageQueue, int] = field(default_factory=dict)
    """End offset of each queue in the last finished batch."""
    ahead: list[str] = field(default_factory=list)
    """Descriptions of commits that lay beyond the finished batches."""
    gone: dict[MessageQueue, int] = field(default_factory=dict)
    """First offset of each queue that retention has not deleted."""
    away: set[str] = field(default_factory=set)

    def fill(self) -> None:
        """Store the test messages in the stub."""
        for offset in range(COUNT):
            for queue in queues():
                properties = {"number": str(offset % 10)}
                body, tag = body_of(queue, offset), "abcde"[offset % 5]
                given = {"tags": tag, "properties": properties, "queue_id": queue.queue_id, "broker": queue.broker_name}
                self.stub.put(TOPIC, body, **given)  # type: ignore[arg-type]

    def respond(self, exchange: Exchange) -> Iterable[bytes]:
        """Yield the bytes that the client gets for one request, with the faults that the schedule draws."""
        schedule, code = self.schedule, exchange.request.code
        if code == RequestCode.UPDATE_CONSUMER_OFFSET:
            self._check_commit(exchange.request.fields or {})
        if code == ROUTE:
            return unrouted(exchange) if schedule.chance(schedule.outages * 10) else [exchange.honest()]
        if code not in PULLS:
            return [exchange.honest()]
        if schedule.chance(schedule.retention):
            self.take_front()
        if schedule.chance(schedule.outages):
            self.toggle_broker()
        for name, share in schedule.faults.items():
            if schedule.chance(share):
                return FAULTS[name](schedule, exchange)
        return [exchange.honest(), *self._held()]

    def take_front(self) -> None:
        """Delete more of a queue's log, or raise the queue's minimum to its first readable offset."""
        queue = queues()[self.schedule.below(len(queues()))]
        places = [each for each in self.stub.state.brokers if each.name == queue.broker_name and each.broker_id == 0]
        store = places[0].store
        if self.schedule.chance(0.5):
            self.stub.expire(TOPIC, queue.queue_id, self.gone.get(queue, 0), broker=queue.broker_name)
            return
        at = min(COUNT - 1, self.gone.get(queue, 0) + self.schedule.below(60))

        def take() -> None:
            store.log.min_offset = max(store.log.min_offset, store.queue(TOPIC, queue.queue_id).physical[at])

        self.stub.run(take)
        for each in queues():  # The queues of a broker share its log, in which their messages alternate.
            if each.broker_name == queue.broker_name:
                self.gone[each] = max(self.gone.get(each, 0), at)

    def toggle_broker(self) -> None:
        """Stop the second broker if it runs, else start it again."""
        if self.away:
            self.stub.faults.broker_up(self.away.pop())
        else:
            self.away.add(BROKERS[1])
            self.stub.faults.broker_down(BROKERS[1])
            threading.Timer(0.3, self._bring_back).start()

    def _bring_back(self) -> None:
        if self.away:
            with suppress(RocketMQError):  # The stub is closed if the read is over.
                self.stub.faults.broker_up(self.away.pop())

    def _held(self) -> list[bytes]:
        held = self.schedule.held.pop(threading.get_ident(), None)
        return [held] if held else []

    def _check_commit(self, said: dict[str, str]) -> None:
        offset, queue_id = int(said["commitOffset"]), int(said["queueId"])
        most = max(self.finished.get(queue_of(queue_id, broker), 0) for broker in BROKERS)
        if offset > most:
            self.ahead.append(f"queue {queue_id} at {offset}, finished {most}")


class _Named:
    def __init__(self, name_server: str) -> None:
        self.name_server = name_server


def read(cluster_state: FaultyCluster, name_server: str) -> list[Row]:
    """Return the rows of one read of the topic, in the way that the schedule draws: batch or stream."""
    schedule = cluster_state.schedule
    limits = {"startingOffsets": {b: dict.fromkeys(map(str, range(QUEUES)), 0) for b in BROKERS}}
    if not schedule.is_stream:
        limits["endingOffsets"] = {b: dict.fromkeys(map(str, range(QUEUES)), COUNT) for b in BROKERS}
    bounds = {name: json.dumps({TOPIC: tree}) for name, tree in limits.items()}
    if schedule.is_open:
        bounds["startingOffsets"] = "earliest"
    if schedule.is_stream:
        return read_stream(cluster_state, name_server, {**schedule.options, **bounds})
    return read_batch(batch_options_for(_Named(name_server), **schedule.options, **bounds))


def read_stream(cluster_state: FaultyCluster, name_server: str, given: dict[str, str]) -> list[Row]:
    """Return the rows of a streaming read; if the query fails, restart it from its checkpoint, up to six times."""
    options = options_for(_Named(name_server), **given, consumerGroup=GROUP, maxOffsetsPerQueue="90")
    checkpoint, rows, failures = Checkpoint(), list[Row](), 0
    while True:
        try:
            with Run(options, checkpoint) as run:
                while any(cluster_state.finished.get(queue, 0) < COUNT for queue in queues()):
                    if (batch := run.trigger()) is None:
                        continue
                    rows += batch
                    cluster_state.finished |= ends_of(checkpoint)
                return rows
        except RocketMQError:
            failures += 1
            if failures > 6:
                raise


def ends_of(checkpoint: Checkpoint) -> dict[MessageQueue, int]:
    """Return the end offset of each queue in the checkpoint's last batch."""
    tree = checkpoint.last["next"][TOPIC]
    return {queue_of(int(key), broker): end for broker, ids in tree.items() for key, end in ids.items()}


@contextmanager
def warnings() -> Iterator[list[LossWarning]]:
    """Collect the warnings about losses that the library logs."""
    found: list[LossWarning] = []
    handler, logger = logging.Handler(), logging.getLogger("pyspark_rocketmq.source.losses")

    def emit(record: logging.LogRecord) -> None:
        args: Any = record.args
        found.extend(each for each in args or () if isinstance(each, LossWarning))

    handler.emit = emit  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def run_schedule(seed: int) -> str:
    """Run the schedule of a seed, raise unless its outcome is right, and return a summary as text."""
    schedule = Schedule(seed)
    with StubCluster(len(BROKERS), topics={TOPIC: QUEUES}) as stub, warnings() as warned:
        cluster_state = FaultyCluster(stub, schedule)
        cluster_state.fill()
        with HostileCluster(stub, ServerFaults(cluster_state.respond)) as cluster:
            outcome = run_call(lambda: read(cluster_state, cluster.name_server), DEADLINE_S)
        assert not outcome.foreign, f"{schedule}: {outcome.foreign}"
        assert not cluster_state.ahead, f"{schedule}: committed ahead: {cluster_state.ahead}"
        if outcome.error is not None:
            return (
                f"{outcome.error.code} {outcome.error}"
                if outcome.error.code.startswith("OPTION")
                else outcome.error.code
            )
        check_rows(schedule, outcome.value, warned)
    return "rows" if not warned else "rows and warnings"


def check_rows(schedule: Schedule, rows: list[Row], warned: list[LossWarning]) -> None:
    """Raise unless the rows are stored messages, once each, and an error or a warning covers every missing one."""
    places = Counter((row.queue, row.offset) for row in rows)
    wrong = [row for row in rows if row.body != body_of(row.queue, row.offset)]
    assert not wrong, f"{schedule}: {len(wrong)} wrong bodies: {wrong[:3]}"
    assert not (again := places - Counter(set(places))), f"{schedule}: twice: {sorted(again)[:5]}"
    is_wanted = FILTERS[schedule.filter][1]
    for queue in queues():
        offsets = [row.offset for row in rows if row.queue == queue]
        assert all(map(is_wanted, offsets)), f"{schedule}: {queue} has rows that the filter leaves out"
        assert schedule.options.get("ordering") != "queue" or offsets == sorted(offsets), f"{schedule}: {queue}"
        begin = min(offsets, default=COUNT) if schedule.is_open else 0
        missing = set(filter(is_wanted, range(begin, COUNT))) - set(offsets)
        lost = {at for each in warned if each.queue == queue for at in _span(each)}
        assert not missing - lost, f"{schedule}: {queue} lost in silence: {sorted(missing - lost)[:9]}, warned {warned}"
    assert schedule.is_tolerant or not any(_span(each) for each in warned), f"{schedule}: {warned}"


def _span(warning: LossWarning) -> range:
    if warning.finding in (Finding.NOT_IN_ROUTE, Finding.RESET_BY_ADMIN):
        return range(0)
    return range(*sorted((warning.planned, warning.found)))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_is_lost_in_silence(seed: int) -> None:
    """Under random faults every row is a stored message, and every missing message is reported."""
    run_schedule(seed)
