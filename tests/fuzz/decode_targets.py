"""Fuzz the bulk decoder: it must give the columns that the readable decoder gives, or the same kind of error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from pyspark_rocketmq.decode.columns import COLUMNS, Content, Mode, Part
from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder
from pyspark_rocketmq.decode.rows import Row, read_rows
from pyspark_rocketmq.errors import AnswerMismatch, DecodeError, RocketMQError
from pyspark_rocketmq.model import Block, QueueRange
from pyspark_rocketmq.wire.codes import SysFlag
from pyspark_rocketmq.wire.compression import Compression
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from pyspark_rocketmq.wire.scan import record_starts
from tests.decode.samples import PLAIN, QUEUE, V6, inner_batch, packed, property_text

from .mutations import Mutator
from .runner import Target

RANGE = QueueRange(QUEUE, 0, 2**62)
ONE_BATCH = BatchSize(10**6, 2**40)
NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "__SHARDINGKEY", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "colour", "größe")
VALUES = ("", "a", "a", "b", "x y", "größe", "\x00", "10", "x" * 200)
_HOST_BITS = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6


class Pulled(NamedTuple):
    """Responses to pulls, and what is read from them."""

    responses: tuple[bytes, ...]
    columns: tuple[str, ...]
    content: Content


# --- inputs ----------------------------------------------------------------------------------------------------------


@cache
def _records() -> tuple[Record, ...]:
    """Return records of every kind: plain, compressed, inner batches, IPv6 hosts, many or few properties."""
    return (
        PLAIN,
        PLAIN,
        replace(PLAIN, properties_text=property_text([(name, name) for name in NAMES])),
        replace(PLAIN, properties_text=property_text([("TAGS", "b"), ("TAGS", "a")], terminated=False), body=b""),
        replace(PLAIN, properties_text=b""),
        *(packed(PLAIN, compression) for compression in Compression),
        inner_batch(PLAIN, [b"x", b"y"]),
        packed(inner_batch(PLAIN, [b"x"] * 3), Compression.ZLIB),
        replace(PLAIN, born_host=V6, sys_flag=SysFlag.BORN_HOST_V6),
        replace(PLAIN, store_host=V6, sys_flag=SysFlag.STORE_HOST_V6),
    )


def make_pulled(mutator: Mutator) -> Pulled:
    """Return one or two responses with damaged records, any columns and any content."""
    offset, responses = 0, []
    for _ in range(1 + mutator.upto(1)):
        records = _make_records(mutator)
        responses.append(_place(records, offset, mutator))
        offset += 10 * len(records)
    content = Content(
        mode=mutator.pick(list(Mode)),
        max_body_bytes=mutator.pick((10, 1_000_000)),
        properties_as_json=mutator.chance(0.5),
        system_properties=mutator.chance(0.5),
        tags=mutator.pick((frozenset(), frozenset(), frozenset(["a"]), frozenset(["b", "x"]))),
    )
    columns = (
        tuple(COLUMNS) if mutator.chance(0.5) else tuple(mutator.random.sample(list(COLUMNS), 1 + mutator.upto(4)))
    )
    return Pulled(tuple(responses), columns, content)


def _make_records(mutator: Mutator) -> list[Record]:
    """Return records, many of one kind or each of any kind, some of them with damaged fields."""
    count = 1 + mutator.upto(mutator.pick((2, 8, 40)))
    same = mutator.pick(_records()) if mutator.chance(0.3) else None
    damaged = mutator.pick((0.0, 0.1, 0.5))
    records = [same or mutator.pick(_records()) for _ in range(count)]
    if mutator.chance(0.4):
        names = mutator.random.sample(NAMES, 1 + mutator.upto(3))
        records = [replace(record, properties_text=_make_properties(mutator, names)) for record in records]
    return [_damage_record(mutator, record) if mutator.chance(damaged) else record for record in records]


def _make_properties(mutator: Mutator, names: Sequence[str]) -> bytes:
    return property_text([(name, mutator.pick(VALUES)) for name in names], terminated=mutator.chance(0.9))


def _damage_record(mutator: Mutator, record: Record) -> Record:
    """Return a record with some changed fields; it can still be encoded."""
    changes: dict[str, Any] = {
        "body": mutator.damage(record.body),
        "properties_text": mutator.damage(record.properties_text)[: 2**15 - 1],
        "sys_flag": record.sys_flag ^ (1 << mutator.upto(30) & ~_HOST_BITS),
        "flag": mutator.number(32),
        "reconsume_times": mutator.number(32),
        "born_timestamp": mutator.number(),
        "store_timestamp": mutator.number(),
        "physical_offset": mutator.number(),
        "queue_id": mutator.number(32),
    }
    names = mutator.random.sample(["body", "properties_text", "properties_text", *changes], 1 + mutator.upto(1))
    return replace(record, **{name: changes[name] for name in names})


def _place(records: Sequence[Record], first: int, mutator: Mutator) -> bytes:
    """Return the response that holds these records at rising offsets, sometimes with damaged bytes."""
    step, damaged_offset = mutator.pick((1, 1, 3)), mutator.chance(0.05)
    placed = [replace(record, queue_offset=first + step * index) for index, record in enumerate(records)]
    if damaged_offset:
        placed[-1] = replace(placed[-1], queue_offset=mutator.number())
    stored = list(map(encode_record, placed))
    if mutator.chance(0.1):
        at = mutator.upto(len(stored) - 1)
        stored[at] = _with_wrong_size(mutator, stored[at], placed[at])
    data = b"".join(stored)
    return mutator.damage(data) if mutator.chance(0.3) else data


def _with_wrong_size(mutator: Mutator, data: bytes, record: Record) -> bytes:
    """Return a stored record whose size of body, topic or properties is a little wrong, or quite another number."""
    properties_at = len(data) - len(record.properties_text) - 2
    topic_at = properties_at - len(record.topic.encode()) - 1
    at, width = mutator.pick(((properties_at, 2), (topic_at, 1), (topic_at - len(record.body) - 4, 4)))
    size = int.from_bytes(data[at : at + width], "big")
    wrong = mutator.pick((size - 1, size + 1, size + 256, mutator.number())) & (1 << 8 * width) - 1
    return data[:at] + wrong.to_bytes(width, "big") + data[at + width :]


# --- the two decoders ------------------------------------------------------------------------------------------------


def check_pulled(pulled: Pulled) -> None:
    """Compare the results of both decoders.

    The readable one does not judge queues and offsets, so `AnswerMismatch` of the bulk one has no counterpart.
    """
    try:
        columns = _decode_in_bulk(pulled)
    except AnswerMismatch:
        return
    except DecodeError as error:
        kind = _kind_of_readable(pulled)
        assert kind is DecodeError, f"only the bulk decoder refuses it: {error}"
        return
    assert columns == _decode_readably(pulled), "the decoders give different columns"


def _decode_in_bulk(pulled: Pulled) -> list[list[Any]]:
    decoder = ColumnDecoder(pulled.columns, pulled.content)
    blocks = [Block(memoryview(data), RANGE, _count_records(data)) for data in pulled.responses]
    batches = [decoded.batch for decoded in decoder.decode_all(blocks, ONE_BATCH)]
    for batch in batches:
        batch.validate(full=True)
    return [[value for batch in batches for value in batch.column(name).to_pylist()] for name in pulled.columns]


def _count_records(data: bytes) -> int:
    try:
        return len(record_starts(data))
    except RocketMQError:
        return 1


def _kind_of_readable(pulled: Pulled) -> type[BaseException] | None:
    try:
        _decode_readably(pulled)
    except RocketMQError as error:
        return type(error)
    return None


def _decode_readably(pulled: Pulled) -> list[list[Any]]:
    rows = [row for data in pulled.responses for row in _rows(data, pulled)]
    schema = ColumnDecoder(pulled.columns, pulled.content).schema
    values = {name: [COLUMNS[name].read(row) for row in rows] for name in pulled.columns}
    return [pa.array(values[name], schema.field(name).type).to_pylist() for name in pulled.columns]


def _rows(data: bytes, pulled: Pulled) -> list[Row]:
    return [
        row
        for record in decode_records(data)
        for row in read_rows(record, QUEUE, pulled.content)
        if RANGE.start <= row.position < RANGE.end and row.passes_tags() and _is_kept(row, pulled)
    ]


def _is_kept(row: Row, pulled: Pulled) -> bool:
    """Return False for a message that mode DROPMALFORMED leaves out."""
    if pulled.content.mode is not Mode.DROPMALFORMED:
        return True
    parts = {COLUMNS[name].part for name in pulled.columns}
    reads_properties = bool(pulled.content.tags) or Part.PROPERTIES in parts
    return not ((reads_properties and row.all_properties is None) or (Part.BODY in parts and row.body is None))


TARGETS = (Target("bulk-against-readable", make_pulled, check_pulled, share=4),)
