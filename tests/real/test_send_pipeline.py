"""Test the pipeline of sends on real brokers: order of keys under restarts, fail-over, standstills and busy brokers.

Rows are written by `encode` and sent by the pipeline, as a Spark task does it; then the whole topic is read back. What
happens to brokers begins between two record batches, while sends are in flight.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pytest

from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import Encoder, EncodeSettings
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.send.outcome import Outcome, SendStatistics
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.send.settings import SendSettings
from pyspark_rocketmq.wire.record import Record, decode_records
from tests.flows.reading import read_all
from tests.flows.world import World, fresh
from tests.real.fixtures import both_profiles, slow_by_default
from tests.real.servers import Broker, RealCluster
from tests.real.worlds import real_world

pytestmark = pytest.mark.real

ROWS_AT_ONCE = 1000
KEYS, QUEUES = 1000, 16
ROWS_A_SECOND = 20_000
"""The rate of all tests, so that brokers have stored some rows when something happens to them."""
ORDERED = SendSettings(producer_group="ordered", keeps_order=True, attempt_timeout_s=2, rows_per_second=ROWS_A_SECOND)
SPREAD = SendSettings(producer_group="spread", attempt_timeout_s=1, rows_per_second=ROWS_A_SECOND)


# --- sending ---------------------------------------------------------------------------------------------------------


@dataclass
class Sent:
    """The results of a pipeline: where queues end, the requests that failed, and its statistics."""

    topic: str
    ends: dict[MessageQueue, int] = field(default_factory=dict)
    failed: list[Outcome] = field(default_factory=list)
    statistics: SendStatistics = field(default_factory=SendStatistics)

    def take(self, outcomes: Sequence[Outcome]) -> None:
        """Note outcomes."""
        self.failed += [outcome for outcome in outcomes if outcome.error]
        for request, receipt, *_ in outcomes:
            if receipt:
                end = receipt.queue_offset + len(request.rows)
                self.ends[receipt.queue] = max(end, self.ends.get(receipt.queue, 0))


def batch_of(start: int, rows: int = ROWS_AT_ONCE) -> pa.RecordBatch:
    """Return a record batch of numbered rows; row i has the key i modulo `KEYS`."""
    numbers = range(start, start + rows)
    columns = {"body": [f"{number}" for number in numbers], "shardingKey": [f"k{n % KEYS}" for n in numbers]}
    return pa.RecordBatch.from_pydict(columns)


def send_rows(world: World, batches: Iterator[pa.RecordBatch], settings: SendSettings, *, by_key: bool = True) -> Sent:
    """Send all rows to a new topic through one pipeline."""
    brokers = len(world.cluster.name_servers.fetch_brokers())
    sent = Sent(world.make_topic(QUEUES // brokers)[0].topic)
    queues = list(world.cluster.writable.queues(sent.topic))  # Frozen, as for a batch of Spark.
    given = EncodeSettings(topic=sent.topic, places_by_key=by_key)
    encoder = Encoder(given, BatchIdentity(fresh("query"), "", 0), 0, lambda _: queues)
    pipeline = SendPipeline(world.cluster, settings, world.cluster.writable.queues)
    try:
        for batch in batches:
            for request in encoder.encode(batch).requests:
                pipeline.submit(request)
            sent.take(pipeline.take_outcomes())
        pipeline.flush()
        sent.take(pipeline.take_outcomes())
        sent.statistics = pipeline.statistics
        return sent
    finally:
        pipeline.close()


class Disturber:
    """Does something to brokers between two record batches; what takes long goes on in a thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._running: list[Future[object]] = []

    def batches(self, rows: int, acts: dict[int, Callable[[], Callable[[], object]]]) -> Iterator[pa.RecordBatch]:
        """Yield record batches of `rows` rows; before row n call `acts[n]`, and its result later, in a thread."""
        for start in range(0, rows, ROWS_AT_ONCE):
            if start in acts:
                self.join()
                end = acts[start]()
                self._running.append(self._thread.submit(end))
            yield batch_of(start)

    def join(self) -> None:
        """Wait until everything has come to its end."""
        for running in self._running:
            running.result()
        self._running.clear()


def kill(broker: Broker) -> Callable[[], Callable[[], object]]:
    """Return an act that kills a broker; it starts again at once."""

    def act() -> Callable[[], object]:
        broker.kill()
        return broker.start

    return act


def freeze(broker: Broker, lasts_s: float) -> Callable[[], Callable[[], object]]:
    """Return an act that stops a broker's process for a time, so that sends wait for their replies in vain."""

    def act() -> Callable[[], object]:
        assert broker.process is not None
        pid = broker.process.pid
        os.kill(pid, signal.SIGSTOP)

        def end() -> None:
            time.sleep(lasts_s)  # The standstill itself, not a wait for a condition.
            os.kill(pid, signal.SIGCONT)

        return end

    return act


# --- reading back ----------------------------------------------------------------------------------------------------


def stored(world: World, sent: Sent) -> dict[MessageQueue, list[Record]]:
    """Wait until all that was acknowledged can be read; return all messages, by queue and in the order of offsets."""
    found: defaultdict[MessageQueue, list[Record]] = defaultdict(list)
    world.cluster.routes.expire(sent.topic)
    for queue, end in sent.ends.items():
        world.await_end(queue, end)
    ends = world.cluster.offsets.fetch_max(world.cluster.routes.route(sent.topic).readable)
    for block in read_all(world.cluster, [QueueRange(queue, 0, end) for queue, end in ends.items()]):
        found[block.wanted.queue] += decode_records(block.data)
    return {queue: sorted(records, key=lambda each: each.queue_offset) for queue, records in found.items()}


def without_repeats(records: Sequence[Record]) -> list[Record]:
    """Return the first copy of each message."""
    firsts = {record.properties["UNIQ_KEY"]: record for record in reversed(records)}
    return sorted(firsts.values(), key=lambda each: each.queue_offset)


def inversions(records: Sequence[Record]) -> int:
    """Return how often a row of a key comes after a later row of that key."""
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for record in records:
        rows_of[record.properties["__SHARDINGKEY"]].append(int(record.body))
    return sum(later < earlier for rows in rows_of.values() for earlier, later in pairwise(rows))


def check(world: World, sent: Sent, rows: int) -> int:
    """Check that all rows are stored, each under one id of its own; return how many messages are repeats."""
    assert [outcome.error for outcome in sent.failed] == []
    records = [record for of_queue in stored(world, sent).values() for record in of_queue]
    pairs = {(int(record.body), record.properties["UNIQ_KEY"]) for record in records}
    assert {number for number, _ in pairs} == set(range(rows))
    assert len(pairs) == len({message_id for _, message_id in pairs}) == rows
    return len(records) - rows


def check_order(world: World, sent: Sent) -> None:
    """Check that no queue has a row of a key before an earlier one, not counting repeats."""
    found = stored(world, sent)
    assert len(found) == QUEUES
    assert {queue: inversions(without_repeats(records)) for queue, records in found.items()} == dict.fromkeys(found, 0)


# --- tests -----------------------------------------------------------------------------------------------------------


def test_keys_stay_in_order_under_a_restart(real_cluster: RealCluster) -> None:
    """If the broker is killed and starts again, no row of a key comes before an earlier one, and none is missing."""
    world, disturber = real_world(real_cluster), Disturber()

    sent = send_rows(world, disturber.batches(20_000, {8000: kill(real_cluster.broker)}), ORDERED)
    disturber.join()

    check(world, sent, 20_000)
    check_order(world, sent)
    assert sent.statistics.pauses > 0


@pytest.mark.slow
@both_profiles
def test_many_keys_stay_in_order_under_restarts(real_two_brokers: RealCluster) -> None:
    """200,000 rows of 1,000 keys over 16 queues keep the order of each key while brokers restart and stand still."""
    world, disturber = real_world(real_two_brokers), Disturber()
    first, second = real_two_brokers.brokers
    acts = {20_000 * number: kill((first, second)[number % 2]) for number in range(1, 6)}
    acts |= {20_000 * number: freeze((first, second)[number % 2], 8) for number in range(6, 9)}

    sent = send_rows(world, disturber.batches(200_000, acts), ORDERED)
    disturber.join()

    print(f"{check(world, sent, 200_000)} messages are repeats; {sent.statistics}")
    check_order(world, sent)


@slow_by_default
def test_rows_go_to_the_other_broker(real_two_brokers: RealCluster) -> None:
    """If a broker is killed in the middle, rows that may go anywhere go to the other one, and none is missing."""
    world, victim, disturber = real_world(real_two_brokers), real_two_brokers.brokers[1], Disturber()

    def kill_only() -> Callable[[], object]:
        victim.kill()
        return lambda: None

    sent = send_rows(world, disturber.batches(20_000, {8000: kill_only}), SPREAD, by_key=False)
    assert not victim.running
    real_two_brokers.start()

    check(world, sent, 20_000)
    rows = sent.statistics.rows_by_broker
    assert rows["broker-a"] > rows["broker-b"] > 0


def test_what_got_no_reply_is_repeated_under_its_id(real_cluster: RealCluster) -> None:
    """If a broker stands still for longer than a send waits, rows are sent again, and a repeat has its first id."""
    world, disturber = real_world(real_cluster), Disturber()

    sent = send_rows(world, disturber.batches(10_000, {4000: freeze(real_cluster.broker, 4.5)}), SPREAD, by_key=False)
    disturber.join()

    assert check(world, sent, 10_000) > 0
    assert sent.statistics.retries > 0


@pytest.mark.slow
def test_a_busy_broker_gets_every_row_once(real_cluster: RealCluster) -> None:
    """While a broker refuses sends for ten seconds because it is busy, the pipeline pauses; rows are stored once."""
    world, busy = real_world(real_cluster), "osPageCacheBusyTimeOutMills"
    rows = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        world.cluster.admin.update_broker_config("broker-a", {busy: "-1"})
        ends = time.monotonic() + 10
        while time.monotonic() < ends:
            rows += ROWS_AT_ONCE
            yield batch_of(rows - ROWS_AT_ONCE)
        world.cluster.admin.update_broker_config("broker-a", {busy: "1000"})

    sent = send_rows(world, batches(), SPREAD, by_key=False)

    assert check(world, sent, rows) == 0
    assert sent.statistics.pauses > 0


@pytest.mark.slow
def test_a_torn_message_is_served_without_its_properties(real_cluster: RealCluster) -> None:
    """A broker that was killed before it had written a message's properties serves the message without them."""
    world, broker = real_world(real_cluster), real_cluster.broker
    queue = world.make_queue()
    for body in (b"whole", b"torn"):
        world.send(queue, body, UNIQ_KEY="A" * 32, colour="red")
    broker.kill()
    tear_last(broker, b"UNIQ_KEY", after=b"torn")
    broker.start()

    whole, torn = world.await_messages(queue, 2)
    assert (whole.body, torn.body) == (b"whole", b"torn")
    assert whole.properties["colour"] == "red"
    assert not {"UNIQ_KEY", "colour"} & torn.properties.keys()


def tear_last(broker: Broker, start: bytes, *, after: bytes) -> None:
    """Overwrite the end of the last message of a stopped broker with zeros, as if it had been killed in the write."""
    files = {path: path.read_bytes() for path in (broker.home / "store" / "commitlog").iterdir()}
    path, data = max((path, data) for path, data in files.items() if after in data)
    at = data.index(start, data.rindex(after))
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(len(data[at:].rstrip(b"\0"))))
