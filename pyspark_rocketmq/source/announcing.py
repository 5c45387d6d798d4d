"""Describe a read in log lines: what it reads, for which group, and where it starts.

A query logs one line when its start is known, so that a user sees that it works and on what. A batch read logs one when
its tasks are planned.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..errors import shown
from ..model import MessageQueue, QueueBounds, QueueRange
from ..offsets.position import Position, Positions
from ..offsets.requested import AtTime, Everywhere, Keyword, Layer, RequestedOffsets, StartSettings
from ..options.reader_options import ReaderOptions

__all__ = ["describe_batch", "describe_query", "describe_work", "list_names", "log_together"]

_MOST_NAMES = 3
_REST = "; likewise %d more queues, which lines at DEBUG name"


def describe_work(options: ReaderOptions) -> str:
    """Return the topics and the group of a read, as the place of its log lines."""
    selection = options.selection
    names = selection.assignment.topics if selection.assignment else selection.topics
    topics = list_names(names) if selection.pattern is None else f"pattern {shown(selection.pattern)}"
    group = options.commit.group or (options.local.group if options.local else None)
    return f"{topics}, group {shown(group)}" if group else topics


def describe_query(
    options: ReaderOptions, start: Position | None, starts: Positions, bounds: Mapping[MessageQueue, QueueBounds]
) -> str:
    """Return the line about a query whose first batch is planned: what it reads, its group, and where it starts."""
    waiting = sum(max(0, each.max_offset - starts[queue]) for queue, each in bounds.items() if queue in starts)
    unknown_count = len(bounds.keys() - starts.keys())
    others = f", beside those of {unknown_count} queues that cannot be read yet" if unknown_count else ""
    return (
        f"reads {_count_queues(bounds)}; {_describe_group(options)}; {_describe_start(options, start)}; "
        f"at most {waiting} messages to read{others}"
    )


def describe_batch(options: ReaderOptions, ranges: Sequence[QueueRange], task_count: int) -> str:
    """Return the line about a batch read: what it reads, from where to where, and in how many tasks."""
    count = sum(each.end - each.start for each in ranges)
    begin, end = _describe_requested(options.start.requested), _describe_requested(options.end.requested)
    queues = _count_queues({each.queue for each in ranges})
    return f"reads {queues} from {begin} to {end}; at most {count} messages, in {task_count} tasks"


def log_together(log: logging.Logger, level: int, text: str, queues: Sequence[tuple[Any, ...]]) -> None:
    """Log one line about an event that happened to several queues: `text` about the first, and the number of others.

    Lines about the others are at DEBUG. Each item of `queues` has the arguments of `text` for one queue.
    """
    if not queues:
        return
    if len(queues) == 1:
        log.log(level, text, *queues[0])
        return
    log.log(level, text + _REST, *queues[0], len(queues) - 1)
    for each in queues[1:]:
        log.debug(text, *each)


def _count_queues(queues: Collection[MessageQueue]) -> str:
    topics = sorted({queue.topic for queue in queues})
    if not topics:
        return "no queues"
    return f"{len(queues)} {'queue' if len(queues) == 1 else 'queues'} of {list_names(topics)}"


def list_names(names: Collection[str]) -> str:
    """Return the first names of topics, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more topics" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(shown, sorted(names)[:_MOST_NAMES])) + more


def _describe_group(options: ReaderOptions) -> str:
    if options.share:
        return f"is a member of group {shown(options.pull.group)}"
    if options.commit.group:
        return f"commits positions of group {shown(options.commit.group)}"
    if options.local and options.local.publishes:
        return f"keeps positions of group {shown(options.local.group)} in {options.local.directory}"
    return "commits no positions"


def _describe_start(options: ReaderOptions, start: Position | None) -> str:
    requested = _describe_requested(options.start.requested)
    if start is None:
        return f"starts at {requested}"
    if options.share:
        return "goes on from its checkpoint or the group's positions, whichever are larger"
    if _is_default(options.start):
        return "goes on from its checkpoint"
    return f"goes on from its checkpoint, which outranks {requested}"


def _is_default(start: StartSettings) -> bool:
    return start.offsets is Keyword.LATEST and start.time_ms is None and start.times is None


def _describe_requested(requested: RequestedOffsets) -> str:
    """Return the options that choose offsets, highest rank first."""
    texts = [_describe_layer(layer) for layer in requested.layers]
    if requested.fallback and requested.option == "startingOffsets":
        texts.append(f"startingOffsetsDefault={requested.fallback}")
    return ", else ".join(texts)


def _describe_layer(layer: Layer) -> str:
    if not isinstance(layer, Everywhere):
        return f"{layer.option} as given per queue"
    target = layer.everywhere
    return f"{layer.option}={target.time_ms if isinstance(target, AtTime) else target}"
