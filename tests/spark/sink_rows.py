"""Define the rows of queries that are killed while they write, and check what has arrived of them.

The text of a row says what is done with it: its file and line, the number of its topic, its key, and its kind. A row of
the kind `lost` names a queue that does not exist, and brokers from 5.0 on refuse one of the kind `late`, because of its
delivery time; with `onBadRow=deadLetter` both become dead letters. The rows of a key are in one file of each batch, so
they have an order across all batches.

A broker that is killed while it writes a message may keep it, not acknowledged, without some of its properties. Such a
torn message has no id of ours; it counts as no copy of its row.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.wire.record import decode_records
from tests.flows.reading import read_all
from tests.flows.world import World
from tests.spark.queries import Sink, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 2
"""Files of a batch, each read by a task of its own."""
TOPICS = 3
LOST, LATE = "lost", "late"
_ID = re.compile("[0-9A-F]{32}")
_KINDS = {13: LOST, 27: LATE}
"""The kinds of bad rows, by the remainder of the line divided by 40."""


class Size(NamedTuple):
    """The numbers of batches, rows of a file, rows of a record batch, keys (even), and queues of a topic and broker."""

    batches: int = 3
    rows: int = 120
    rows_at_once: int = 20
    keys: int = 14
    queues: int = 4


SMALL = Size()


class Row(NamedTuple):
    """The fields of a row's text."""

    file: int
    line: int
    topic: int
    key: str
    kind: str


@dataclass(frozen=True)
class Shape:
    """The columns that a query makes of a row's text (`value`), and the settings of its sink."""

    name: str
    expressions: tuple[str, ...]
    """The columns; `{topics}` stands for the names of the topics."""
    options: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[int | None, ...] = (None,)
    """The numbers of partitions into which the runs of a query shuffle their rows, in turn."""
    partition_by: str | None = None
    """The expression by which rows are shuffled; None: evenly."""
    repeats_ids: bool = True
    topics: int = 1
    padding: int = 0
    """The number of dots that are added to each body."""

    @property
    def keeps_order(self) -> bool:
        """Whether rows of a key are stored in their order."""
        return self.options.get("ordering") == "key"

    @property
    def has_dead_letters(self) -> bool:
        """Whether bad rows become dead letters."""
        return self.options.get("onBadRow") == "deadLetter"


class Targets(NamedTuple):
    """The topics of a query, and that of its dead letters, if its shape has any."""

    topics: Sequence[str]
    dead_letters: str | None


Wanted = Mapping[str, Collection[str]]
"""The rows that a topic must have, by topic."""


def _word(place: int) -> str:
    return f"split(value, ' ')[{place}]"


_BODY, _ROW_ID, _KEY = "value AS body", "value AS rowId", f"{_word(3)} AS shardingKey"
_TOPIC = f"element_at(array({{topics}}), int({_word(2)}) + 1) AS topic"
_BAD = (
    f"IF({_word(4)} = '{LOST}', 99, NULL) AS queueId",
    f"IF({_word(4)} = '{LATE}', 4102444800000, NULL) AS deliverTimeMs",
)
_ORDERED, _DEAD_LETTERS = {"ordering": "key"}, {"onBadRow": "deadLetter"}
_MOVED = (2, 3, 1)
_PADDING = 250_000
"""The padding with which a record batch of 20 rows has 5 MB, so that a task encodes it in two pieces."""

SHAPES = {
    shape.name: shape
    for shape in (
        Shape("as read", (_BODY,)),
        Shape("rowId", (_BODY, _ROW_ID), partitions=_MOVED),
        Shape("moved", (_BODY,), partitions=_MOVED, repeats_ids=False),
        Shape("dead letters", (_BODY, *_BAD), _DEAD_LETTERS),
        Shape("keys", (_BODY, _KEY), _ORDERED),
        Shape("moved keys", (_BODY, _KEY, _ROW_ID), _ORDERED, partitions=_MOVED, partition_by=_word(3)),
        Shape("topics", (_BODY, _TOPIC), topics=TOPICS),
        Shape("large", (f"concat(value, repeat('.', {_PADDING})) AS body",), padding=_PADDING),
        Shape("slow", ("slowly(value) AS body",)),
        Shape("all at once", (_BODY, _TOPIC, _KEY, *_BAD), _ORDERED | _DEAD_LETTERS, topics=TOPICS),
    )
}


def write_source(folder: Path, size: Size) -> list[str]:
    """Write the rows of all batches to text files; return them."""
    folder.mkdir()
    rows = []
    for file in range(size.batches * FILES):
        lines = [_text(file, line, size) for line in range(size.rows)]
        path = folder / f"{file:02}.txt"
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))
        rows += lines
    return rows


def _text(file: int, line: int, size: Size) -> str:
    key = (FILES * line + file % FILES) % size.keys
    return f"{file} {line} {line % TOPICS} k{key} {_KINDS.get(line % 40, 'good')} {'x' * (40 + file)}"


def parse_row(text: str) -> Row:
    """Return what the text of a row says."""
    file, line, topic, key, kind, _ = text.split(" ")
    return Row(int(file), int(line), int(topic), key, kind)


def place_rows(rows: Iterable[str], shape: Shape, targets: Targets, world: World) -> Wanted:
    """Return the rows that each topic must have after the query."""
    bad = {LOST, LATE} if world.by_version({"4.9": False, "5": True}) else {LOST}
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for text in rows:
        row = parse_row(text)
        if targets.dead_letters and row.kind in bad:
            wanted[targets.dead_letters].add(text)
        else:
            wanted[targets.topics[row.topic % shape.topics]].add(text)
    return wanted


# --- what has arrived ------------------------------------------------------------------------------------------------


class Arrived(NamedTuple):
    """A message that was read back, and the row that it carries."""

    queue: MessageQueue
    offset: int
    message_id: str
    """Empty if the message is torn."""
    row: str


def check_arrived(world: World, targets: Targets, wanted: Wanted, shape: Shape, most_torn: int) -> int:
    """Return how many messages repeat a row. Fail if rows are missing, or if ids or the order are not as promised."""
    stored = {topic: list(read_topic(world, topic, shape)) for topic in wanted}
    torn = [message for messages in stored.values() for message in messages if not message.message_id]
    assert len(torn) <= most_torn, f"{len(torn)} messages have no id: {torn[:5]}"
    found = {topic: [message for message in messages if message.message_id] for topic, messages in stored.items()}
    for topic, rows in wanted.items():
        present = {message.row for message in found[topic]}
        missing, strange = sorted(set(rows) - present), sorted(present - set(rows))
        assert not missing, f"{len(missing)} rows of {topic} are missing: {missing[:5]}"
        assert not strange, f"{topic} has rows that belong elsewhere: {strange[:5]}"
    messages = [message for of_topic in found.values() for message in of_topic]
    _check_ids(messages, shape)
    if shape.keeps_order:
        inverted = inversions([message for message in messages if message.queue.topic != targets.dead_letters])
        assert not inverted, f"{len(inverted)} rows come after a later row of their key: {inverted[:5]}"
    return len(messages) - sum(map(len, wanted.values()))


def _check_ids(messages: Iterable[Arrived], shape: Shape) -> None:
    ids_of, rows_of = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for message in messages:
        ids_of[message.row].add(message.message_id)
        rows_of[message.message_id].add(message.row)
    shared = {message_id: rows for message_id, rows in rows_of.items() if len(rows) > 1}
    assert not shared, f"different rows share an id: {shared}"
    if shape.repeats_ids:
        changed = {row: ids for row, ids in ids_of.items() if len(ids) > 1}
        assert not changed, f"{len(changed)} rows were repeated under another id: {list(changed.items())[:5]}"


def inversions(messages: Iterable[Arrived]) -> list[Arrived]:
    """Return the messages that are the first copy of a row in their queue, but come after a later row of their key."""
    inverted = []
    for _, of_queue in groupby(sorted(messages), lambda message: message.queue):
        seen, last = set[str](), dict[str, Row]()
        for message in of_queue:
            if message.message_id in seen:
                continue
            seen.add(message.message_id)
            row = parse_row(message.row)
            if row < last.get(row.key, row):
                inverted.append(message)
            last[row.key] = max(row, last.get(row.key, row))
    return inverted


def read_topic(world: World, topic: str, shape: Shape) -> Iterator[Arrived]:
    """Yield every message of a topic."""
    world.cluster.routes.expire(topic)
    queues = world.cluster.routes.route(topic).readable
    ends = world.cluster.offsets.fetch_max(queues)
    for block in read_all(world.cluster, [QueueRange(queue, 0, ends[queue]) for queue in queues]):
        for record in decode_records(block.data):
            row, message_id = record.unpacked_body().decode(), record.properties.get("UNIQ_KEY", "")
            own_id = message_id if _ID.fullmatch(message_id) else ""
            yield Arrived(block.wanted.queue, record.queue_offset, own_id, row.removesuffix("." * shape.padding))


def check_deduplicated(spark: SparkSession, world: World, wanted: Wanted, folder: Path) -> None:
    """Check that a query that drops repeated message ids reads exactly the rows that were written."""
    frame = spark.readStream.format("rocketmq").options(nameServer=world.name_server, subscribe=",".join(wanted))
    copies = frame.option("startingOffsets", "earliest").load()
    bare = "CAST(trim(TRAILING '.' FROM string(body)) AS BINARY) AS body"
    whole = copies.where("length(msgId) = 32").selectExpr("msgId", "storeTimestamp", bare)
    once = whole.withWatermark("storeTimestamp", "1 hour")
    sink = Sink()
    run_to_end(once.dropDuplicatesWithinWatermark(["msgId"]), sink, folder / "deduplicated")
    assert sink.bodies == sorted(row for rows in wanted.values() for row in rows)
