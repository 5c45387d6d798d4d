"""Encode rows one by one, in plain Python: the slow reference for `Encoder`."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pyspark_rocketmq.encode.columns import check_schema
from pyspark_rocketmq.encode.faults import topic_fault
from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.placing import ListQueues
from pyspark_rocketmq.encode.requests import EncodeSettings
from pyspark_rocketmq.errors import LocalProtocolError
from pyspark_rocketmq.model import MessageQueue, SendRequest
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.compression import compress
from pyspark_rocketmq.wire.properties import encode_properties, is_reserved, java_hash, join_properties

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FLAG, _QUEUE = 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Row(NamedTuple):
    """One row that can be sent."""

    number: int
    topic: str
    queue: MessageQueue | None
    body: bytes
    properties: dict[str, str]
    flag: int
    parts: list[bytes | int]
    """The parts of the content, of which an id is made: texts, and numbers combined with a constant of their column."""
    row_id: str | None

    @property
    def is_delayed(self) -> bool:
        """Whether the message has a delay, which batch messages cannot have."""
        return "DELAY" in self.properties or "TIMER_DELIVER_MS" in self.properties


class BadRow(Exception):
    """Raised with the column at fault."""


def encode_readably(
    batch: pa.RecordBatch, settings: EncodeSettings, identity: BatchIdentity, partition: int, queues_of: ListQueues
) -> tuple[list[SendRequest], dict[int, str]]:
    """Return the requests for the first record batch of a partition, and {row: column at fault}."""
    names = {place: name for name, place in check_schema(batch.schema, settings.topic).items()}
    columns = {names[place]: batch.column(place).to_pylist() for place in names}
    rows, faults = list[Row](), dict[int, str]()
    for number in range(batch.num_rows):
        try:
            cells = {name: values[number] for name, values in columns.items()}
            rows.append(read_row(number, cells, settings, queues_of))
        except BadRow as bad:
            faults[number] = bad.args[0]
    maker = IdMaker(identity, partition)
    places = list(dict.fromkeys(row.topic for row in rows))
    order = {row.number: (places.index(row.topic), _place(row, queues_of)) for row in rows}
    rows.sort(key=lambda row: order[row.number])
    requests = []
    for _, group in groupby(rows, key=lambda row: order[row.number]):
        requests += list(group_requests(list(group), settings, maker))
    return requests, faults


def _place(row: Row, queues_of: ListQueues) -> int:
    return -1 if row.queue is None else list(queues_of(row.topic)).index(row.queue)


# --- rows ------------------------------------------------------------------------------------------------------------


def read_row(number: int, cells: dict[str, Any], settings: EncodeSettings, queues_of: ListQueues) -> Row:
    """Return the row of these cells; raise `BadRow` if it cannot be sent."""
    body = _octets(cells["body"])
    _check(0 < len(body) <= settings.max_body_bytes, "body")
    tags = cells.get("tags") or ""
    _check(not {"\x01", "\x02"} & set(tags), "tags")
    keys = _keys(cells.get("keys"))
    key = cells.get("shardingKey") or (keys if settings.key_is_sharding_key and "shardingKey" not in cells else "")
    for column, text in (("keys", keys), ("shardingKey", key)):
        _check(not {"\x01", "\x02"} & set(text), column)
    _check("|" not in tags, "tags")
    level, time_ms = cells.get("delayTimeLevel") or 0, _ms(cells.get("deliverTimeMs"))
    user = _user_properties(cells.get("properties"))
    properties = {"WAIT": "true", **user}
    last = {"TAGS": tags, "KEYS": keys, "__SHARDINGKEY": key, "DELAY": level, "TIMER_DELIVER_MS": time_ms}
    properties |= {name: str(value) for name, value in last.items() if value}
    _check(len(join_properties({"UNIQ_KEY": "0" * 32, **properties}).encode()) <= 32767, "properties")
    _check(0 <= level <= 18, "delayTimeLevel")
    _check(time_ms >= 0 and not (level and time_ms), "deliverTimeMs")
    topic = settings.topic if settings.topic is not None else cells["topic"]
    queue_id = cells.get("queueId")
    _check(queue_id is None or queue_id >= -1, "queueId")
    _check(not cells.get("brokerName") or queue_id not in (None, -1), "brokerName")
    _check(topic is not None and topic_fault(topic) is None, "topic")
    queue = _queue(cells, key if settings.places_by_key else "", queues_of(topic))
    parts: list[bytes | int] = [topic.encode(), join_properties(properties).encode(), body]
    parts += [_FLAG ^ (cells[name] or 0) & _MASK for name in ("flag",) if name in cells]
    parts += [_QUEUE ^ (-1 if cells[name] is None else cells[name]) & _MASK for name in ("queueId",) if name in cells]
    parts += [(cells[name] or "").encode() for name in ("brokerName",) if name in cells]
    return Row(number, topic, queue, body, properties, cells.get("flag") or 0, parts, cells.get("rowId"))


def _check(is_good: object, column: str) -> None:
    if not is_good:
        raise BadRow(column)


def _octets(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _keys(value: str | bytes | list[str | None] | None) -> str:
    if isinstance(value, list):
        return " ".join(key for key in value if key is not None)
    try:
        return _octets(value).decode()
    except UnicodeDecodeError:
        raise BadRow("keys") from None


def _user_properties(value: Any) -> dict[str, str]:
    pairs = [(pair["key"], pair["value"]) if isinstance(pair, dict) else pair for pair in value or []]
    properties: dict[str, str] = {}
    for name, text in pairs:
        if text is None:
            continue
        try:
            _check(name is not None and not is_reserved(name), "properties")
            properties[name] = _octets(text).decode()
            encode_properties({name: properties[name]})
        except (LocalProtocolError, UnicodeDecodeError):
            raise BadRow("properties") from None
    return properties


def _ms(value: int | datetime.datetime | None) -> int:
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)
    return value or 0


def _queue(cells: dict[str, Any], key: str, queues: Any) -> MessageQueue | None:
    queue_id, broker = cells.get("queueId"), cells.get("brokerName")
    if queue_id is not None and queue_id >= 0:
        brokers = {queue.broker_name for queue in queues}
        broker = broker or (min(brokers) if len(brokers) == 1 else None)
        found = [queue for queue in queues if (queue.broker_name, queue.queue_id) == (broker, queue_id)]
        _check(found, "queueId")
        return MessageQueue(*found[0])
    return queues[abs(java_hash(key)) % len(queues)] if key else None


# --- requests --------------------------------------------------------------------------------------------------------


def group_requests(rows: list[Row], settings: EncodeSettings, maker: IdMaker) -> Iterator[SendRequest]:
    """Yield the requests of rows that all go to one place."""
    pending: list[tuple[Row, BatchEntry]] = []
    for row in rows:
        entry = BatchEntry(
            row.body, join_properties({"UNIQ_KEY": maker.make(row), **row.properties}).encode(), row.flag
        )
        size = len(encode_batch([entry]))
        is_large = size > settings.batch_bytes or len(entry.properties_text) > 32767 - 1024
        is_single = row.is_delayed or is_large or settings.batch_rows == 1
        held = len(encode_batch(each for _, each in pending))
        if pending and (is_single or len(pending) == settings.batch_rows or held + size > settings.batch_bytes):
            yield batch_request(pending)
            pending = []
        if is_single:
            yield single_request(row, entry, settings)
        else:
            pending.append((row, entry))
    if pending:
        yield batch_request(pending)


def batch_request(pending: list[tuple[Row, BatchEntry]]) -> SendRequest:
    """Return the batch message of these rows."""
    rows = [row for row, _ in pending]
    body = encode_batch(entry for _, entry in pending)
    numbers = np.array([row.number for row in rows])
    return SendRequest(rows[0].topic, rows[0].queue, body, "WAIT\x01true\x02", numbers, is_batch=True)


def single_request(row: Row, entry: BatchEntry, settings: EncodeSettings) -> SendRequest:
    """Return the message of one row."""
    body, sys_flag = row.body, 0
    if len(body) >= settings.compress_over_bytes:
        body, sys_flag = compress(body, settings.compression), settings.compression.sys_flag
    text = entry.properties_text.decode()
    return SendRequest(row.topic, row.queue, body, text, np.array([row.number]), flag=row.flag, sys_flag=sys_flag)


# --- ids -------------------------------------------------------------------------------------------------------------


class IdMaker:
    """Makes the message ids of a partition, with Python's integers."""

    def __init__(self, identity: BatchIdentity, partition: int) -> None:
        self._batch, self._partition = _seeds(identity), _seeds(identity, partition)

    def make(self, row: Row) -> str:
        """Return the message id of a row."""
        if row.row_id:
            seeds, text = self._batch, row.row_id.encode()
            high, low = mix(hash_text(text, 1) ^ seeds[0]), mix(hash_text(text, 2) ^ seeds[1])
        else:
            seeds, content = self._partition, hash_parts(row.parts)
            high = mix(mix(row.number * _GOLDEN + seeds[0]) ^ mix(content + seeds[1]))
            low = mix(mix(content * _GOLDEN + seeds[2]) ^ mix(row.number + seeds[3]))
        first, last = high.to_bytes(8), low.to_bytes(8)
        return (first + last[:2] + bytes(4) + last[2:4]).hex().upper()


def _seeds(identity: BatchIdentity, *more: int) -> list[int]:
    texts = [identity.query_id, identity.sink_name, *map(str, (identity.batch_id, *more))]
    data = b"".join(len(text.encode()).to_bytes(8) + text.encode() for text in texts)
    digest = hashlib.blake2b(data, digest_size=32).digest()
    return [int.from_bytes(digest[at : at + 8], "little") for at in range(0, 32, 8)]


def mix(value: int) -> int:
    """Return a 64-bit value scrambled by the finalizer of SplitMix64."""
    value &= _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def hash_parts(parts: list[bytes | int]) -> int:
    """Return the hash of a row's content."""
    topic, properties, body, *others = parts
    assert isinstance(topic, bytes) and isinstance(properties, bytes) and isinstance(body, bytes)
    content = mix(hash_text(topic, 3) ^ hash_text(properties, 4))
    content = mix(content ^ hash_text(body, 5))
    for other in others:
        content = mix(content ^ (hash_text(other, 6) if isinstance(other, bytes) else other))
    return content


def hash_text(text: bytes, stream: int) -> int:
    """Return a 64-bit hash of a text; `stream` numbers independent hashes.

    It is the scrambled sum of the text's scrambled words, each times an odd weight that its position determines.
    """
    padded = text + b"\0" * (-len(text) % 8) + len(text).to_bytes(8, "little")
    total = 0
    for position in range(len(padded) // 8):
        word = int.from_bytes(padded[8 * position : 8 * position + 8], "little")
        weight = mix(mix((position + 1) * _GOLDEN) ^ (stream + 1) * _GOLDEN & _MASK) | 1
        total += mix(word) * weight
    return mix(total)
