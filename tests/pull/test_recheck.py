"""Test that a response with too few messages, or with impossible offsets, is read again, and losses are reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from pyspark_rocketmq.errors import AnswerMismatch
from pyspark_rocketmq.model import Block, MessageQueue, QueueRange
from pyspark_rocketmq.pull.recheck import Recheck
from pyspark_rocketmq.pull.settings import PullSettings
from pyspark_rocketmq.wire.record import decode_record, encode_record
from tests.cluster.scripted import ScriptedLinks, cluster_of, route_of
from tests.decode.samples import inner_batch

from .scripted_queue import Told, record_at


@pytest.mark.parametrize(
    ("topic", "losses", "row_count"), [("orders", [(0, 1)], 2), ("%LMQ%orders", [(0, 3)], 0)], ids=["plain", "light"]
)
def test_records_of_light_topics_do_not_tell_which_messages_are_missing(
    topic: str, losses: list[tuple[int, int]], row_count: int
) -> None:
    """If a short response holds records of a light topic, it brings no rows, and its whole range is reported lost."""
    links, told, queue = ScriptedLinks(), Told(), MessageQueue(topic, "a", 0)
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "replica:1"}))
    recheck = Recheck(cluster_of(links).brokers, cast(Any, None), told, PullSettings())
    data = memoryview(record_at(1, 100) + record_at(2, 200))
    short = Block(data, QueueRange(queue, 0, 3), 3, 0, 3, 3)

    assert len(list(recheck.read_again(short))) == row_count
    assert told.losses == losses


@pytest.mark.parametrize(
    ("wanted", "losses", "positions"),
    [(range(20), [(0, 20)], [2, 9]), (range(3), [], [2]), (range(5, 20), [], [9])],
    ids=["whole", "cut behind", "cut before"],
)
def test_filtered_messages_that_the_master_does_not_have_are_told(
    wanted: range, losses: list[tuple[int, int]], positions: list[int]
) -> None:
    """If a filtered record within the wanted offsets is not found again, the range is reported as lost."""
    told, queue = Told(), MessageQueue("orders", "a", 0)
    asked = QueueRange(queue, wanted.start, wanted.stop)

    class Scripted(Recheck):
        def read_again(self, block: Block) -> Iterator[Block]:
            assert block.covered == 0  # Filtered messages are not counted.
            for at in (2, 9):
                if at in wanted:
                    yield Block(memoryview(record_at(at, 100 * at)), asked, 1, at, 1, at + 1)

    recheck = Scripted(cluster_of(ScriptedLinks()).brokers, cast(Any, None), told, PullSettings())
    records = [record_at(2, 200), record_at(30, 777), record_at(9, 900)]
    answer = Block(memoryview(b"".join(records)), asked, 3, 0, 0, 20)

    placed = [(block.first, block.covered, block.next_offset, block.message_count) for block in recheck.place(answer)]
    assert placed == [(at, 1, at + 1, 1) for at in positions]
    assert told.losses == losses


# --- short responses of a broker without a master --------------------------------------------------------------------


class Counting(Told):
    """A loss policy that also notes how many messages are missing."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int | None] = []

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Note that messages within `[start, end)` are gone, and how many."""
        super().lacks_messages(queue, start, end, missing_count)
        self.counts.append(missing_count)


QUEUE = MessageQueue("orders", "a", 0)


def without_master(told: Told) -> Recheck:
    """Return a recheck whose broker has only a replica, so that nothing is read again."""
    links = ScriptedLinks()
    links.serve("ns:1", GET_ROUTEINFO_BY_TOPIC=route_of(a={1: "replica:1"}))
    return Recheck(cluster_of(links).brokers, cast(Any, None), told, PullSettings())


def short(offsets: list[int], end: int, *, is_open: bool = False) -> Block:
    """Return a response for the offsets `[0, end)` with records at these offsets."""
    data = memoryview(b"".join(record_at(at, 100 * at) for at in offsets))
    return Block(data, QueueRange(QUEUE, 0, end, is_open), len(offsets), 0, end, end)


@pytest.mark.parametrize(
    ("offsets", "losses", "counts"),
    [([0, 3], [(1, 3)], [2]), ([0, 2, 4], [(1, 6)], [3]), ([2, 3, 4, 5], [(0, 2)], [2]), ([], [(0, 6)], [6])],
)
def test_missing_messages_are_reported_with_their_number(
    offsets: list[int], losses: list[tuple[int, int]], counts: list[int]
) -> None:
    """The report ranges from the first to the last missing message and counts them; each record is a block."""
    told, end = Counting(), 4 if offsets == [0, 3] else 6
    found = list(without_master(told).read_again(short(offsets, end)))
    assert (told.losses, told.counts) == (losses, counts)
    assert [(each.message_count, each.covered, each.next_offset) for each in found] == [(1, 0, 0)] * len(offsets)


def test_what_is_missing_at_an_open_front_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """If only messages at the open front of a range are missing, that is no loss, and the front may go on."""
    told = Counting()
    recheck = without_master(told)
    caplog.set_level("INFO")
    assert len(list(recheck.read_again(short([2, 3], 4, is_open=True)))) == 2
    assert told.losses == [] and "messages from 0 to 2 are gone at the front" in caplog.text

    following = short([3], 4)
    list(recheck.read_again(following._replace(wanted=QueueRange(QUEUE, 2, 4), first=2, covered=2)))
    assert told.losses == [] and "messages from 2 to 3 are gone at the front" in caplog.text
    list(recheck.read_again(short([1, 3], 4, is_open=True)))
    assert (told.losses, told.counts) == ([(0, 3)], [2])


@pytest.mark.parametrize("offsets", [[0, 1, 1], [2, 1], [1, 4], [-1, 1]], ids=str)
def test_impossible_offsets_tell_nothing(offsets: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """If the offsets in records do not ascend within the range, the whole range is reported, once in the log."""
    told = Counting()
    recheck = without_master(told)
    for _ in range(2):
        assert list(recheck.read_again(short(offsets, 4))) == []
    assert (told.losses, told.counts) == ([(0, 4)] * 2, [None] * 2)
    assert len(caplog.records) == 1


def test_a_response_with_enough_messages_stays_as_it_is() -> None:
    """A counted response with as many messages as offsets is not read again, and one with more is refused."""
    told = Told()
    whole, recheck = short([0, 1, 2], 3), without_master(told)
    assert list(recheck.whole(whole)) == [whole]
    with pytest.raises(AnswerMismatch, match="holds 4 messages for 3 offsets"):
        list(recheck.whole(short([0, 1, 2, 2], 3)))
    assert told.losses == []


@pytest.mark.parametrize(("first", "end"), [(0, 3), (1, 3), (0, 2), (1, 2)])
def test_messages_of_an_inner_batch_count_within_the_response(first: int, end: int) -> None:
    """Of an inner batch, the messages at offsets that the response covers count, and no others."""
    batch = inner_batch(decode_record(record_at(0, 700))[0], [b"a", b"b", b"c"])
    block = Block(memoryview(encode_record(batch)), QueueRange(QUEUE, first, end), 1, first, end - first, end)
    assert list(without_master(Told()).whole(block)) == [block]

    missing = block._replace(wanted=QueueRange(QUEUE, first, end + 2), covered=end + 2 - first, next_offset=end + 2)
    told = Told()
    assert len(list(without_master(told).whole(missing))) == 1
    assert told.losses == [(3, end + 2)]


@pytest.mark.parametrize("records", [[(2, 200), (3, 200)], [(2, 300), (3, 200)]], ids=["twice", "out of order"])
def test_filtered_messages_out_of_order_are_refused(records: list[tuple[int, int]]) -> None:
    """Records of a filtered response must ascend in the commit log."""
    data = memoryview(b"".join(record_at(*each) for each in records))
    with pytest.raises(AnswerMismatch, match="out of order or twice"):
        list(without_master(Told()).place(Block(data, QueueRange(QUEUE, 0, 9), 2, 0, 0, 9)))
