"""Choose the queue of each row: the one that its columns name, or the one that its sharding key selects.

A row without either goes to any queue of its topic. Keys select queues as `SelectMessageQueueByHash` of Java's client
does, so that Java's producers and this one put a key into the same queue, if they see the same queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model import MessageQueue
from ..wire.properties import is_utf8
from .arrays import EMPTY, Integers, Mask, java_hashes, sizes_of, to_arrow
from .columns import Columns, NamedQueues
from .faults import Fault

__all__ = ["ANY_QUEUE", "ListQueues", "Placing", "place_rows"]

ANY_QUEUE = -1
ListQueues = Callable[[str], Sequence[MessageQueue]]
"""Returns the writable queues of a topic, the same for all rows of a batch, in the order of Java's client.

Raises if there are none.
"""


class Placing(NamedTuple):
    """The topic and the queue chosen for each row, as indices into lists of topics and queues."""

    topics: list[str]
    queues: list[Sequence[MessageQueue]]
    """The queues of each topic."""
    topic_of: Integers
    queue_of: Integers
    """The place of each row's queue among those of its topic, or `ANY_QUEUE`."""
    faults: dict[int, Fault]
    """The rows whose queue does not exist or is not writable."""


def place_rows(columns: Columns, queues_of: ListQueues, *, by_key: bool) -> Placing:
    """Choose the queue of each row: the one that it names; else, with `by_key`, that of its sharding key; else any."""
    topics, topic_of = _topics(columns)
    queue_of = np.full(columns.count, ANY_QUEUE, np.int64)
    placing = Placing(topics, [queues_of(topic) for topic in topics], topic_of, queue_of, {})
    for code, queues in enumerate(placing.queues):
        rows = topic_of == code
        if by_key and columns.sharding_key is not None:
            _place_by_key(rows & (sizes_of(columns.sharding_key) > 0), columns.sharding_key, len(queues), queue_of)
        if columns.queues is not None:
            _place_by_number(rows & (columns.queues.numbers >= 0), columns.queues, queues, placing)
    return placing


def _topics(columns: Columns) -> tuple[list[str], Integers]:
    if isinstance(columns.topic, pa.Scalar):
        return [columns.topic.as_py().decode()], np.zeros(columns.count, np.int64)
    encoded = columns.topic.dictionary_encode()
    return [topic.decode() for topic in encoded.dictionary.to_pylist()], encoded.indices.to_numpy().astype(np.int64)


def _place_by_key(rows: Mask, keys: pa.Array, queue_count: int, queue_of: Integers) -> None:
    if rows.any():
        hashes = java_hashes(keys.filter(to_arrow(rows)))
        queue_of[rows] = np.abs(hashes) % queue_count


def _place_by_number(rows: Mask, named: NamedQueues, queues: Sequence[MessageQueue], placing: Placing) -> None:
    """Set the queue of the rows in the mask `rows`, which name one; add a fault for each that names none of `queues`.

    `queues` are the writable queues of the rows' topic.
    """
    brokers = sorted({queue.broker_name for queue in queues})
    known = {brokers.index(queue.broker_name) << 32 | queue.queue_id: place for place, queue in enumerate(queues)}
    wanted = _brokers_of_rows(rows, named.broker_names, brokers) << 32 | named.numbers[rows]
    distinct, which = np.unique(wanted, return_inverse=True)
    chosen = np.array([known.get(queue, ANY_QUEUE) for queue in distinct.tolist()], np.int64)[which]
    placing.queue_of[rows] = chosen
    for row in np.flatnonzero(rows)[chosen == ANY_QUEUE].tolist():
        placing.faults[row] = _fault_of_queue(named, row, queues[0].topic, brokers)


def _brokers_of_rows(rows: Mask, broker_names: pa.Array | None, brokers: Sequence[str]) -> Integers:
    """Return the place in `brokers` of the broker that each row in the mask `rows` names; -1 for another broker.

    For a row that names no broker, this is 0 if there is only one broker, else -1.
    """
    only = np.full(int(np.count_nonzero(rows)), 0 if len(brokers) == 1 else -1, np.int64)
    if broker_names is None:
        return only
    names = pc.fill_null(broker_names.filter(to_arrow(rows)), EMPTY)
    places = pc.index_in(names, pa.array([name.encode() for name in brokers], EMPTY.type))
    given: Integers = pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(sizes_of(names) > 0, given, only)


def _fault_of_queue(named: NamedQueues, row: int, topic: str, brokers: Sequence[str]) -> Fault:
    """Return the fault of a row that names no writable queue; its topic has some at these brokers."""
    number = named.numbers[row]
    name: bytes = (named.broker_names[row].as_py() if named.broker_names is not None else None) or b""
    queue = f"queue {number}" + (f" of {name.decode(errors='backslashreplace')!r:.80}" if name else "")
    if not name and len(brokers) > 1:
        what = f"{queue} exists at several brokers ({', '.join(brokers)}); name one in the column brokerName"
        return Fault("queueId", what)
    what = f"{queue} does not exist or is not writable; the topic has writable queues at {', '.join(brokers)}"
    if not name or not is_utf8(name) or name.decode() in brokers:
        return Fault("queueId", what)
    return Fault("queueId", what, MessageQueue(topic, name.decode(), int(number)))
