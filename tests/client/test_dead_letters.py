"""The dead letters of a group are listed, read and sent again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker_stub.queue_scan import GetResult
from pyspark_rocketmq.client.dead_letters import DeadLetters
from pyspark_rocketmq.client.results import DEAD_LETTER, later
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from tests.client.fixtures import GROUP, TOPIC, Group, Log, queue, until


@pytest.fixture
def letters(make_group: Callable[..., Group]) -> tuple[Group, DeadLetters]:
    """Return a group that has five dead letters, and their reader."""
    group = make_group(queues=1)
    group.put(*"abcde", colour="red", tags="t")
    consumer = group.concurrent(Log(lambda _: later(DEAD_LETTER)))
    found = DeadLetters(group.cluster_settings, GROUP)
    until(lambda: sum(bounds.max_offset for bounds in found.bounds().values()) == 5)
    consumer.close()
    return group, found


def test_a_group_without_dead_letters_has_none(group: Group) -> None:
    """If a group has no dead letters, `bounds` is empty and `resend` sends nothing."""
    letters = DeadLetters(group.cluster_settings, GROUP)

    assert letters.bounds() == {}
    assert str(letters.resend(group.producer())) == "0 sent again, 0 failed, 0 not wanted"


def test_dead_letters_are_read_with_their_origin(letters: tuple[Group, DeadLetters]) -> None:
    """A dead letter's `topic` is the one it was first sent to; reading may start at any offset."""
    _, found = letters

    assert {message.topic for message in found.read()} == {TOPIC}
    assert sorted(message.body for message in found.read()) == [b"a", b"b", b"c", b"d", b"e"]
    assert [message.offset for message in found.read({queue(0, found.topic): 3})] == [3, 4]


def change(group: Group, changed: Callable[[list[Record]], Sequence[Record]], times: int = 100) -> None:
    """Change the records in the broker's next `times` responses; the responses cover the same offsets as before."""
    store, left = group.stub.state.brokers[0].store, [times]
    honest = store.get_message

    def get_message(*asked: Any) -> GetResult:
        got = honest(*asked)
        left[0] -= 1
        if left[0] < 0:
            return got
        records = changed(list(decode_records(b"".join(got.records))))
        return got._replace(records=tuple(memoryview(encode_record(record)) for record in records))

    group.stub.run(lambda: setattr(store, "get_message", get_message))


@pytest.mark.parametrize(("times", "found"), [(1, [0, 1, 2, 3, 4]), (100, [0, 2, 3, 4])])
def test_a_short_answer_is_read_again_and_what_is_missing_is_told(
    letters: tuple[Group, DeadLetters], times: int, found: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """If a response lacks a dead letter, it is read again; if every response lacks it, it is logged as gone."""
    group, all_letters = letters
    change(group, lambda records: [each for each in records if each.queue_offset != 1], times)

    assert [message.offset for message in all_letters.read()] == found
    assert ("within [1, 2) are gone" in caplog.text) == (1 not in found)


def test_a_dead_letter_tells_its_position(letters: tuple[Group, DeadLetters]) -> None:
    """If the broker writes a wrong offset into a record, the dead letter still has the offset it was pulled from."""
    group, found = letters
    [topic] = {each.topic for each in found.bounds()}
    change(group, lambda records: [replace(each, queue_offset=each.queue_offset + 2) for each in records])

    assert [message.offset for message in found.read({queue(0, topic): 1})] == [1, 2, 3, 4]


def test_dead_letters_are_sent_to_where_they_came_from(letters: tuple[Group, DeadLetters]) -> None:
    """`resend` keeps body, tag, unique id and the user's properties, and resets the count of retries."""
    group, found = letters
    ids = {record.properties["UNIQ_KEY"] for record in group.stub.messages(TOPIC)}
    report = found.resend(group.producer())

    revived = group.stub.messages(TOPIC)[5:]
    assert len(report.resent) == len(revived) == 5
    assert {record.properties["UNIQ_KEY"] for record in revived} == ids
    assert all(record.properties["colour"] == "red" and record.properties["TAGS"] == "t" for record in revived)
    assert all(record.reconsume_times == 0 and "RETRY_TOPIC" not in record.properties for record in revived)


def test_only_wanted_dead_letters_are_sent_and_not_too_fast(letters: tuple[Group, DeadLetters]) -> None:
    """`resend` sends only dead letters that `wanted` accepts, counts the others, and keeps to the rate."""
    group, found = letters
    pauses: list[float] = []
    report = found.resend(
        group.producer(), wanted=lambda message: message.body in (b"a", b"c"), most_per_second=4, sleep=pauses.append
    )

    assert str(report) == "2 sent again, 0 failed, 3 not wanted"
    assert pauses == [0.25, 0.25]


def test_the_report_says_where_to_go_on(letters: tuple[Group, DeadLetters]) -> None:
    """If `resend` starts from the offsets of an earlier report, it sends nothing twice."""
    group, found = letters
    report = found.resend(group.producer())
    again = found.resend(group.producer(), starts=report.next_offsets)

    assert again.resent == []
    assert report.next_offsets == {queue(0, found.topic): 5}


def test_what_is_not_taken_is_reported(letters: tuple[Group, DeadLetters]) -> None:
    """If a broker refuses one dead letter, the report says so, and the others are sent."""
    group, found = letters
    group.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=RequestCode.SEND_MESSAGE_V2)
    report = found.resend(group.producer())

    assert (len(report.resent), len(report.failed)) == (4, 1)
    assert report.failed[0].offset == 0


def test_the_report_does_not_pass_what_failed(letters: tuple[Group, DeadLetters]) -> None:
    """If two dead letters fail, the next call begins at the first of them and may leave out those that were sent."""
    group, found = letters
    group.stub.faults.answer(ResponseCode.MESSAGE_ILLEGAL, on=RequestCode.SEND_MESSAGE_V2, times=2)
    report = found.resend(group.producer(), starts={queue(0, found.topic): 1})
    assert [failed.offset for failed in report.failed] == [1, 2]
    assert report.next_offsets == {queue(0, found.topic): 1}

    sent = {resent.offset for resent in report.resent}
    again = found.resend(group.producer(), starts=report.next_offsets, wanted=lambda letter: letter.offset not in sent)
    assert [resent.offset for resent in again.resent] == [1, 2]
    assert again.next_offsets == {queue(0, found.topic): 5}
