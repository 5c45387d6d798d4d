"""Keep a broker's state in a directory.

As at a real broker, the log is its files: segments are mapped into memory, so a stored message is on disk without a
separate write. The rest of the state is written as small JSON files, at intervals if it changed, and at the end;
`consumerOffset.json` has RocketMQ's own form. In between, `changes.jsonl` gets each change before the request that made
it is answered. So stored messages, topics, groups, committed offsets and the name server's values survive the end of
the process at any moment; a crash of the machine may lose what its system had not written yet. Which messages are
popped, brokers' configuration and wiped write permissions are not kept. After a kill, popped messages from the group's
committed offset on are delivered again, even acknowledged ones, and so may be delayed messages.

Consume queues are not written but rebuilt from the log. `queues.json` contains what the log lacks: where a recreated
queue begins, and which messages are expired.

    <broker>/commitlog/00000000000000000000 ...
    <broker>/config/consumerOffset.json  delayOffset.json  subscriptionGroup.json  topics.json  queues.json
    <broker>/config/changes.jsonl

If a file is unreadable, its previous version is used, which is kept as `.bak`; if that fails too, the error names the
file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.bodies import (
    Body,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    decode_body,
    encode_body,
)
from pyspark_rocketmq.wire.record import Record

from .commit_log import CommitLog
from .config_files import FAULTS, ConfigFiles, DamagedData, Journal
from .consume_queue import ConsumeQueue, QueueKey
from .offset_table import Table, format_offsets, parse_offsets
from .segment_files import SegmentFiles
from .state import Broker, Cluster
from .store import tag_code_of
from .topic_table import SCHEDULE_TOPIC

B = TypeVar("B", bound=Body)
Values = dict[str, dict[str, str]]

_VALUES, _OFFSETS, _DELAYS = "kvConfig.json", "consumerOffset.json", "delayOffset.json"
_TOPICS, _GROUPS, _QUEUES = "topics.json", "subscriptionGroup.json", "queues.json"
_CHANGES = "changes.jsonl"


class QueueState(NamedTuple):
    """State of a queue that its log does not contain: where the queue begins, and which messages are expired."""

    topic: str
    queue_id: int
    base: int | None
    """Offset of the queue's first record; None: the offset that the record itself contains."""
    min_offset: int
    start: int
    """Address of the queue's first record; earlier records belong to a deleted queue of the same name."""


class LogState(NamedTuple):
    """Content of `queues.json`: the broker's address, its log's end and minimum address, and its queues' states."""

    address: Address | None = None
    """Address at which the broker listened; None if nothing was saved yet."""
    log_end: int = 0
    log_min: int = 0
    queues: tuple[QueueState, ...] = ()


class DelayProgress(NamedTuple):
    """Progress in delivering delayed messages: next offset by delay level, and timer messages that still wait."""

    by_level: dict[int, int]
    timers: list[int]
    """Offsets in the timer topic's queue of messages that are not delivered yet."""
    timers_end: int
    """Offset in the timer topic's queue from which on no message is delivered yet."""


class NameServerFiles:
    """The name server's file, which contains its key-value configuration."""

    def __init__(self, directory: Path) -> None:
        self._files = ConfigFiles(directory / "namesrv")

    def load(self, cluster: Cluster) -> None:
        """Restore the saved key-value configuration into a new name server, and save each change of it from now on."""
        cluster.values.update(self._files.read(_VALUES, _parse_values, Values()))
        cluster.on_values_changed = partial(self.save, cluster)

    def save(self, cluster: Cluster) -> None:
        """Write the key-value configuration if it changed since the last save."""
        self._files.save({_VALUES: json.dumps(cluster.values).encode()})


class BrokerFiles:
    """The log and the configuration files of one broker."""

    def __init__(self, directory: Path) -> None:
        self._config = ConfigFiles(directory / "config")
        self._journal = Journal(self._config.directory / _CHANGES)
        self._segments = SegmentFiles(ConfigFiles(directory / "commitlog").directory)

    def open_log(self) -> CommitLog:
        """Return the log that the segment files contain; raise DamagedData for an unexpected or damaged file."""
        return self._segments.open_log()

    def address(self) -> Address | None:
        """Return the address at which the broker last listened; None if nothing is saved.

        A broker listens there again, because message ids contain its address.
        """
        return self._config.read(_QUEUES, _parse_log_state, LogState()).address

    def load(self, broker: Broker) -> None:
        """Restore the saved state into a new broker that has its log already; from then on, record each change."""
        self._load_tables(broker)
        log_state = self._config.read(_QUEUES, _parse_log_state, LogState())
        replay = _Replay(broker, log_state)
        for change in self._journal.read():
            try:
                replay.apply(*change)
            except FAULTS as cause:
                raise DamagedData(self._journal.path, f"not a change: {json.dumps(change):.80}") from cause
        self._rebuild_queues(broker, log_state, replay.places)
        delays = self._config.read(_DELAYS, _parse_delays, DelayProgress({}, [], 0))
        broker.delayed_messages.resume(*delays)
        broker.half_messages.resume()
        for table in (broker.topics, broker.group_configs, broker.offsets, broker.store):
            table.on_change = self._record_change

    def save(self, broker: Broker) -> None:
        """Write the configuration files whose content changed since the last save, and clear the journal."""
        topics = TopicConfigSerializeWrapper(topic_config_table={config.topic_name: config for config in broker.topics})
        groups = SubscriptionGroupWrapper(subscription_group_table=broker.group_configs.table)
        delayed_messages = {
            "offsetTable": broker.delayed_messages.delivered,
            "timers": broker.delayed_messages.waiting_timers,
            "timersEnd": broker.delayed_messages.timers_end,
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
        self._journal.clear()

    def _record_change(self, kind: str, *values: object) -> None:
        self._journal.append(kind, *(_plain(value) if isinstance(value, Body) else value for value in values))

    def _load_tables(self, broker: Broker) -> None:
        read = self._config.read
        topics = read(_TOPICS, partial(decode_body, TopicConfigSerializeWrapper), TopicConfigSerializeWrapper())
        for topic in topics.topic_config_table.values():
            broker.topics.create(topic)
        groups = read(_GROUPS, partial(decode_body, SubscriptionGroupWrapper), SubscriptionGroupWrapper())
        for group in groups.subscription_group_table.values():
            broker.group_configs.update(group)
        broker.offsets.committed.update(read(_OFFSETS, parse_offsets, Table()))

    def _rebuild_queues(self, broker: Broker, log_state: LogState, places: Sequence[QueueState]) -> None:
        """Rebuild the consume queues from the log and the queue states `places`, without records of deleted queues."""
        store = broker.store
        starts = {(place.topic, place.queue_id): place.start for place in places}
        for place in places:
            if place.base is not None:
                store.queues[place.topic, place.queue_id] = ConsumeQueue(place.base)
        store.log.min_offset = log_state.log_min
        for physical, data in store.log.records():
            record = self._segments.decode(data, physical)
            key = record.topic, record.queue_id
            if physical >= starts.setdefault(key, log_state.log_end):
                queue = store.queues.get(key) or store.queues.setdefault(key, ConsumeQueue(record.queue_offset))
                queue.append(physical, len(data), _queue_code(broker, record), record.store_timestamp)
        for place in places:
            if (restored := store.queues.get((place.topic, place.queue_id))) is not None:
                restored.min_offset = max(restored.base, place.min_offset)


class _Replay:
    """Applies the changes in the journal since the last save to a broker's loaded tables and to the queues' states."""

    def __init__(self, broker: Broker, log_state: LogState) -> None:
        self._broker = broker
        self._log_end = log_state.log_end
        self._places: dict[QueueKey, QueueState] = {(place.topic, place.queue_id): place for place in log_state.queues}

    @property
    def places(self) -> list[QueueState]:
        """State of each queue after the changes that were applied so far."""
        return list(self._places.values())

    def apply(self, kind: str, *values: Any) -> None:
        """Apply one change from the journal to the tables or queue states; raise ValueError for an unknown kind."""
        topics, groups, offsets = self._broker.topics, self._broker.group_configs, self._broker.offsets
        match kind, values:
            case "topic", [config]:
                topics.create(_read(TopicConfig, config))
            case "drop-topic", [name]:
                topics.delete(name)
            case "group", [config]:
                groups.update(_read(SubscriptionGroupConfig, config))
            case "drop-group", [name]:
                groups.delete(name)
            case "commit", [key, queue_id, offset]:
                offsets.committed.setdefault(str(key), {})[int(queue_id)] = int(offset)
            case "drop-offsets", [key]:
                offsets.committed.pop(key, None)
            case "expire", [topic, queue_id, offset]:
                place = self._places.get((topic, queue_id), QueueState(topic, queue_id, None, 0, self._log_end))
                self._places[topic, queue_id] = place._replace(min_offset=int(offset))
            case "drop-queue", [topic, queue_id, log_end]:
                self._places[topic, queue_id] = QueueState(topic, queue_id, None, 0, int(log_end))
            case _:
                raise ValueError(f"unknown kind {kind!r}")


def _plain(body: Body) -> Any:
    """Return a body as the Python value (dicts, lists, texts, numbers) of its JSON text."""
    return fastjson.parse(encode_body(body))


def _read(cls: type[B], plain: Any) -> B:
    return decode_body(cls, json.dumps(plain))


def _parse_values(data: bytes) -> Values:
    return {namespace: {**table} for namespace, table in json.loads(data).items()}


def _parse_delays(data: bytes) -> DelayProgress:
    parsed = fastjson.parse(data)
    delivered = {int(level): int(offset) for level, offset in parsed["offsetTable"].items()}
    timers = [int(offset) for offset in parsed.get("timers", ())]
    return DelayProgress(delivered, timers, int(parsed.get("timersEnd", sys.maxsize)))


def _parse_log_state(data: bytes) -> LogState:
    parsed = json.loads(data)
    rows = tuple(QueueState(str(topic), *map(int, numbers)) for topic, *numbers in parsed["queues"])
    return LogState(parse_address(parsed["address"]), int(parsed["logEnd"]), int(parsed["logMin"]), rows)


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
