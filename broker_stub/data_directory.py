"""Keep a broker's state in a directory.

As at a real broker, the log is its files: segments are mapped into memory, so a stored message is on disk without a
separate write. The rest of the state is written as small JSON files, at intervals if it changed, and at the end;
`consumerOffset.json` has RocketMQ's own form. Consume queues are not written but rebuilt from the log. `queues.json`
contains what the log lacks: where a recreated queue begins, and which messages are expired.

    <broker>/commitlog/00000000000000000000 ...
    <broker>/config/consumerOffset.json  delayOffset.json  subscriptionGroup.json  topics.json  queues.json

If a file is unreadable, its previous version is used, which is kept as `.bak`; if that fails too, the error names the
file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from pyspark_rocketmq.errors import OptionError, RocketMQError
from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import (
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
    decode_body,
    encode_body,
)
from pyspark_rocketmq.wire.record import Record, decode_record

from .commit_log import PHYSICAL_AT, SEGMENT_BYTES, CommitLog
from .consume_queue import ConsumeQueue, QueueKey
from .offset_table import Table, format_offsets, parse_offsets
from .state import Broker, Cluster
from .store import tag_code_of
from .topic_table import SCHEDULE_TOPIC

T = TypeVar("T")
Values = dict[str, dict[str, str]]

_VALUES, _OFFSETS, _DELAYS = "kvConfig.json", "consumerOffset.json", "delayOffset.json"
_TOPICS, _GROUPS, _QUEUES = "topics.json", "subscriptionGroup.json", "queues.json"
_BACKUP = ".bak"
_MIN_RECORD_BYTES = 91
"""Size of a record that has no body, no topic and no properties."""


class DamagedData(OptionError):
    """Raised if a file of the data directory cannot be read or written."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__("data", str(path), what, advice="restore the file, or give another directory")


class QueueState(NamedTuple):
    """The part of a queue's state that cannot be read from the log."""

    topic: str
    queue_id: int
    base: int
    min_offset: int
    start: int
    """Address of the queue's first record; earlier records belong to a deleted queue of the same name."""


class LogState(NamedTuple):
    """The part of the state of a log and its queues that cannot be read from the log."""

    address: Address | None = None
    """Address at which the broker listened; None if nothing was saved yet."""
    log_end: int = 0
    log_min: int = 0
    queues: tuple[QueueState, ...] = ()


class DelayProgress(NamedTuple):
    """The progress in delivering delayed messages."""

    by_level: dict[int, int]
    timers: list[int]
    """Offsets in the timer topic's queue of messages that are not delivered yet."""


class ConfigFiles:
    """Small files in one directory; each is written only if its content changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._saved: dict[str, bytes] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            raise DamagedData(directory, f"not a directory to write to: {cause.strerror}") from cause

    def read(self, name: str, parse: Callable[[bytes], T], default: T) -> T:
        """Return the parsed content of a file, or of its backup if the file is damaged or missing.

        Return the default if neither exists; raise DamagedData if neither can be parsed.
        """
        fault: Exception | None = None
        for path in (self.directory / name, self.directory / (name + _BACKUP)):
            try:
                return parse(path.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, ValueError, LookupError, TypeError, AttributeError, RocketMQError) as cause:
                fault = fault or cause
        if fault is not None:
            raise DamagedData(self.directory / name, f"damaged: {fault}") from fault
        return default

    def save(self, parts: dict[str, bytes]) -> None:
        """Write each file of `parts` whose content differs from the last saved one."""
        for name, content in parts.items():
            if self._saved.get(name) != content:
                self._write(name, content)
        self._saved = parts

    def _write(self, name: str, content: bytes) -> None:
        path, new = self.directory / name, self.directory / (name + ".new")
        try:
            new.write_bytes(content)
            if path.exists():
                os.replace(path, self.directory / (name + _BACKUP))
            os.replace(new, path)
        except OSError as cause:
            raise DamagedData(path, f"cannot be written: {cause.strerror}") from cause


class NameServerFiles:
    """The name server's file, which contains its key-value configuration."""

    def __init__(self, directory: Path) -> None:
        self._files = ConfigFiles(directory / "namesrv")

    def load(self, cluster: Cluster) -> None:
        """Restore the saved key-value configuration into a new name server."""
        cluster.values.update(self._files.read(_VALUES, _parse_values, Values()))

    def save(self, cluster: Cluster) -> None:
        """Write the key-value configuration if it changed since the last save."""
        self._files.save({_VALUES: json.dumps(cluster.values).encode()})


class BrokerFiles:
    """The log and the configuration files of one broker."""

    def __init__(self, directory: Path) -> None:
        self._config = ConfigFiles(directory / "config")
        self._log = ConfigFiles(directory / "commitlog").directory

    def open_log(self) -> CommitLog:
        """Return the log that consists of the directory's segment files; raise DamagedData for an unexpected file."""
        log = CommitLog(self._map_segment)
        for index, path in enumerate(sorted(self._log.iterdir())):
            if path.name != _segment_name(index):
                raise DamagedData(path, f"{_segment_name(index)} was expected in its place")
            segment = self._map_segment(index)
            log.add_segment(segment, _segment_end(segment, path, index))
        return log

    def address(self) -> Address | None:
        """Return the address at which the broker last listened; None if nothing is saved.

        A broker listens there again, because message ids contain its address.
        """
        return self._config.read(_QUEUES, _parse_log_state, LogState()).address

    def load(self, broker: Broker) -> None:
        """Restore the saved state into a new broker that has opened its log already."""
        read = self._config.read
        topics = read(_TOPICS, partial(decode_body, TopicConfigSerializeWrapper), TopicConfigSerializeWrapper())
        for config in topics.topic_config_table.values():
            broker.topics.create(config)
        groups = read(_GROUPS, partial(decode_body, SubscriptionGroupWrapper), SubscriptionGroupWrapper())
        for group in groups.subscription_group_table.values():
            broker.group_configs.update(group)
        broker.offsets.committed.update(read(_OFFSETS, parse_offsets, Table()))
        self._rebuild_queues(broker, read(_QUEUES, _parse_log_state, LogState()))
        broker.delayed_messages.resume(*read(_DELAYS, _parse_delays, DelayProgress({}, [])))
        broker.half_messages.resume()

    def save(self, broker: Broker) -> None:
        """Write the configuration files whose content changed since the last save."""
        topics = TopicConfigSerializeWrapper(topic_config_table={config.topic_name: config for config in broker.topics})
        groups = SubscriptionGroupWrapper(subscription_group_table=broker.group_configs.table)
        delayed_messages = {
            "offsetTable": broker.delayed_messages.delivered,
            "timers": broker.delayed_messages.waiting_timers,
        }
        self._config.save(
            {
                _TOPICS: encode_body(topics),
                _GROUPS: encode_body(groups),
                _OFFSETS: format_offsets(broker.offsets.committed, is_5x=broker.release.is_5x).encode(),
                _DELAYS: fastjson.write(delayed_messages, bare_integer_keys=True),
                _QUEUES: _format_log_state(broker),
            }
        )

    def _map_segment(self, index: int) -> memoryview:
        path = self._log / _segment_name(index)
        is_new = not path.exists()
        if not is_new and path.stat().st_size != SEGMENT_BYTES:
            raise DamagedData(path, f"{path.stat().st_size} bytes long, which should be {SEGMENT_BYTES}")
        return np.memmap(path, np.uint8, "w+" if is_new else "r+", shape=(SEGMENT_BYTES,)).data

    def _rebuild_queues(self, broker: Broker, log_state: LogState) -> None:
        """Rebuild the consume queues from the log, leaving out records of queues that were deleted."""
        store = broker.store
        starts: dict[QueueKey, int] = {}
        for place in log_state.queues:
            queue = store.queues[place.topic, place.queue_id] = ConsumeQueue(place.base)
            queue.min_offset, starts[place.topic, place.queue_id] = place.min_offset, place.start
        store.log.min_offset = log_state.log_min
        for physical, data in store.log.records():
            record = self._decode_checked(data, physical)
            if physical >= starts.setdefault((record.topic, record.queue_id), log_state.log_end):
                queue = store.open_queue(record.topic, record.queue_id)
                queue.append(physical, len(data), _queue_code(broker, record), record.store_timestamp)

    def _decode_checked(self, data: memoryview, physical: int) -> Record:
        try:
            record = decode_record(data)[0]
            record.check_crc()
        except RocketMQError as cause:
            index, at = divmod(physical, SEGMENT_BYTES)
            raise DamagedData(self._log / _segment_name(index), f"damaged at byte {at}: {cause.what}") from cause
        return record


def _parse_values(data: bytes) -> Values:
    return {namespace: {**table} for namespace, table in json.loads(data).items()}


def _parse_delays(data: bytes) -> DelayProgress:
    parsed = fastjson.parse(data)
    delivered = {int(level): int(offset) for level, offset in parsed["offsetTable"].items()}
    return DelayProgress(delivered, [int(offset) for offset in parsed.get("timers", ())])


def _parse_log_state(data: bytes) -> LogState:
    parsed = json.loads(data)
    rows = tuple(QueueState(str(topic), *map(int, numbers)) for topic, *numbers in parsed["queues"])
    return LogState(parse_address(parsed["address"]), int(parsed["logEnd"]), int(parsed["logMin"]), rows)


# --- the log and its queues ------------------------------------------------------------------------------------------


def _segment_name(index: int) -> str:
    return f"{index * SEGMENT_BYTES:020d}"


def _segment_end(segment: memoryview, path: Path, index: int) -> int:
    """Return the position behind a segment's last record; raise DamagedData for a malformed record."""
    at = 0
    while at + _MIN_RECORD_BYTES <= SEGMENT_BYTES and (size := int.from_bytes(segment[at : at + 4], "big")):
        physical = int.from_bytes(segment[at + PHYSICAL_AT : at + PHYSICAL_AT + 8], "big")
        if physical != index * SEGMENT_BYTES + at or not _MIN_RECORD_BYTES <= size <= SEGMENT_BYTES - at:
            raise DamagedData(path, f"damaged at byte {at}: a record of {size} bytes that lies at {physical}")
        at += size
    return at


def _queue_code(broker: Broker, record: Record) -> int:
    """Return the code that the consume queue has for a record: the tag's hash, or in a delay queue the due time."""
    if record.topic == SCHEDULE_TOPIC:
        return record.store_timestamp + broker.delayed_messages.levels_ms[record.queue_id]
    return tag_code_of(record.properties)


def _format_log_state(broker: Broker) -> bytes:
    log = broker.store.log
    rows = [
        QueueState(*key, queue.base, queue.min_offset, queue.physical[0] if queue.physical else log.end)
        for key, queue in broker.store.queues.items()
    ]
    log_state = {"address": str(broker.address), "logEnd": log.end, "logMin": log.min_offset, "queues": rows}
    return json.dumps(log_state).encode()
