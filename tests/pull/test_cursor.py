"""Test the cursor: it requests a range in pieces and returns the responses in offset order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.pull.cursor import Cursor
from pyspark_rocketmq.pull.port import PullRequest
from pyspark_rocketmq.pull.process_queue import FlowLimits
from pyspark_rocketmq.wire.record import decode_record, encode_record

from .scripted_queue import record_at

QUEUE = MessageQueue("orders", "broker-a", 0)


def cursor(start: int, end: int, batch_size: int = 32) -> Cursor:
    """Return a cursor over `[start, end)`."""
    return Cursor(QueueRange(QUEUE, start, end), batch_size)


def answer(reader: Cursor, request: PullRequest, next_offset: int | None = None) -> None:
    """Give the cursor a response with a message at each offset from the pull's start to `next_offset` or its end."""
    end = request.end if next_offset is None else next_offset
    reader.accept(request.start, end, memoryview(bytes(end - request.start)), end - request.start)


def taken(reader: Cursor) -> list[tuple[int, int]]:
    """Return the (start, end) of the blocks that the cursor returns now."""
    return [(block.wanted.start, block.wanted.end) for block in reader.take()]


def requests(reader: Cursor, count: int) -> list[PullRequest]:
    """Return the next requests, at most `count`; they are in flight then."""
    return reader.take_requests(count)


def test_a_window_asks_ahead_and_stops_at_the_end() -> None:
    """Adjoining ranges are requested before any response, and the last request ends at the end of the range."""
    reader = cursor(5, 80)
    assert requests(reader, 2) == [PullRequest(5, 37), PullRequest(37, 69)] and reader.has_more_to_pull
    assert requests(reader, 7) == [PullRequest(69, 80)] and not reader.has_more_to_pull


def test_answers_are_handed_out_in_offset_order() -> None:
    """If the second response arrives first, it is returned after the first one."""
    reader = cursor(0, 64)
    first, second = requests(reader, 2)
    answer(reader, second)
    assert taken(reader) == [] and reader.waiting.message_count == 32
    answer(reader, first)
    assert taken(reader) == [(0, 32), (32, 64)] and reader.waiting.message_count == 0
    assert reader.is_finished


def test_offsets_that_a_short_answer_left_come_first() -> None:
    """If a response covers 8 of 32 offsets, the other 24 are requested in pieces of 8, before any new offsets."""
    reader = cursor(0, 1000)
    (first,) = requests(reader, 1)
    answer(reader, first, next_offset=8)
    assert requests(reader, 4) == [PullRequest(8, 16), PullRequest(16, 24), PullRequest(24, 32), PullRequest(32, 40)]


def test_the_stride_grows_back_after_full_answers() -> None:
    """If responses cover the whole stride, it grows up to the batch size."""
    reader = cursor(0, 10_000)
    answer(reader, requests(reader, 1)[0], next_offset=8)
    while reader.stride < 32:
        answer(reader, requests(reader, 1)[0])
    assert reader.stride == 32


def test_the_stride_doubles_after_sixteen_full_answers() -> None:
    """After 16 responses that cover the whole stride it doubles, and so on, up to the batch size."""
    reader, strides = cursor(0, 100_000, batch_size=100), []
    answer(reader, requests(reader, 1)[0], next_offset=12)
    for _ in range(68):
        (request,) = requests(reader, 1)
        strides.append(request.end - request.start)
        answer(reader, request)

    rest_of_the_first = [*[12] * 7, 4]
    assert strides == [*rest_of_the_first, *[12] * 9, *[24] * 16, *[48] * 16, *[96] * 16, *[100] * 3]


def test_the_lowest_missing_offset() -> None:
    """An offset is missing while it is in flight, to be requested again or new; `least` leaves lower ones out."""
    reader = cursor(0, 200)
    assert reader.lowest_missing() == 0
    first, second, third = requests(reader, 3)
    assert (reader.lowest_missing(), reader.lowest_missing(40)) == (0, 40)
    answer(reader, third)
    answer(reader, first)
    assert (reader.lowest_missing(), reader.lowest_missing(64)) == (32, 96)
    reader.retry(second.start)
    assert (reader.lowest_missing(), reader.lowest_missing(64)) == (32, 96)


def test_a_broker_that_gives_little_is_seldom_asked_for_more() -> None:
    """If a broker returns 8 messages at most, fewer than 80 of a thousand requests ask for more."""
    reader, short = cursor(0, 8000), 0
    while asked := requests(reader, 1):
        (request,) = asked
        short += request.end - request.start > 8
        answer(reader, request, min(request.start + 8, request.end))

    assert taken(reader)[-1][1] == 8000
    assert 0 < short < 80


def test_an_answer_that_skipped_far_moves_the_frontier() -> None:
    """If a response covers more offsets than requested, these are not requested again."""
    reader = cursor(0, 5000)
    (only,) = requests(reader, 1)
    reader.accept(only.start, 800, memoryview(b""), 0)
    assert reader.take() == [] and reader.done == 800
    assert requests(reader, 1) == [PullRequest(800, 1600)]


def test_an_answer_that_skipped_beyond_the_end_ends_the_range() -> None:
    """If a response covers more than the rest of the range, only the range is wanted, and nothing is left."""
    reader = cursor(0, 100)
    (only,) = requests(reader, 1)
    wanted = reader.accept(only.start, 800, memoryview(b"x"), 1)
    assert wanted == QueueRange(QUEUE, 0, 100)
    assert reader.is_finished and not reader.has_more_to_pull


def test_a_failed_pull_is_asked_again() -> None:
    """If a pull fails, its offsets are requested again before any others."""
    reader = cursor(0, 64)
    first, second = requests(reader, 2)
    answer(reader, second)
    reader.retry(first.start)
    assert reader.lacks_its_lowest
    assert requests(reader, 2) == [first]


@given(st.integers(1, 100), st.integers(1, 3000), st.integers())
def test_limits_never_stop_a_range(limit: int, stride: int, seed: int) -> None:
    """If no pull is in flight and the range is not finished, one pull is allowed, whatever the limits are."""
    reader, limits, chance = cursor(0, 4_000), FlowLimits(message_count=limit), random.Random(seed)
    (first,) = requests(reader, 1)
    reader.accept(first.start, stride, memoryview(b""), 0)
    while not reader.is_finished:
        taken(reader)
        in_flight = requests(reader, reader.allowance(limits, 4))
        assert in_flight or reader.is_finished
        for request in chance.sample(in_flight, len(in_flight)):
            if chance.random() < 0.3:
                reader.retry(request.start)
            else:
                answer(reader, request, chance.randint(request.start + 1, request.end))


def test_messages_that_are_gone_are_passed_over() -> None:
    """After a skip to a new minimum offset, only offsets from there on are requested."""
    reader = cursor(0, 100)
    first, second = requests(reader, 2)
    for request in (first, second):
        reader.retry(request.start)
    reader.skip_to(50)
    assert requests(reader, 2) == [PullRequest(50, 64), PullRequest(64, 96)]


def test_a_skip_to_where_a_pull_begins() -> None:
    """If the new minimum offset is the end of one pull and the start of the next, that next one is requested."""
    reader = cursor(0, 64)
    for request in requests(reader, 2):
        reader.retry(request.start)
    reader.skip_to(32)
    assert requests(reader, 2) == [PullRequest(32, 64)]


def test_what_came_before_the_rest_was_gone_is_handed_out_first() -> None:
    """After a skip, responses received before it are returned first; later ones only from the new start on."""
    reader = cursor(0, 192)
    lost, early, late, across, last, _ = requests(reader, 6)
    answer(reader, early)
    reader.retry(lost.start)
    reader.skip_to(112)
    for request in (last, late, across):
        answer(reader, request)
    assert taken(reader) == [(32, 64), (112, 128), (128, 160)] and reader.done == 160


def test_a_queue_that_ends_early_is_finished_early() -> None:
    """If the queue ends before the range, offsets after its end are not requested, and the range is finished."""
    reader = cursor(0, 100)
    first, second = requests(reader, 2)
    answer(reader, first)
    reader.retry(second.start)
    reader.stop_at(32)
    assert taken(reader) == [(0, 32)] and reader.is_finished and not requests(reader, 1)


@given(st.integers(0, 50), st.integers(1, 400), st.integers(1, 40), st.integers(1, 12), st.integers())
def test_any_order_of_any_answers_tiles_the_range(
    start: int, length: int, batch_size: int, window: int, seed: int
) -> None:
    """After any sequence of responses and failures, each offset has been returned exactly once and in order."""
    reader, seen, chance = cursor(start, start + length, batch_size), start, random.Random(seed)
    in_flight: list[PullRequest] = []
    while not reader.is_finished:
        in_flight += requests(reader, window - len(in_flight))
        request = in_flight.pop(chance.randrange(len(in_flight)))
        if chance.random() < 0.2:
            reader.retry(request.start)
        else:
            answer(reader, request, chance.randint(request.start, request.end + 5))
        for low, high in taken(reader):
            assert low == seen and high > low
            seen = high
    assert seen == start + length and reader.waiting.body_bytes == 0


def test_pulls_go_together_as_far_as_all_of_them_are_allowed() -> None:
    """If four pulls may exceed a limit, one is allowed; if one may, none is, unless for the lowest missing offset."""
    reader, limits = cursor(0, 10_000), FlowLimits(message_count=160)
    allowed = []
    for _ in range(4):
        allowed.append(reader.allowance(limits, 4))
        requests(reader, allowed[-1])
    assert allowed == [4, 1, 1, 0]

    answer(reader, PullRequest(32, 64))
    reader.retry(0)
    assert reader.allowance(limits, 4) == 1


def test_a_block_tells_where_its_pull_began_and_what_it_covered() -> None:
    """A counted response makes a block even if it is empty; an empty response that is not counted makes none."""
    reader = cursor(0, 96)
    for request in requests(reader, 3):
        reader.accept(request.start, request.end, memoryview(b""), 0, is_counted=request.start != 32)
    assert [(block.wanted.start, block.first, block.covered) for block in reader.take()] == [(0, 0, 32), (64, 64, 32)]


def test_empty_blocks_are_left_out_in_any_order() -> None:
    """Of responses that are not counted, only those with messages make blocks, even if they had to wait."""
    reader = cursor(0, 96)
    first, second, third = requests(reader, 3)
    reader.accept(third.start, third.end, memoryview(b"x"), 1)
    reader.accept(second.start, second.end, memoryview(b""), 0)
    reader.accept(first.start, first.end, memoryview(b"x"), 1)
    assert [(block.wanted.start, block.covered) for block in reader.take()] == [(0, 0), (64, 0)]


def test_only_the_first_block_of_a_range_has_an_open_front() -> None:
    """If a range has an open front, only the wanted range of its first block has one."""
    reader = Cursor(QueueRange(QUEUE, 7, 90, is_front_open=True), 32)
    for request in requests(reader, 2):
        answer(reader, request)
    assert [block.wanted.is_front_open for block in reader.take()] == [True, False]


# --- flow limits -----------------------------------------------------------------------------------------------------


def ask_all_allowed(reader: Cursor, limits: FlowLimits) -> list[PullRequest]:
    """Return the requests that the limits allow now, as the window takes them: at most four at once."""
    asked: list[PullRequest] = []
    while allowed := reader.allowance(limits, 4):
        taken_now = requests(reader, allowed)
        if not taken_now:
            break
        asked += taken_now
    return asked


def test_a_late_answer_holds_later_pulls_back() -> None:
    """While one response is late, pulls reach beyond its offsets by the span and one pull, however many are allowed."""
    reader, limits = cursor(0, 10_000), FlowLimits(message_count=65_535, body_mib=1024, span=64)
    late, *others = ask_all_allowed(reader, limits)
    while others:
        for each in others:
            answer(reader, each)
        others = ask_all_allowed(reader, limits)
    taken(reader)
    assert reader.waiting.newest_offset < 64 + 32

    answer(reader, late)
    taken(reader)
    assert len(ask_all_allowed(reader, limits)) == 3


def test_the_default_limits_keep_a_window_of_pulls_in_flight() -> None:
    """With RocketMQ's limits a queue has 32 pulls of 32 messages in flight, even if each covers 800 offsets."""
    plain, filtered = cursor(0, 100_000), cursor(0, 100_000)
    (first,) = requests(filtered, 1)
    filtered.accept(first.start, 800, memoryview(b""), 0)

    assert len(ask_all_allowed(plain, FlowLimits())) == len(ask_all_allowed(filtered, FlowLimits())) == 32


def test_an_orderly_read_has_no_span() -> None:
    """If rows of a queue stay in order, only messages and bytes limit the pulls, as in RocketMQ."""
    reader = Cursor(QueueRange(QUEUE, 0, 10_000), 32, orderly=True)

    assert len(ask_all_allowed(reader, FlowLimits(message_count=319, span=1))) == 10


def wide_records(count: int, body: bytes) -> memoryview:
    """Return a response with records of this body and 30 KB of properties each."""
    plain = decode_record(record_at(0, 0))[0]
    return memoryview(encode_record(replace(plain, body=body, properties_text=b"k\x01" + 30_000 * b"v")) * count)


@pytest.mark.parametrize(("body", "allowed"), [(b"x", 1), (30_000 * b"x", 0)])
def test_bytes_are_those_of_bodies(body: bytes, allowed: int) -> None:
    """The limit of bytes counts message bodies, as RocketMQ does, and nothing else of the records that wait."""
    reader, limits = cursor(0, 10_000), FlowLimits(message_count=65_535, body_mib=1, span=65_535)
    _, *others = requests(reader, 4)
    for each in others:
        reader.accept(each.start, each.end, wide_records(32, body), 32)
    taken(reader)

    assert [reader.allowance(limits, 1) for _ in range(2)] == [allowed, allowed]
    assert reader.waiting.body_bytes == 3 * 32 * len(body)


def test_bytes_are_counted_only_near_their_limit() -> None:
    """While whole responses are within the limit, so are their bodies, and no record is looked at."""
    reader = cursor(0, 10_000)
    _, later = requests(reader, 2)
    reader.accept(later.start, later.end, memoryview(b"no record"), 32)
    taken(reader)

    assert reader.allowance(FlowLimits(), 4) == 4 and reader.waiting.body_bytes == len(b"no record")
