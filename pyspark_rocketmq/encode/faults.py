"""Find the rows that no broker would take, by tests on whole columns.

A row has at most one fault: the first that is found. Rows are looked at one by one only where a test on the whole
column fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model import DEAD_LETTER_PREFIX, MOST_TOPIC, RETRY_PREFIX, MessageQueue, is_topic_name
from ..wire.properties import MAX_PROPERTIES_BYTES, RESERVED_NAMES, TRANSIENT_PREFIX, is_utf8
from .arrays import Integers, Mask, buffer_of, offsets_of, sizes_of
from .columns import Columns, Entries

__all__ = ["Fault", "find_faults", "topic_fault"]

MAX_DELAY_LEVEL = 18
_ID_BYTES = len("UNIQ_KEY\x01\x02") + 32
_RESERVED = pa.array([name.encode() for name in sorted(RESERVED_NAMES)], pa.large_binary())


class Fault(NamedTuple):
    """The column because of which a row cannot be sent, and the reason in words."""

    column: str
    what: str
    absent_queue: MessageQueue | None = None
    """The queue that the row names, if its broker had no writable queue of the topic when these were listed."""


def topic_fault(topic: str) -> str | None:
    """Return why no message can be sent to a topic of this name, or None."""
    if not is_topic_name(topic):
        return f"{topic!r:.160} is no topic's name; a name has at most {MOST_TOPIC} of a-z A-Z 0-9 _ - % |"
    if topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return f"{topic} belongs to a consumer group; write to a topic of your own"
    return None


def find_faults(columns: Columns, properties: pa.Array, max_body_bytes: int) -> dict[int, Fault]:
    """Return {index of the row: its fault} for the rows that cannot be sent.

    `properties` holds the property text of each row, still without its message id.
    """
    faults: dict[int, Fault] = {}
    for mask, column, what in _tests(columns, properties, max_body_bytes):
        for row in np.flatnonzero(mask).tolist():
            faults.setdefault(row, Fault(column, what))
    for row, fault in _topic_faults(columns):
        faults.setdefault(row, fault)
    return faults


def _tests(columns: Columns, properties: pa.Array, max_body_bytes: int) -> Iterator[tuple[Mask, str, str]]:
    sizes = sizes_of(columns.body)
    yield sizes == 0, "body", "the body is null or empty, which brokers refuse"
    yield sizes > max_body_bytes, "body", f"the body is longer than maxMessageSize, {max_body_bytes} bytes"
    for name, texts in (("tags", columns.tags), ("keys", columns.keys), ("shardingKey", columns.sharding_key)):
        if texts is not None:
            yield _not_utf8(texts), name, "the text is no UTF-8"
            yield _has_separator(texts), name, "the text holds control character 1 or 2, which separate properties"
    if columns.tags is not None:
        yield (
            _matches(columns.tags, b"|"),
            "tags",
            "the text holds `|`, which proxies refuse and filters separate tags by",
        )
    if columns.properties is not None:
        yield from _entry_tests(columns.properties)
    too_long = sizes_of(properties) > MAX_PROPERTIES_BYTES - _ID_BYTES
    yield too_long, "properties", f"all properties together are longer than {MAX_PROPERTIES_BYTES} bytes"
    yield from _number_tests(columns)


def _number_tests(columns: Columns) -> Iterator[tuple[Mask, str, str]]:
    level, time_ms, queues = columns.delay_level, columns.deliver_ms, columns.queues
    if level is not None:
        yield (level < 0) | (level > MAX_DELAY_LEVEL), "delayTimeLevel", f"the level is not in 0..{MAX_DELAY_LEVEL}"
    if time_ms is not None:
        yield time_ms < 0, "deliverTimeMs", "the time is negative"
    if level is not None and time_ms is not None:
        yield (level != 0) & (time_ms != 0), "deliverTimeMs", "delayTimeLevel and deliverTimeMs are both given"
    if queues is not None:
        yield queues.numbers < -1, "queueId", "the number is negative"
        if queues.broker_names is not None:
            is_alone = (queues.numbers == -1) & (sizes_of(queues.broker_names) > 0)
            yield is_alone, "brokerName", "a broker is named without a queueId"


def _entry_tests(entries: Entries) -> Iterator[tuple[Mask, str, str]]:
    names, values = entries.names, entries.values
    reserved = pc.or_(pc.is_in(names, _RESERVED), pc.starts_with(names, TRANSIENT_PREFIX))
    for mask, what in (
        (_blank(names), "the name of a property is null or blank"),
        (_blank(values), "the value of a property is blank"),
        (_not_utf8(names) | _not_utf8(values), "a property is no UTF-8 text"),
        (_has_separator(names) | _has_separator(values), "a property holds control character 1 or 2"),
        (_to_mask(reserved), "the name of a property is RocketMQ's own"),
    ):
        yield _rows_of(entries.starts, mask), "properties", what


def _topic_faults(columns: Columns) -> Iterator[tuple[int, Fault]]:
    if isinstance(columns.topic, pa.Scalar):
        return
    encoded = columns.topic.dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy()
    for code, topic in enumerate(encoded.dictionary.to_pylist()):
        what = _fault_of_topic(topic)
        if what is not None:
            for row in np.flatnonzero(codes == code).tolist():
                yield row, Fault("topic", what)


def _fault_of_topic(topic: bytes | None) -> str | None:
    if topic is None:
        return "the topic is null"
    return topic_fault(topic.decode()) if is_utf8(topic) else "the text is no UTF-8"


# --- tests on texts --------------------------------------------------------------------------------------------------


def _rows_of(starts: Integers, mask: Mask) -> Mask:
    """Return a mask of the rows that have a property marked in `mask`; the properties of row i begin at `starts[i]`."""
    before = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=before[1:])
    return np.diff(before[starts]) > 0


def _has_separator(texts: pa.Array) -> Mask:
    offsets = offsets_of(texts)
    data = np.frombuffer(buffer_of(texts), np.uint8)[offsets[0] : offsets[-1]]
    if not ((data == 1) | (data == 2)).any():
        return np.zeros(len(texts), bool)
    return _matches(texts, b"\x01") | _matches(texts, b"\x02")


def _matches(texts: pa.Array, pattern: bytes) -> Mask:
    return _to_mask(pc.match_substring(texts, pattern))


def _blank(texts: pa.Array) -> Mask:
    """Return a mask of the texts that are null, empty or only spaces.

    If one of the texts is not UTF-8, texts of spaces are not found.
    """
    blank: Mask = sizes_of(texts) == 0
    if _may_begin_with_space(texts, ~blank) and not _not_utf8(texts).any():
        blank |= _to_mask(pc.utf8_is_space(texts.cast(pa.large_string())))
    return blank


def _may_begin_with_space(texts: pa.Array, is_given: Mask) -> bool:
    """Return whether one of the given texts may begin with a space; any byte beyond ASCII may be part of one."""
    data = np.frombuffer(buffer_of(texts), np.uint8)
    first = data[offsets_of(texts)[:-1][is_given]]
    return bool(((first <= ord(" ")) | (first >= 0x80)).any())


def _not_utf8(texts: pa.Array) -> Mask:
    try:
        texts.cast(pa.large_string())
    except pa.ArrowInvalid:
        return np.array([text is not None and not is_utf8(text) for text in texts.to_pylist()], bool)
    return np.zeros(len(texts), bool)


def _to_mask(values: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask
