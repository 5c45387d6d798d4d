"""Find messages by key.

The index is built on demand: each query first reads the part of the log that was written since the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pyspark_rocketmq.wire.record import Record, decode_record

from .store import Store


class KeyIndex:
    """Addresses of messages by topic and key; a unique id is a key, too."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_to = 0
        self._addresses: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[Record]:
        """Yield a topic's messages with a key that were stored between two times, the latest first."""
        self._index_new_records()
        for physical in reversed(self._addresses.get((topic, key), ())):
            record = self._store.message_at(physical)
            if record and begin_ms <= record.store_timestamp <= end_ms and self._is_in_queue(record):
                yield record

    def _is_in_queue(self, record: Record) -> bool:
        """Return whether the record is still in its queue, and the queue was not deleted since."""
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
