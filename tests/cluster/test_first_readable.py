"""The first readable message is found even if a queue's minimum offset names deleted messages."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_stub import StubBroker
from pyspark_rocketmq.cluster.searches import search_first_readable
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.source.driving import TOPIC, admin_of, queue_of

COUNT = 40
QUEUES = [queue_of(number) for number in range(2)]


def lose_log(stub: StubBroker, offset: int) -> None:
    """Delete the commit log up to the message at an offset of queue 0, but keep the minimum offsets of the queues."""

    def lose() -> None:
        store = stub.state.brokers[0].store
        store.log.min_offset = store.queue(TOPIC, 0).physical[offset]

    stub.run(lose)


@given(st.integers(0, 50), st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 900))
def test_it_is_found_wherever_it_is(smallest: int, gone: int, held: int, reach: int) -> None:
    """The search finds the first readable offset by halving, however far ahead a pull looks for a message."""
    first, end = smallest + gone, smallest + gone + held
    search, rounds, answer = search_first_readable(smallest, end), 0, None
    with pytest.raises(StopIteration) as found:
        while True:
            probe = search.send(answer)
            rounds += 1
            answer = max(probe, first) if max(probe, first) < min(end, probe + reach + 1) else None
    assert found.value.value == first
    assert rounds <= 2 + (end - smallest).bit_length()


@pytest.mark.parametrize("gone", [0, 1, 17, COUNT - 1])
def test_a_pull_decides_what_the_minimum_does_not(gone: int) -> None:
    """If messages are deleted but the minimum is still 0, the search finds the first message that is left."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        lose_log(stub, gone)
        pulls = stub.faults.delay(0, on=RequestCode.PULL_MESSAGE, times=None)
        found = admin_of(stub).offsets.fetch_first_readable("readers", dict.fromkeys(QUEUES, (0, COUNT)))
        assert (found[QUEUES[0]], pulls.fired) == (gone, 2)


def test_a_queue_whose_messages_are_all_gone_is_read_from_its_end() -> None:
    """If a queue has no readable message, reading starts at its end."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        stub.run(lambda: setattr(stub.state.brokers[0].store.log, "min_offset", 10**9))
        found = admin_of(stub).offsets.fetch_first_readable("readers", dict.fromkeys(QUEUES, (0, COUNT)))
        assert found == dict.fromkeys(QUEUES, COUNT)


def answer_first_pull_with(stub: StubBroker, offset: int, stated: int, *, cut: int = 0, topic: str = TOPIC) -> None:
    """Have pulls at offset 0 of queue 0 return the record of another offset, which states the offset `stated`.

    Brokers return such a record, the head of a file of the commit log, in place of a deleted message. `cut` shortens
    it.
    """
    place = struct.Struct(">qq")

    def replace_head() -> None:
        store = stub.state.brokers[0].store
        honest = store.get_message

        def get_message(asked_topic: str, queue_id: int, asked: int, *rest: Any) -> Any:
            got = honest(asked_topic, queue_id, asked, *rest)
            if (asked_topic, queue_id) != (TOPIC, 0) or asked not in (0, offset):
                return got
            [head] = honest(topic, 0, offset, 1).records
            data = bytearray(head)
            place.pack_into(data, 20, stated, 2**20)
            return got._replace(records=(memoryview(data)[: len(data) - cut],), next_begin_offset=asked + 1)

        store.get_message = get_message  # type: ignore[assignment, method-assign]

    stub.run(replace_head)


@pytest.mark.parametrize("cut", [0, 5], ids=["same size", "another size"])
def test_the_head_of_a_file_that_stands_for_a_deleted_message_is_passed_over(cut: int) -> None:
    """If a pull returns a later message in place of a deleted one, the search ends at the later offset."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        lose_log(stub, 17)
        answer_first_pull_with(stub, 17, 17, cut=cut)
        found = admin_of(stub).offsets.fetch_first_readable("readers", dict.fromkeys(QUEUES, (0, COUNT)))
        assert found == {QUEUES[0]: 17, QUEUES[1]: 0}


def test_a_head_whose_own_place_is_gone_by_now_is_passed_over() -> None:
    """If the message at the offset that a head states is gone by now, the head is passed over, too."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        lose_log(stub, 17)
        answer_first_pull_with(stub, 20, 10)
        found = admin_of(stub).offsets.fetch_first_readable("readers", {QUEUES[0]: (0, COUNT)})
        assert found == {QUEUES[0]: 17}


def test_an_offset_beyond_the_queue_proves_no_head() -> None:
    """If a first message states an offset that the queue has not reached, it still counts as there."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        answer_first_pull_with(stub, 0, COUNT)
        pulls = stub.faults.delay(0, on=RequestCode.PULL_MESSAGE, times=None)
        found = admin_of(stub).offsets.fetch_first_readable("readers", {QUEUES[0]: (0, COUNT)})
        assert (found, pulls.fired) == ({QUEUES[0]: 0}, 1)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION])
def test_an_error_in_place_of_a_second_pull_proves_no_head(code: ResponseCode) -> None:
    """If the pull at the offset that a first message states fails, the message counts as there."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        answer_first_pull_with(stub, 0, 3)
        stub.faults.delay(0, on=RequestCode.PULL_MESSAGE)
        stub.faults.answer(code, on=RequestCode.PULL_MESSAGE)
        further = stub.faults.delay(0, on=RequestCode.PULL_MESSAGE, times=None)
        found = admin_of(stub).offsets.fetch_first_readable("readers", {QUEUES[0]: (0, COUNT)})
        assert (found, further.fired) == ({QUEUES[0]: 0}, 0)


def test_the_head_of_a_file_may_belong_to_another_topic() -> None:
    """If a pull returns a record of another topic in place of a deleted message, the search passes over it."""
    with StubBroker({TOPIC: 2, "others": 1}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        stub.fill("others", COUNT, 100)
        lose_log(stub, 17)
        answer_first_pull_with(stub, 0, 0, topic="others")
        found = admin_of(stub).offsets.fetch_first_readable("readers", {QUEUES[0]: (0, COUNT)})
        assert found == {QUEUES[0]: 17}


def test_a_message_that_is_stored_with_a_larger_offset_is_not_passed_over() -> None:
    """If a producer made the broker store a larger offset in the first message, the message still counts as there."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        answer_first_pull_with(stub, 0, 3)
        found = admin_of(stub).offsets.fetch_first_readable("readers", dict.fromkeys(QUEUES, (0, COUNT)))
        assert found == dict.fromkeys(QUEUES, 0)


@pytest.mark.parametrize(
    "code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED, ResponseCode.SYSTEM_ERROR]
)
def test_only_what_a_master_calls_gone_is_passed_over(code: ResponseCode) -> None:
    """If a master answers with errors, its messages count as readable, so that reading never starts too late."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        stub.faults.answer(code, on=RequestCode.PULL_MESSAGE, times=None)
        found = admin_of(stub).offsets.fetch_first_readable("readers", dict.fromkeys(QUEUES, (0, COUNT)))
        assert found == dict.fromkeys(QUEUES, 0)


def test_what_was_gone_for_a_moment_only_is_not_passed_over() -> None:
    """If messages cannot be pulled for a moment only, a second pull at the minimum finds them, and none is skipped."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.fill(TOPIC, 2 * COUNT, 100)
        stub.faults.answer(ResponseCode.PULL_RETRY_IMMEDIATELY, on=RequestCode.PULL_MESSAGE, times=6)
        found = admin_of(stub).offsets.fetch_first_readable("readers", dict.fromkeys(QUEUES, (0, COUNT)))
        assert found == dict.fromkeys(QUEUES, 0)
