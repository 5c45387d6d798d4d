"""Test that messages are counted in bounded memory, and that the counts are compared with another broker process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.pull.recount import MOST_PARTS, Part, Tally, Unconfirmed, count_within, recount
from pyspark_rocketmq.pull.settings import Subscription
from pyspark_rocketmq.wire.scan import record_starts

from .scripted_queue import ONE_FILTER, Told, record_at


def test_counts_of_light_topics_prove_nothing() -> None:
    """If the recount of a light topic finds an equal number, a loss is reported, because the offsets prove nothing."""
    told, wanted = Told(), QueueRange(MessageQueue("%LMQ%orders", "a", 0), 10, 13)

    def read(ranges: Sequence[QueueRange], subscription: Subscription) -> Iterator[Block]:
        records = {10: record_at(3, 100), 11: record_at(11, 200), 12: record_at(12, 300)}
        for each in ranges:
            yield Block(memoryview(b"".join(records[at] for at in range(each.start, each.end))), each, 3)

    recount([Unconfirmed(wanted, 2)], read, ONE_FILTER, told)
    assert told.losses == [(10, 13)]


def recounted(stated: int, count: int | None) -> list[tuple[int, int]]:
    """Recount a range of three messages, whose records state offsets that are too high by `stated`; return losses."""
    told, wanted = Told(), QueueRange(MessageQueue("orders", "a", 0), 10, 13)

    def read(ranges: Sequence[QueueRange], subscription: Subscription) -> Iterator[Block]:
        for each in ranges:
            records = [record_at(at + stated, 100 * at) for at in range(each.start, each.end)]
            yield Block(memoryview(b"".join(records)), each, len(records))

    recount([Unconfirmed(wanted, count)], read, ONE_FILTER, told)
    return told.losses


def test_equal_counts_prove_that_nothing_is_lost() -> None:
    """If a recount finds the number of messages that was read before, there is no loss; another number is one."""
    assert recounted(0, 3) == []
    assert [recounted(0, count) for count in (2, 4, None)] == [[(10, 13)]] * 3


def test_counts_prove_nothing_where_records_state_other_offsets() -> None:
    """If the last record states an offset beyond the range, counting by offsets misses it: a loss is reported."""
    assert recounted(1, 2) == [(10, 13)]


def test_answers_in_any_order_make_few_parts() -> None:
    """If intervals that touch are added in any order, they are joined and their counts are added."""
    answers = [Part(start, start + 10, start % 7) for start in range(0, 900, 10) if start != 300]
    Random(1).shuffle(answers)
    tally = Tally()
    for start, end, count in answers:
        tally.add(start, end, count or 0)

    halves = [range(0, 300, 10), range(310, 900, 10)]
    assert tally.parts() == [Part(half[0], half[-1] + 10, sum(start % 7 for start in half)) for half in halves]


def test_counts_are_given_up_before_they_grow_without_end() -> None:
    """If too many intervals do not touch, their counts are dropped, also in a tally that joins them."""
    scattered, other = Tally(), Tally()
    for start in range(0, 30 * MOST_PARTS, 10):
        scattered.add(start, start + 5, 1)
    other.add(100_000, 100_010, 3)
    other.join(scattered)

    assert len(scattered.parts()) <= MOST_PARTS
    assert all(count is None for _, _, count in [*scattered.parts(), *other.parts()])
    for start in (6, 16):  # Counts were given up, but no offset is forgotten.
        scattered.add(start, start + 1, 1)
    assert scattered.parts()[0].start == 0 and scattered.parts()[-1].end == 30 * MOST_PARTS - 5
    assert sum(end - start for start, end, _ in scattered.parts()) > 15 * MOST_PARTS


def test_a_thousand_intervals_are_counted() -> None:
    """A thousand intervals that do not touch are counted each by itself; one more ends the counting."""
    tally = Tally()
    for start in range(0, 20_000, 20):
        tally.add(start, start + 10, 2)
    assert [count for _, _, count in tally.parts()] == [2] * 1_000
    tally.add(20_000, 20_010, 2)
    assert [count for _, _, count in tally.parts()] == [None]


def test_messages_are_counted_within_bounds() -> None:
    """Only records with an offset within the given bounds are counted."""
    body = b"".join(record_at(offset, offset) for offset in (5, 6, 9, 12))

    assert [
        count_within(body, record_starts(body), low, high) for low, high in [(5, 13), (6, 12), (10, 12), (0, 5)]
    ] == [
        4,
        2,
        0,
        0,
    ]
    assert count_within(b"", (), 0, 9) == 0
