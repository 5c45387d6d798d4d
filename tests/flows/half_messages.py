"""Send half messages, end them, and see what a broker does with them.

A half message is stored in a system topic of its broker. Its address there, the queue offset and the commit-log offset,
is what an END_TRANSACTION names. `Watcher` is a producer of a group that receives the broker's checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark_rocketmq.cluster.broker import RoutedRequest
from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.pull.port import PullStatus
from pyspark_rocketmq.pull.remoting import read_outcome
from pyspark_rocketmq.wire.bodies import HeartbeatData, ProducerData
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode, TransactionState
from pyspark_rocketmq.wire.commands import CheckTransactionStateRequestHeader, EndTransactionRequestHeader, from_fields
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.message_id import decode_offset_message_id
from pyspark_rocketmq.wire.record import Record, decode_records

from .world import PULL_CODES, World, fresh, now_ms, pull_request, sending, until

COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
HALF_TOPICS = {"5.5.0-rocksdb": "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "": "RMQ_SYS_TRANS_HALF_TOPIC"}
"""The topic of half messages, by the beginning of the world's version."""
CHECK_MAX = 3
"""The number of checks after which the brokers of these scenarios give a half message up."""
LONG_AGO_MS = 60_000
"""Age of half messages that are old enough to be checked in the next pass."""


@dataclass(frozen=True)
class Half:
    """A half message: its own queue, its producer group and unique id, and its address in the half topic."""

    queue: MessageQueue
    group: str
    unique_id: str
    queue_offset: int
    physical_offset: int


def prepare(
    world: World,
    queue: MessageQueue | None = None,
    *,
    group: str | None = None,
    body: bytes = b"half",
    age_ms: int = 0,
    flag: int = 0,
    **properties: str,
) -> Half:
    """Store a half message that was born `age_ms` ago; by default for a new queue and of a new group."""
    queue, group, unique_id = queue or world.make_queue(), group or fresh("group"), fresh("id")
    own = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": unique_id, **properties}
    message = sending(queue, body, own, sys_flag=TransactionState.PREPARED)
    receipt = world.store(replace(message, producer_group=group, born_timestamp_ms=now_ms() - age_ms, flag=flag))
    physical = decode_offset_message_id(receipt.message_id).physical_offset
    return Half(queue, group, unique_id, receipt.queue_offset, physical)


def end(cluster: Cluster, half: Half, state: TransactionState, *, is_checked: bool = False) -> None:
    """Commit or roll back a half message, by its address, and wait for the response; raise if it is refused."""
    header = end_header(half, state, is_checked=is_checked)
    cluster.brokers.ask_once(RoutedRequest(half.queue.topic, half.queue.broker_name, header))


def end_header(half: Half, state: TransactionState, *, is_checked: bool = False) -> EndTransactionRequestHeader:
    """Return the request that ends a half message's transaction."""
    return EndTransactionRequestHeader(
        topic=half.queue.topic,
        producer_group=half.group,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.physical_offset,
        commit_or_rollback=state,
        from_transaction_check=is_checked,
        msg_id=half.unique_id,
        transaction_id=half.unique_id,
    )


def records_of(world: World, half: Half, topic: str | None = None) -> list[Record]:
    """Return the records of a half message in a system topic of its broker; by default in the half topic."""
    topic = world.by_version(HALF_TOPICS) if topic is None else topic
    found, offset = [], 0
    while batch := _read_system_topic(world, half.queue, topic, offset):
        found += [record for record in batch if record.properties.get("UNIQ_KEY") == half.unique_id]
        offset = batch[-1].queue_offset + 1
    return found


def _read_system_topic(world: World, near: MessageQueue, topic: str, offset: int) -> list[Record]:
    """Return messages of a system topic at the broker of `near`; none if the broker has not made the topic yet."""
    request = pull_request(near._replace(topic=topic, queue_id=0), offset)._replace(topic=near.topic)
    located = world.cluster.brokers.locate(request)
    command = world.cluster.brokers.servers.ask(located, welcome=PULL_CODES | {ResponseCode.TOPIC_NOT_EXIST}).command
    if command.code == ResponseCode.TOPIC_NOT_EXIST:
        return []
    outcome = read_outcome(command)
    return decode_records(outcome.body) if outcome.status is PullStatus.FOUND else []


class Watcher:
    """A producer of a new group, which receives the checks of its half messages and answers when it is told to."""

    def __init__(self, world: World, cluster: Cluster, queue: MessageQueue, group: str, seen: list[Command]) -> None:
        self.queue = queue
        self.group = group
        self._world = world
        self._cluster = cluster
        self._seen = seen

    def prepare(self, **options: object) -> Half:
        """Store a half message of this producer's group that is old enough to be checked."""
        return prepare(self._world, self.queue, group=self.group, age_ms=LONG_AGO_MS, **options)  # type: ignore[arg-type]

    def checks(self, half: Half) -> list[CheckTransactionStateRequestHeader]:
        """Return the checks of a half message that came until now."""
        headers = [from_fields(CheckTransactionStateRequestHeader, command.fields) for command in list(self._seen)]
        return [header for header in headers if header.msg_id == half.unique_id]

    def await_checks(self, half: Half, count: int = 1) -> list[CheckTransactionStateRequestHeader]:
        """Wait until a half message was checked `count` times; return its checks."""
        until(lambda: len(self.checks(half)) >= count, f"{count} checks of {half}")
        return self.checks(half)

    def await_pass(self) -> None:
        """Wait until the broker has gone through the half messages once more: until it checks one that came now."""
        newcomer = self.prepare(body=b"newcomer")
        self.answer(newcomer, self.await_checks(newcomer)[0], ROLLBACK)

    def answer(self, half: Half, check: CheckTransactionStateRequestHeader, state: TransactionState) -> None:
        """Answer a check, by the address that the check names."""
        asked = replace(half, queue_offset=check.tran_state_table_offset, physical_offset=check.commit_log_offset)
        end(self._cluster, asked, state, is_checked=True)


@contextmanager
def watching(world: World) -> Iterator[Watcher]:
    """Connect a producer of a new group, with a new queue for its messages."""
    queue, group, seen = world.make_queue(), fresh("group"), list[Command]()

    def handler(address: Address, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            seen.append(command)

    with world.shared_cluster(handler) as cluster:
        producer = HeartbeatData(client_id=group, producer_data_set=(ProducerData(group_name=group),))
        cluster.groups.heartbeat(world.master(queue), producer)
        yield Watcher(world, cluster, queue, group, seen)
