"""Model in a few lines the responses of a broker to a sequence of operations.

Operations are values, so the same sequence runs against the model, the stub and a real broker. Responses are tuples
without ids, addresses and times, because these differ between servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.bodies import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    decode_body,
    encode_body,
)
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.commands import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    LockBatchMqRequestHeader,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UnlockBatchMqRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pyspark_rocketmq.wire.record import decode_records

from .remoting_client import RemotingClient, send_of

QUEUES = 2
LIMIT = 32
"""Maximum number of messages that a pull returns, even if it asks for more."""


@dataclass(frozen=True)
class Send:
    """Operation: store `count` messages with one tag, as a batch if there are several."""

    queue: int
    tag: str
    count: int = 1


@dataclass(frozen=True)
class Pull:
    """Operation: pull from the offset that lies `back` offsets before the queue's end."""

    queue: int
    back: int
    count: int
    expression: str
    group: str


@dataclass(frozen=True)
class Commit:
    """Operation: commit a group's offset of a queue."""

    queue: int
    group: str
    offset: int


@dataclass(frozen=True)
class Query:
    """Operation: query a group's committed offset of a queue."""

    queue: int
    group: str
    zero: bool | None


@dataclass(frozen=True)
class Bounds:
    """Operation: query the minimum and maximum offset of a queue."""

    queue: int


@dataclass(frozen=True)
class Search:
    """Operation: search for the offset at a message's store time plus `delta_ms`."""

    queue: int
    index: int
    delta_ms: int
    boundary: str


@dataclass(frozen=True)
class Lock:
    """Operation: lock queues for a client, or unlock them if `release` is set."""

    client: str
    queues: tuple[int, ...]
    release: bool


Operation = Send | Pull | Commit | Query | Bounds | Search | Lock
HandlerResult = tuple[Any, ...]

_queues = st.integers(0, QUEUES - 1)
_groups = st.sampled_from(("g", "h"))
_expressions = st.sampled_from(("*", "a", "b", "a || b", "nobody"))
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Send, _queues, st.sampled_from(("a", "b", "")), st.sampled_from((1, 1, 3, 40))),
    st.builds(Pull, _queues, st.integers(-2, 60), st.sampled_from((0, 1, 5, 32, 64)), _expressions, _groups),
    st.builds(Commit, _queues, _groups, st.integers(0, 100)),
    st.builds(Query, _queues, _groups, st.sampled_from((None, False, True))),
    st.builds(Bounds, _queues),
    st.builds(
        Search,
        _queues,
        st.integers(0, 50),
        st.sampled_from((-1_000_000, 0, 1_000_000)),
        st.sampled_from(("LOWER", "UPPER")),
    ),
    st.builds(Lock, st.sampled_from(("c1", "c2")), st.sets(_queues).map(tuple), st.booleans()),
)


class Model:
    """Predicts the responses of a broker, of release 5.1.1 and later or of release 4.9."""

    def __init__(self, *, is_5x: bool) -> None:
        self._is_5x = is_5x
        self._tags: list[list[str]] = [[] for _ in range(QUEUES)]
        self._groups: set[str] = set()
        self._committed: dict[tuple[str, int], int] = {}
        self._owners: dict[int, str] = {}

    def answer(self, operation: Operation) -> HandlerResult:
        """Apply an operation to the model and return the expected response."""
        expected: HandlerResult = getattr(self, f"_{type(operation).__name__.lower()}")(operation)
        return expected

    def _send(self, send: Send) -> HandlerResult:
        tags = self._tags[send.queue]
        tags += [send.tag] * send.count
        return ResponseCode.SUCCESS, len(tags) - send.count

    def _pull(self, pull: Pull) -> HandlerResult:
        self._groups.add(pull.group)
        end = len(self._tags[pull.queue])
        offset = end - pull.back
        status, code, following = _place(offset, end)
        found: list[int] = []
        if not status:
            found, following = self._scan(pull, offset, end)
            status, code = ("FOUND", 0) if found else ("NO_MATCHED_MESSAGE", 20)
        return code, status, following, 0, end, tuple(found)

    def _scan(self, pull: Pull, offset: int, end: int) -> tuple[list[int], int]:
        wanted = None if pull.expression == "*" else set(pull.expression.split(" || "))
        found: list[int] = []
        for at in range(offset, end):
            if found and len(found) >= min(pull.count, LIMIT):
                return found, at
            if wanted is None or self._tags[pull.queue][at] in wanted:
                found.append(at)
        return found, end

    def _commit(self, commit: Commit) -> HandlerResult:
        if self._is_5x and commit.group not in self._groups:
            return (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,)
        self._committed[commit.group, commit.queue] = commit.offset
        return (ResponseCode.SUCCESS,)

    def _query(self, query: Query) -> HandlerResult:
        stored = self._committed.get((query.group, query.queue))
        is_zero = not self._is_5x or (query.zero is not False and self._tags[query.queue])
        if stored is None and is_zero:
            stored = 0
        return (ResponseCode.QUERY_NOT_FOUND,) if stored is None else (ResponseCode.SUCCESS, stored)

    def _bounds(self, bounds: Bounds) -> HandlerResult:
        return 0, len(self._tags[bounds.queue])

    def _search(self, search: Search) -> HandlerResult:
        """Return the expected offset for a time before, at or after all store times; the model has no exact times."""
        end = len(self._tags[search.queue])
        if search.delta_ms < 0 or not end:
            return (0,)
        behind = end if self._is_5x and search.boundary == "LOWER" else end - 1
        return (behind,) if search.delta_ms else ("the message's",)

    def _lock(self, lock: Lock) -> HandlerResult:
        mine = [queue for queue in sorted(lock.queues) if self._owners.get(queue, lock.client) == lock.client]
        for queue in mine:
            if lock.release:
                self._owners.pop(queue, None)
            else:
                self._owners[queue] = lock.client
        return () if lock.release else tuple(mine)


def _place(offset: int, end: int) -> tuple[str, int, int]:
    """Return status, code and next offset of a pull outside the bounds or at the end; inside, the status is empty."""
    if not end:
        return "NO_MESSAGE_IN_QUEUE", 21 if offset else 19, 0
    if offset < 0:
        return "OFFSET_TOO_SMALL", 21, 0
    if offset == end:
        return "OFFSET_OVERFLOW_ONE", 19, end
    return ("OFFSET_OVERFLOW_BADLY", 21, end) if offset > end else ("", 0, 0)


class Server:
    """A broker behind a socket, with a topic and groups that no other test uses."""

    def __init__(self, client: RemotingClient, broker_name: str, topic: str, *, is_5x: bool) -> None:
        self.is_5x = is_5x
        self._asker = client
        self._broker_name = broker_name
        self._topic = topic

    def answer(self, operation: Operation) -> HandlerResult:
        """Send an operation to the broker and return its response as a tuple."""
        found: HandlerResult = getattr(self, f"_{type(operation).__name__.lower()}")(operation)
        return found

    def _send(self, send: Send) -> HandlerResult:
        properties = f"TAGS\x01{send.tag}\x02" if send.tag else ""
        header = send_of(self._topic, queue_id=send.queue, batch=send.count > 1)
        if send.count == 1:
            header = send_of(self._topic, properties, queue_id=send.queue)
        entries = [BatchEntry(b"body", properties.encode())] * send.count
        answer = self._asker.ask(header, b"body" if send.count == 1 else encode_batch(entries))
        offset = int((answer.fields or {})["queueOffset"])
        self._wait_for(send.queue, offset + send.count)
        return answer.code, offset

    def _wait_for(self, queue: int, end: int) -> None:
        """Wait until the queue's maximum offset is `end`, because real brokers show a stored message a little later."""
        for _ in range(2_000):
            if self._offset(GetMaxOffsetRequestHeader(topic=self._topic, queue_id=queue)) >= end:
                return
        raise AssertionError(f"queue {queue} does not reach {end}")

    def _pull(self, pull: Pull) -> HandlerResult:
        end = self._offset(GetMaxOffsetRequestHeader(topic=self._topic, queue_id=pull.queue))
        answer = self._asker.ask(self._pull_header(pull, end - pull.back))
        fields = answer.fields or {}
        numbers = [int(fields[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset")]
        found = tuple(record.queue_offset for record in decode_records(answer.body))
        return answer.code, answer.remark, *numbers, found

    def _pull_header(self, pull: Pull, offset: int) -> PullMessageRequestHeader:
        return PullMessageRequestHeader(
            consumer_group=self._topic + pull.group,
            topic=self._topic,
            queue_id=pull.queue,
            queue_offset=offset,
            max_msg_nums=pull.count,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=pull.expression,
            sub_version=0,
        )

    def _commit(self, commit: Commit) -> HandlerResult:
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self._topic + commit.group,
            topic=self._topic,
            queue_id=commit.queue,
            commit_offset=commit.offset,
        )
        return (self._asker.ask(header).code,)

    def _query(self, query: Query) -> HandlerResult:
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._topic + query.group,
            topic=self._topic,
            queue_id=query.queue,
            set_zero_if_not_found=query.zero,
        )
        answer = self._asker.ask(header)
        return (answer.code, int((answer.fields or {})["offset"])) if answer.code == 0 else (answer.code,)

    def _bounds(self, bounds: Bounds) -> HandlerResult:
        place: Any = {"topic": self._topic, "queue_id": bounds.queue}
        return self._offset(GetMinOffsetRequestHeader(**place)), self._offset(GetMaxOffsetRequestHeader(**place))

    def _search(self, search: Search) -> HandlerResult:
        times = self._store_times(search.queue)
        if not times:
            return (0,)
        index = min(search.index, len(times) - 1)
        time_ms = times[index] + search.delta_ms
        found = self._offset(
            SearchOffsetRequestHeader(
                topic=self._topic, queue_id=search.queue, timestamp=time_ms, boundary_type=search.boundary
            )
        )
        if search.delta_ms:
            return (found,)
        same = [at for at, other in enumerate(times) if other == time_ms]
        right = {same[0] if search.boundary == "LOWER" else same[-1]} if self.is_5x else same
        return ("the message's",) if found in right else (found, same)

    def _store_times(self, queue: int) -> list[int]:
        times: list[int] = []
        end = self._offset(GetMaxOffsetRequestHeader(topic=self._topic, queue_id=queue))
        while len(times) < end:
            header = self._pull_header(Pull(queue, 0, LIMIT, "*", "reader"), len(times))
            times += [record.store_timestamp for record in decode_records(self._asker.ask(header).body)]
        return times

    def _lock(self, lock: Lock) -> HandlerResult:
        body = LockBatchRequestBody(
            consumer_group=self._topic,
            client_id=lock.client,
            mq_set=tuple(MessageQueue(self._topic, self._broker_name, queue) for queue in lock.queues),
        )
        if lock.release:
            self._asker.ask(UnlockBatchMqRequestHeader(), encode_body(body))
            return ()
        answer = self._asker.ask(LockBatchMqRequestHeader(), encode_body(body))
        held_pulls = decode_body(LockBatchResponseBody, answer.body).lock_ok_mq_set
        return tuple(sorted(queue.queue_id for queue in held_pulls))

    def _offset(self, header: Any) -> int:
        return int((self._asker.ask(header).fields or {})["offset"])


def compare(server: Server, sequence: Sequence[Operation]) -> None:
    """Run a sequence of operations against a server and the model; raise if a response differs."""
    model = Model(is_5x=server.is_5x)
    for number, operation in enumerate(sequence):
        assert server.answer(operation) == model.answer(operation), f"at {number}: {operation}"
