"""Test that the first and last messages of many queues are found by store time, without holding all of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from weakref import WeakSet

import pytest

from pyspark_rocketmq.cli.messages import MessageRow
from pyspark_rocketmq.cli.store_order import read_first, read_last
from pyspark_rocketmq.cli.values import moment
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.model import MessageQueue, QueueRange

Stored = dict[MessageQueue, list[int]]
"""The store time of each message of each queue, by offset."""


class Row:
    """A row with the place of a message only; the class counts how many are held."""

    held: ClassVar[WeakSet[Row]] = WeakSet()
    most = 0

    def __init__(self, message: ReceivedMessage) -> None:
        self.stored = moment(message.store_timestamp_ms)
        self.broker, self.queue_id = message.queue.broker_name, message.queue.queue_id
        self.offset = message.offset
        Row.held.add(self)
        Row.most = max(Row.most, len(Row.held))


def make_row(message: ReceivedMessage) -> MessageRow:
    """Return a row of a message."""
    return cast(MessageRow, Row(message))


class Queues:
    """Queues of messages, which count how many are read."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self.count = 0

    @property
    def ranges(self) -> list[QueueRange]:
        """The whole of each queue."""
        return [QueueRange(queue, 0, len(times)) for queue, times in self._stored.items()]

    def read(self, ranges: Iterable[QueueRange]) -> Iterator[ReceivedMessage]:
        """Yield the messages of these ranges."""
        for queue, start, end, _ in ranges:
            for offset in range(start, end):
                self.count += 1
                time_ms = self._stored[queue][offset]
                yield cast(ReceivedMessage, SimpleNamespace(queue=queue, offset=offset, store_timestamp_ms=time_ms))

    def in_order(self) -> list[tuple[int, str, int, int]]:
        """Return the places of all messages in the order of store times."""
        return sorted(
            (time_ms, queue.broker_name, queue.queue_id, offset)
            for queue, times in self._stored.items()
            for offset, time_ms in enumerate(times)
        )


def places(rows: Iterable[MessageRow]) -> list[tuple[int, str, int, int]]:
    """Return store times and places of rows."""
    return [(row.stored.ms, row.broker, row.queue_id, row.offset) for row in rows]


@pytest.mark.parametrize("seed", range(20))
def test_the_first_and_last_ones_are_those_of_all(seed: int) -> None:
    """For any store times that rise within queues, the messages are the first or last of a sorted list of all."""
    choose = random.Random(seed)
    stored = {
        MessageQueue("T", choose.choice("ab"), number): sorted(choose.choices(range(60), k=choose.randrange(40)))
        for number in range(6)
    }
    queues, count = Queues(stored), choose.randrange(1, 30)

    first = read_first(queues.read, queues.ranges, count, make_row)
    last = read_last(queues.read, queues.ranges, count, make_row)

    assert places(first) == queues.in_order()[:count]
    assert places(last) == queues.in_order()[-count:]


@pytest.mark.parametrize("read", [read_first, read_last])
def test_no_more_rows_are_held_than_asked_for(read: Any) -> None:
    """A row with its body is dropped as soon as it is not among the wanted ones."""
    queues = Queues({MessageQueue("T", "a", number): list(range(200)) for number in range(20)})
    Row.most = 0

    rows = read(queues.read, queues.ranges, 10, make_row)

    assert len(rows) == 10
    assert Row.most <= 2 * 10 + 2  # The wanted ones of the round before, those of this one, and the latest.


def test_queues_are_not_read_to_their_ends_for_a_few_messages() -> None:
    """A queue is left as soon as enough messages were stored before its latest one."""
    queues = Queues({MessageQueue("T", "a", number): list(range(10_000)) for number in range(10)})

    rows = read_first(queues.read, queues.ranges, 5, make_row)

    assert places(rows) == queues.in_order()[:5] and queues.count < 10 * 20
    assert places(read_last(queues.read, queues.ranges, 5, make_row)) == queues.in_order()[-5:]
    assert queues.count < 2 * 10 * 20
