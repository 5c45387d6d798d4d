"""Test that names, properties and inner batches of any size from the network stay within limits of memory."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pyspark_rocketmq.decode.bulk import MOST_NAME_CHARACTERS
from pyspark_rocketmq.decode.columns import Content, Mode
from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder
from pyspark_rocketmq.decode.spans import cut_pairs, cut_windows, pack_rows, repeat_texts
from pyspark_rocketmq.errors import DecodeError, LimitExceeded
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.compression import Compression
from pyspark_rocketmq.wire.record import MOST_INNER_MESSAGES, Record
from tests.peak import MOST_MIB, run_apart

from .samples import PLAIN, block, inner_batch, packed, property_text, whole

BEYOND = 2**31 + 8
"""A number of bytes that does not fit into an array of Arrow."""


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], [MessageQueue("orders", "broker-b", 0)]], ids=["one", "several"])
@pytest.mark.parametrize("column", ["brokerName", "topic"])
def test_a_name_that_is_too_long_is_refused(column: str, others: list[MessageQueue]) -> None:
    """A topic or broker name of 270 KB, which would be repeated in each row, is an error with the start of the name."""
    names = {"brokerName": ("lamps", "b" * 270_000), "topic": ("t" * 270_000, "broker-a")}
    long = block([PLAIN] * 4)._replace(wanted=QueueRange(MessageQueue(*names[column], 3), 0, 9))
    blocks = [*(block([PLAIN], queue=each) for each in others), long]
    decoder = ColumnDecoder([column], Content(naming=_AnyTopic()))
    with pytest.raises(
        LimitExceeded, match=r"a name of 270000 characters, '[bt]{40}'\.\.\., the limit is 1024"
    ) as caught:
        whole(decoder, blocks)
    assert len(str(caught.value)) < 300


class _AnyTopic:
    """A translation of names by which every queue holds the messages of topic `orders`."""

    def wrap(self, name: str) -> str:
        return "orders"

    def unwrap(self, name: str) -> str:
        return name


def test_the_longest_names_are_shown() -> None:
    """A broker name of the largest length is in every row."""
    queue = MessageQueue("orders", "ü" * MOST_NAME_CHARACTERS, 3)
    batch = whole(ColumnDecoder(["brokerName"]), [block([PLAIN] * 3, queue=queue)]).batch
    assert batch.column(0).to_pylist() == [queue.broker_name] * 3


# --- 32-bit offsets --------------------------------------------------------------------------------------------------


def test_no_offset_of_a_column_wraps() -> None:
    """A column of more than 2 GiB is an error. Offsets that wrap would point to other memory."""
    few = np.zeros(3, np.int64)
    with pytest.raises(LimitExceeded, match="a column of 4347000000 bytes in one record batch"):
        pack_rows(b"", [270_000], 16_100)
    with pytest.raises(LimitExceeded, match="a column of 4347000000 bytes"):
        repeat_texts([b"x" * 270_000], 16_100)
    with pytest.raises(LimitExceeded, match=f"a column of {BEYOND} bytes"):
        cut_pairs(np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (BEYOND,), (0,)), few[:2], pa.binary())
    with pytest.raises(LimitExceeded, match=f"a column of {3 * 2**30} bytes"):
        cut_windows(np.zeros(9, np.uint8), few, 2**30, pa.binary())


def test_long_texts_that_repeat_are_not_kept() -> None:
    """Repeating texts of many megabytes, again and again, keeps none of them."""
    said, peak = run_apart(
        """
from pyspark_rocketmq.decode.spans import repeat_texts
for number in range(40):
    assert len(repeat_texts([b"%1000d" % number], 16_384)) == 16_384
"""
    )
    assert said == "" and peak < MOST_MIB


# --- inner batches ---------------------------------------------------------------------------------------------------


def batch_of(count: int, properties_text: bytes = b"", body: bytes = b"") -> Record:
    """Return an inner batch of equal messages."""
    return replace(inner_batch(PLAIN, [b""]), body=encode_batch([BatchEntry(body, properties_text)] * count))


@pytest.mark.parametrize("record", [batch_of(MOST_INNER_MESSAGES + 1), batch_of(2)], ids=["entries", "stated"])
def test_more_messages_than_brokers_number_are_refused(record: Record) -> None:
    """An inner batch of more messages than a broker can number is an error, or follows the mode."""
    if len(record.body) < 1000:
        record = replace(record, properties_text=property_text([("INNER_NUM", str(MOST_INNER_MESSAGES + 1))]))
    with pytest.raises(DecodeError, match=r"more than 32767 messages.*queue 3, offset 0.*mode"):
        whole(ColumnDecoder(["queueOffset"]), [block([record])])
    kept = whole(ColumnDecoder(["queueOffset", "body"], Content(mode=Mode.PERMISSIVE)), [block([record])]).batch
    assert kept.to_pydict() == {"queueOffset": [0], "body": [None]}


def test_the_largest_inner_batch_is_read_in_portions() -> None:
    """An inner batch of 32,767 messages gives that many rows, in record batches of the requested size."""
    record = packed(batch_of(MOST_INNER_MESSAGES, b"k\x01v\x02", b"hello"), Compression.ZLIB)
    record = replace(record, properties_text=property_text([("INNER_NUM", str(MOST_INNER_MESSAGES))]))
    found = list(ColumnDecoder(["queueOffset", "body"]).decode_all([block([record])], BatchSize(messages=5000)))
    assert max(each.batch.num_rows for each in found) <= 5000
    offsets = [offset for each in found for offset in each.batch.column(0).to_pylist()]
    assert offsets == list(range(MOST_INNER_MESSAGES))
    assert sum(each.irregular_count for each in found) == 1


def test_millions_of_messages_in_one_record_are_refused_soon() -> None:
    """A compressed inner batch of 3 million messages is refused within seconds, and without much memory."""
    began = time.perf_counter()
    said, peak = run_apart(
        """
from tests.decode.test_large import *
body = encode_batch([BatchEntry(b"")]) * 3_000_000
record = packed(replace(batch_of(1), body=body), Compression.ZLIB)
del body
whole(ColumnDecoder(["queueOffset", "body"]), [block([record])])
"""
    )
    assert "an inner batch of more than 32767 messages" in said
    assert peak < MOST_MIB
    assert time.perf_counter() - began < 20


def test_properties_of_inner_batches_count_as_bytes() -> None:
    """Messages of an inner batch with long properties come in several record batches, as long bodies do."""
    record = batch_of(6, property_text([("k", "v" * 4000)]))
    found = list(ColumnDecoder(["properties"]).decode_all([block([record])], BatchSize(byte_count=10_000)))
    assert [each.batch.num_rows for each in found] == [3, 3, 0]


def test_messages_of_an_inner_batch_are_decoded_together() -> None:
    """20,000 messages of an inner batch are decoded within a second; one by one, they take longer."""
    blocks = [block([batch_of(20_000, b"k\x01v\x02", b"hello")])]
    decoder = ColumnDecoder(["topic", "queueOffset", "body", "tags", "properties"])
    began = time.thread_time()
    assert sum(each.batch.num_rows for each in decoder.decode_all(blocks)) == 20_000
    assert time.thread_time() - began < 1
