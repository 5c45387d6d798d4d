"""Find messages by key.

The index grows on demand: each query first indexes the part of the log that was written since the last query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pyspark_rocketmq.wire.record import Record, decode_record

from .store import Store


class KeyIndex:
    """Addresses of a broker's messages, by topic and key; the unique id of a message is one of its keys."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_to = 0
        self._addresses: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[Record]:
        """Yield a topic's messages with this key and a store time between two times, the latest message first."""
        self._index_new_records()
        for physical in reversed(self._addresses.get((topic, key), ())):
            record = self._store.message_at(physical)
            if record and begin_ms <= record.store_timestamp <= end_ms and self._is_in_queue(record):
                yield record

    def _is_in_queue(self, record: Record) -> bool:
        """Return whether the record's queue still lists the record; it does so until the queue is deleted."""
        queue = self._store.queue(record.topic, record.queue_id)
        index = record.queue_offset - queue.base
        return 0 <= index < len(queue.physical) and queue.physical[index] == record.physical_offset

    def _index_new_records(self) -> None:
        for physical, data in self._store.log.records(self._read_to):
            record = decode_record(data)[0]
            properties = record.properties
            for key in {*properties.get("KEYS", "").split(), properties.get("UNIQ_KEY", "")} - {""}:
                self._addresses[record.topic, key].append(physical)
        self._read_to = self._store.log.end
