"""Generate stored messages, with plain and irregular records, for tests that compare two decoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder, Decoded
from pyspark_rocketmq.model import Address, Block, MessageQueue, QueueRange
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.compression import Compression, compress
from pyspark_rocketmq.wire.record import Record, encode_record

QUEUE = MessageQueue("orders", "broker-a", 3)
V4, V6 = Address("10.0.0.9", 50000), Address("2001:db8::1", 10911)

property_names = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "__SHARDINGKEY", "colour", "größe", "a b"]
)
property_values = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12
)
_entries = st.lists(st.tuples(property_names, property_values), max_size=6)
_times = st.one_of(st.integers(0, 2**41), st.integers(-(2**63), 2**63 - 1))


def property_text(entries: Sequence[tuple[str, str]], terminated: bool = True) -> bytes:
    """Return the text that stores these properties, in order and with repeated names.

    `terminated` adds a last separator.
    """
    text = "\x02".join(f"{name}\x01{value}" for name, value in entries)
    return (text + ("\x02" if terminated and entries else "")).encode()


PLAIN = Record(
    topic="orders",
    queue_id=3,
    queue_offset=0,
    physical_offset=1000,
    born_timestamp=1_700_000_000_000,
    born_host=V4,
    store_timestamp=1_700_000_000_123,
    store_host=V4,
    body=b"hello",
    properties_text=property_text([("TAGS", "a"), ("colour", "red")]),
)
"""A record that both decoders read by array steps."""

property_texts = st.builds(property_text, _entries, st.booleans())
broken_texts = st.sampled_from(
    [b"no separator", b"\x01", b"a\x01\x02", b"a\x01x\x01y\x02", b"\x02\x02", b"k\x01v\x02lost\x02"]
)

plain_records = st.builds(
    Record,
    topic=st.just("orders"),
    queue_id=st.just(3),
    queue_offset=st.just(0),
    physical_offset=st.integers(0, 2**60),
    born_timestamp=_times,
    born_host=st.just(V4),
    store_timestamp=_times,
    store_host=st.just(V4),
    body=st.binary(max_size=40),
    properties_text=property_texts,
    flag=st.integers(-(2**31), 2**31 - 1),
    reconsume_times=st.integers(0, 20),
    sys_flag=st.sampled_from([0, 8]),
)


def packed(record: Record, how: Compression) -> Record:
    """Return a copy of the record with its body compressed in the format `how`."""
    return replace(record, body=compress(record.body, how), sys_flag=record.sys_flag | how.sys_flag)


def inner_batch(record: Record, bodies: Sequence[bytes]) -> Record:
    """Return a copy of the record that is an inner batch: one record that holds a message for each body."""
    body = encode_batch(BatchEntry(body, record.properties_text) for body in bodies)
    return replace(record, body=body, sys_flag=record.sys_flag | SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


irregular_records = st.one_of(
    st.builds(packed, plain_records, st.sampled_from(Compression)),
    st.builds(inner_batch, plain_records, st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=3)),
    st.builds(
        lambda record: replace(record, born_host=V6, sys_flag=record.sys_flag | SysFlag.BORN_HOST_V6), plain_records
    ),
    st.builds(
        lambda record: replace(record, store_host=V6, sys_flag=record.sys_flag | SysFlag.STORE_HOST_V6), plain_records
    ),
    st.builds(lambda record, text: replace(record, properties_text=text), plain_records, broken_texts),
)


def block(records: Sequence[Record], wanted: QueueRange | None = None, queue: MessageQueue = QUEUE) -> Block:
    """Return a response that holds copies of these records, which get the topic and id of `queue`.

    Records with queue offset 0 get their index in the response as offset.
    """
    topic, _, queue_id = queue
    placed = [
        replace(r, queue_offset=r.queue_offset or at, topic=topic, queue_id=queue_id) for at, r in enumerate(records)
    ]
    data = b"".join(map(encode_record, placed))
    return Block(memoryview(data), wanted or QueueRange(queue, 0, 2**62), len(records))


def whole(decoder: ColumnDecoder, blocks: Sequence[Block]) -> Decoded:
    """Return the decoded record batch of all blocks; fail if they make several batches."""
    (decoded,) = decoder.decode_all(blocks, BatchSize(10**6, 2**40))
    return decoded
