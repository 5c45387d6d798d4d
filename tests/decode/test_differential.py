"""Test that the bulk decoder and the readable one agree about damaged responses, too: both refuse one, or neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.decode.columns import Content, Mode
from pyspark_rocketmq.decode.decoder import ColumnDecoder
from pyspark_rocketmq.errors import AnswerMismatch, DecodeError
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.wire.compression import Compression

from .differential import CONTENTS, damaged_responses, disagreement
from .samples import PLAIN, block, packed, whole

PERMISSIVE = Content(mode=Mode.PERMISSIVE)
TWO = bytes(block([PLAIN, packed(PLAIN, Compression.ZLIB)]).data)
SIX = bytes(block([PLAIN] * 6).data)
SIZE = len(SIX) // 6
OTHER = MessageQueue("others", "broker-a", 7)


@given(damaged_responses, st.sampled_from(CONTENTS))
def test_both_decoders_agree_about_damage(data: bytes, content: Content) -> None:
    """If a few bytes of a response are changed, dropped or repeated, both decoders refuse it, or give equal columns."""
    assert disagreement(data, content) is None


@pytest.mark.parametrize("response", [TWO, SIX[: 2 * SIZE]], ids=["compressed", "plain"])
@pytest.mark.parametrize("change", [0x01, 0x80])
def test_any_bit_may_flip(response: bytes, change: int) -> None:
    """If any byte of a response is another one, both decoders refuse the response, or give equal columns."""
    for at, byte in enumerate(response):
        assert disagreement(response[:at] + bytes([byte ^ change]) + response[at + 1 :], PERMISSIVE) is None


@pytest.mark.parametrize("row", range(6))
def test_a_topic_that_is_no_text_is_refused(row: int) -> None:
    """A topic field that is not UTF-8 is an error in whichever record it is; the error names the queue and offset."""
    at = SIX.index(b"orders", row * SIZE)
    broken = block([PLAIN])._replace(data=memoryview(SIX[:at] + b"\xff" + SIX[at + 1 :]))
    with pytest.raises(DecodeError, match=rf"0xff.*topic orders, broker broker-a, queue 3, offset {row}"):
        whole(ColumnDecoder(["queueOffset"]), [broken])


@pytest.mark.parametrize("row", range(6))
def test_another_topic_of_the_same_length_is_refused(row: int) -> None:
    """A record of another topic is an error in whichever record it is, also if the names have the same length."""
    other = SIX[: row * SIZE] + SIX[row * SIZE :].replace(b"orders", b"others", 1)
    with pytest.raises(AnswerMismatch, match="holds a message of others, queue 3"):
        whole(ColumnDecoder(["queueOffset"]), [block([PLAIN])._replace(data=memoryview(other))])


def test_the_topic_of_each_queue_is_compared() -> None:
    """In a batch of several topics, each record is compared with the topic that its response was pulled from."""
    lines = MessageQueue("lines.", "broker-a", 3)
    blocks = [block([PLAIN] * 2), block([PLAIN] * 2, queue=lines)]
    assert whole(ColumnDecoder(["topic"]), blocks).batch.column(0).to_pylist() == ["orders"] * 2 + ["lines."] * 2
    swapped = bytes(blocks[1].data)[:SIZE] + SIX[:SIZE]
    with pytest.raises(AnswerMismatch, match="holds a message of orders, queue 3"):
        whole(ColumnDecoder(["topic"]), [blocks[0], blocks[1]._replace(data=memoryview(swapped))])


def test_records_of_a_light_topic_name_any_topic_that_is_text() -> None:
    """Records of a light topic may name any topic and queue; a name that is not UTF-8 is an error there, too."""
    light = QueueRange(MessageQueue("%LMQ%lamp", "broker-a", 0), 0, 2**62)
    several = block([PLAIN])._replace(
        data=memoryview(SIX[:SIZE] + bytes(block([PLAIN], queue=OTHER).data)), wanted=light
    )
    assert whole(ColumnDecoder(["topic"]), [several]).batch.num_rows == 2
    broken = several._replace(data=memoryview(bytes(several.data).replace(b"orders", b"or\xffers")))
    with pytest.raises(DecodeError, match="0xff"):
        whole(ColumnDecoder(["topic"]), [broken])
