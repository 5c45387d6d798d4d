"""Keep the offsets of consumer groups.

There are three tables by `topic@group`: committed offsets; the offset of each group's next pull, for statistics; and
resets that an administrator ordered. A reset lasts until the group's next pull of the queue: until then queries return
the reset offset, and commits are ignored.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark_rocketmq.wire import fastjson

from .changes import OnChange, ignore_change

SEPARATOR = "@"

Table = dict[str, dict[int, int]]


def table_key(topic: str, group: str) -> str:
    """Return the key `topic@group` under which offset tables keep a group's offsets in a topic."""
    return f"{topic}{SEPARATOR}{group}"


class ConsumerOffsets:
    """The offsets of the consumer groups at one broker: committed offsets, offsets of next pulls, pending resets."""

    def __init__(self) -> None:
        self.on_change: OnChange = ignore_change
        self.committed: Table = defaultdict(dict)
        self.pulled: Table = defaultdict(dict)
        self.resets: Table = defaultdict(dict)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store a group's offset, higher or lower than before; do nothing while a reset of the queue is pending."""
        key = table_key(topic, group)
        if queue_id not in self.resets.get(key, {}):
            self.committed[key][queue_id] = offset
            self.on_change("commit", key, queue_id, offset)

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a group's offset of a queue from a pending reset, else the committed one; None if it has neither."""
        key = table_key(topic, group)
        reset = self.resets.get(key, {}).get(queue_id)
        return reset if reset is not None else self.committed.get(key, {}).get(queue_id)

    def record_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store the offset of a group's next pull, for statistics."""
        self.pulled[table_key(topic, group)][queue_id] = offset

    def pull_offset_of(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset of a group's next pull of a queue; None if it never pulled."""
        return self.pulled.get(table_key(topic, group), {}).get(queue_id)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set a group's offset of a queue; commits of this queue are ignored until the group's next pull of it."""
        key = table_key(topic, group)
        self.committed[key][queue_id] = self.resets[key][queue_id] = offset
        self.on_change("commit", key, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove a group's pending reset of a queue and return its offset; None if there is none."""
        return self.resets.get(table_key(topic, group), {}).pop(queue_id, None)

    def topics(self, group: str) -> set[str]:
        """Return the topics in which a group has committed offsets."""
        return {topic for topic, other in self._keys() if other == group}

    def groups(self, topic: str) -> set[str]:
        """Return the groups that have committed offsets in a topic."""
        return {group for other, group in self._keys() if other == topic}

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Return a group's committed offsets in a topic, by queue id."""
        return self.committed.get(table_key(topic, group), {})

    def forget_group(self, group: str) -> None:
        """Remove a group's offsets (committed, pulled, reset) in each topic in which it has committed an offset."""
        for topic in self.topics(group):
            self._forget(table_key(topic, group))

    def forget_topic(self, topic: str) -> None:
        """Remove a topic's offsets (committed, pulled, reset) of each group that has committed an offset in it."""
        for group in self.groups(topic):
            self._forget(table_key(topic, group))

    def _keys(self) -> Iterator[tuple[str, str]]:
        for key in self.committed:
            topic, _, group = key.partition(SEPARATOR)
            yield topic, group

    def _forget(self, key: str) -> None:
        for table in (self.committed, self.pulled, self.resets):
            table.pop(key, None)
        self.on_change("drop-offsets", key)


# --- consumerOffset.json ---------------------------------------------------------------------------------------------


def parse_offsets(data: bytes) -> Table:
    """Return the table of offsets in the bytes of a `consumerOffset.json` file."""
    table = fastjson.parse(data)["offsetTable"]
    return {key: {int(queue_id): int(offset) for queue_id, offset in row.items()} for key, row in table.items()}


def offsets_body(table: Table, *, is_5x: bool) -> dict[str, Any]:
    """Return the offsets as the JSON object that brokers write and send; 5.x adds a version and each group's topics."""
    members: dict[str, Any] = {"offsetTable": {key: dict(sorted(row.items())) for key, row in table.items() if row}}
    if is_5x:
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for key in members["offsetTable"]:
            topic, _, group = key.rpartition(SEPARATOR)
            groups[group].append(topic)
        version = {"counter": 0, "stateVersion": 0, "timestamp": 0}
        topics = {group: sorted(names) for group, names in groups.items()}
        members = {"dataVersion": version, "groupTopicMap": topics, **members}
    return members


def format_offsets(table: Table, *, is_5x: bool) -> str:
    """Return the text of `consumerOffset.json` as brokers write it, with tabs and unquoted integer keys."""
    return _format(offsets_body(table, is_5x=is_5x), 0)


def _format(value: Any, depth: int) -> str:
    """Return a value as text in the layout of the broker's file; `depth` is the number of tabs before its last line.

    An object has one member per line. But a table of offsets is on one line, with unquoted queue ids as keys, and only
    its closing brace is on the next line.
    """
    if not isinstance(value, dict):
        return fastjson.write(value).decode()
    inner, outer = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
    if all(isinstance(key, int) for key in value):
        return "{" + ",".join(f"{queue_id}:{offset}" for queue_id, offset in value.items()) + outer + "}"
    members = (f"{inner}{json.dumps(name)}:{_format(member, depth + 1)}" for name, member in value.items())
    return "{" + ",".join(members) + outer + "}"
