"""Kill the stub in the midst of its work: it starts again each time, and nothing that it acknowledged is lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode, TransactionState
from pyspark_rocketmq.wire.commands import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    EndTransactionRequestHeader,
    GetTopicConfigRequestHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
    to_fields,
)
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.properties import join_properties
from pyspark_rocketmq.wire.record import decode_records

from .command import broker_of, running
from .remoting_client import RemotingClient, pull_of, send_of

TOPIC, LATER, COMMITTED = "T", "later", "committed"
QUEUES = 4
GROUP, PRODUCERS = "g", "p"
LARGE_BYTES = 300_000
DELIVERY_TIMEOUT_S = 30.0
OK = ResponseCode.SUCCESS

Location = tuple[str, int, int]
"""Topic, queue id and offset."""


@dataclass
class Acknowledged:
    """All that the stub has acknowledged; `wait` counts the acknowledgements."""

    messages: dict[Location, bytes] = field(default_factory=dict)
    delayed: set[bytes] = field(default_factory=set)
    """Bodies of messages that must be delivered at some time."""
    transactions: set[bytes] = field(default_factory=set)
    """Bodies of messages whose transactions were committed."""
    open: list[tuple[EndTransactionRequestHeader, bytes]] = field(default_factory=list)
    """Commits of half messages that were left open, and the messages' bodies."""
    offsets: dict[int, int] = field(default_factory=dict)
    topics: dict[str, bool] = field(default_factory=dict)
    """Whether each topic exists."""
    _count: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def note(self) -> None:
        """Count one acknowledgement."""
        self._count.release()

    def wait(self, number: int) -> None:
        """Wait for this number of acknowledgements."""
        for _ in range(number):
            assert self._count.acquire(timeout=30)

    def restart_count(self) -> None:
        """Forget the acknowledgements that nobody waited for."""
        self._count = threading.Semaphore(0)


class Workload:
    """Clients that use a stub until it is killed."""

    def __init__(self, seed: int) -> None:
        self.acknowledged = Acknowledged()
        self.last_offset = 0
        """The last offset that the stub was asked to commit."""
        self._random = random.Random(seed)
        self._numbers = count()

    def run_until_killed(self, address: str, kill: Callable[[], None]) -> None:
        """Run all clients at once, kill the stub after a random number of acknowledgements, and end the clients."""
        self.acknowledged.restart_count()
        jobs = (self._send, self._send, self._send_batches, self._send_delayed, self._trade, self._commit, self._create)
        with ThreadPoolExecutor(len(jobs)) as pool:
            ends = [pool.submit(self._repeat, address, job) for job in jobs]
            try:
                self.acknowledged.wait(self._random.randrange(40, 160))
            finally:
                kill()
            for end in ends:
                end.result(30)

    def _repeat(self, address: str, job: Callable[[RemotingClient], None]) -> None:
        try:
            with RemotingClient(address) as client:
                while True:
                    job(client)
                    self.acknowledged.note()
        except OSError:  # the stub was killed
            pass

    def _body(self) -> bytes:
        size = LARGE_BYTES if self._random.random() < 0.05 else self._random.randrange(2_000)
        return b"%d." % next(self._numbers) + b"." * size

    def _send(self, client: RemotingClient) -> None:
        body = self._body()
        self._note_messages(client.ask(send_of(TOPIC, queue_id=self._random.randrange(QUEUES)), body), [body])

    def _send_batches(self, client: RemotingClient) -> None:
        bodies = [self._body() for _ in range(5)]
        header = send_of(TOPIC, queue_id=self._random.randrange(QUEUES), batch=True)
        request = Command(RequestCode.SEND_BATCH_MESSAGE, fields=to_fields(header))
        request.body = encode_batch(map(BatchEntry, bodies))
        self._note_messages(client.response_to(client.send(request)), bodies)

    def _note_messages(self, answer: Command, bodies: list[bytes]) -> None:
        assert answer.code == OK and answer.fields, answer
        queue_id, first = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
        for offset, body in enumerate(bodies, first):
            self.acknowledged.messages[TOPIC, queue_id, offset] = body

    def _send_delayed(self, client: RemotingClient) -> None:
        body = self._body()
        delay = self._random.choice([{"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}])
        assert client.ask(send_of(LATER, join_properties(delay)), body).code == OK
        self.acknowledged.delayed.add(body)

    def _trade(self, client: RemotingClient) -> None:
        """Commit the open half messages, some of them from an earlier life of the stub, and store new ones."""
        while self.acknowledged.open:
            end, body = self.acknowledged.open[-1]
            assert client.ask(end).code == OK
            self.acknowledged.transactions.add(body)
            self.acknowledged.open.pop()
        self.acknowledged.open = [self._prepare(client) for _ in range(2)]

    def _prepare(self, client: RemotingClient) -> tuple[EndTransactionRequestHeader, bytes]:
        body = self._body()
        properties = join_properties(
            {"TRAN_MSG": "true", "PGROUP": PRODUCERS, "UNIQ_KEY": f"{next(self._numbers):032}"}
        )
        answer = client.ask(send_of(COMMITTED, properties), body)
        assert answer.code == OK and answer.fields, answer
        end = EndTransactionRequestHeader(
            producer_group=PRODUCERS,
            tran_state_table_offset=int(answer.fields["queueOffset"]),
            commit_log_offset=decode_offset_message_id(answer.fields["msgId"]).physical_offset,
            commit_or_rollback=TransactionState.COMMIT,
            msg_id=answer.fields["msgId"],
        )
        return end, body

    def _commit(self, client: RemotingClient) -> None:
        self.last_offset += 1
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=self.last_offset
        )
        assert client.ask(header).code == OK
        self.acknowledged.offsets[0] = self.last_offset

    def _create(self, client: RemotingClient) -> None:
        """Create a topic, and delete every second one again."""
        number = next(self._numbers)
        name = f"made-{number}"
        assert client.ask(topic_of(name)).code == OK
        self.acknowledged.topics[name] = True
        if number % 2:
            del self.acknowledged.topics[name]
            assert client.ask(DeleteTopicRequestHeader(topic=name)).code == OK
            self.acknowledged.topics[name] = False


def topic_of(name: str) -> CreateTopicRequestHeader:
    """Return the header of a request to create a topic with one queue."""
    return CreateTopicRequestHeader(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )


def read(client: RemotingClient, topic: str, queue_id: int) -> Iterator[tuple[Location, bytes]]:
    """Yield place and body of all messages of a queue."""
    offset = 0
    while (answer := client.ask(pull_of(topic, offset, queue_id=queue_id))).code == OK and answer.fields:
        for record in decode_records(answer.body):
            yield (topic, queue_id, record.queue_offset), record.body
        offset = int(answer.fields["nextBeginOffset"])


def check(client: RemotingClient, workload: Workload) -> None:
    """Check that a stub has all that it acknowledged before it was killed."""
    acknowledged = workload.acknowledged
    found = dict(place for queue_id in range(QUEUES) for place in read(client, TOPIC, queue_id))
    assert {place: found.get(place) for place in acknowledged.messages} == acknowledged.messages
    assert acknowledged.transactions <= {body for _, body in read(client, COMMITTED, 0)}
    for name, exists in acknowledged.topics.items():
        assert (client.ask(GetTopicConfigRequestHeader(topic=name)).code == OK) is exists, name
    answer = client.ask(QueryConsumerOffsetRequestHeader(consumer_group=GROUP, topic=TOPIC, queue_id=0))
    known = int((answer.fields or {}).get("offset", 0))
    assert acknowledged.offsets.get(0, 0) <= known <= workload.last_offset


def check_deliveries(client: RemotingClient, delayed: set[bytes]) -> None:
    """Wait until all delayed messages are delivered."""
    deadline = time.monotonic() + DELIVERY_TIMEOUT_S
    found: set[bytes] = set()
    while not delayed <= found and time.monotonic() < deadline:
        client.ask(pull_of(LATER, sum(1 for _ in read(client, LATER, 0)), wait_ms=1_000))
        found = {body for _, body in read(client, LATER, 0)}
    assert delayed <= found


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.chaos])])
def test_a_killed_stub_has_all_that_it_acknowledged(tmp_path: Path, kills: int) -> None:
    """After each kill in the midst of writes the stub starts, and has all messages, offsets and topics that it had."""
    workload = Workload(seed=kills)
    topics = (f"--topic={name}:{queues}" for name, queues in ((TOPIC, QUEUES), (LATER, 1), (COMMITTED, 1)))
    arguments = ["--data", str(tmp_path), *topics]
    for _ in range(kills):
        with running(*arguments) as (name_server, _, process):
            address = broker_of(name_server, TOPIC)
            with RemotingClient(address) as client:
                check(client, workload)
            workload.run_until_killed(address, process.kill)
    with running(*arguments) as (name_server, _, _):
        with RemotingClient(broker_of(name_server, TOPIC)) as client:
            check(client, workload)
            check_deliveries(client, workload.acknowledged.delayed)
