"""Find, write and read positions: the offsets of queues that a user names by word, time, group or file.

The JSON is that of the option `startingOffsets`: topic → broker → queue id → offset. Files of positions have it under
`positions`, beside the group and the time; a file with the JSON alone is read, too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..model import MessageQueue

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster
    from ..offsets.requested import Layer, QueueTree

__all__ = ["nest", "read_file", "readable_queues", "resolve", "resolve_file"]

_MOST_BYTES = 64 * 1024 * 1024
WHERE = "earliest, latest, a time (-2h, 2026-01-31T00:00:00Z) or group:NAME"


def nest(positions: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Return positions as the JSON of `startingOffsets`."""
    from ..offsets.position import Position, position_json

    nested: dict[str, dict[str, dict[str, int]]] = position_json(Position(positions))["next"]
    return nested


def readable_queues(cluster: Cluster, topics: Collection[str]) -> list[MessageQueue]:
    """Return the readable queues of topics; raise if one does not exist."""
    return [queue for topic in dict.fromkeys(topics) for queue in cluster.routes.route(topic).readable]


def resolve(
    cluster: Cluster, queues: Sequence[MessageQueue], option: str, where: str, *, now_ms: int
) -> dict[MessageQueue, int]:
    """Return the offset of each queue to which a text leads: `earliest`, `latest`, a time, or `group:NAME`.

    A time later than the last message means the end of the queue; a queue in which the group has no position is left
    out. Raise `OptionError` for any other text.
    """
    kind, colon, other = where.partition(":")
    if kind.lower() == "group" and colon:
        return cluster.offsets.fetch_committed(other, queues)
    return _resolve(cluster, queues, option, _everywhere(option, where, now_ms))


def resolve_file(cluster: Cluster, tree: QueueTree, path: str) -> dict[MessageQueue, int]:
    """Return the offset of each queue that a file of positions names; raise if one is missing or out of range."""
    topics = sorted({place.topic for place in tree.targets})
    queues = readable_queues(cluster, topics)
    tree.require_known(queues)
    named = [queue for queue in queues if tree.target(queue) is not None]
    positions = _resolve(cluster, named, path, tree)
    for queue, bounds in cluster.offsets.fetch_bounds(named).items():
        if not bounds.min_offset <= positions[queue] <= bounds.max_offset:
            what = f"offset {positions[queue]} of {queue} lies outside {bounds.min_offset}..{bounds.max_offset}"
            raise OptionError("FILE", path, what, advice="correct the file; -2 means earliest, -1 latest")
    return positions


def read_file(path: str) -> QueueTree:
    """Return the positions in a file, as `offsets export` writes it, or as the value of `startingOffsets`."""
    from ..offsets.requested import Keyword, QueueTree
    from ..offsets.strict_json import parse_json
    from ..options.queue_json import read_offsets
    from ..options.values import OptionText

    content = parse_json(_read_text(path), "FILE")
    tree: Any = content.get("positions", content) if isinstance(content, dict) else content
    found = read_offsets(OptionText("FILE", json.dumps(tree)), (Keyword.EARLIEST, Keyword.LATEST))
    if not isinstance(found, QueueTree) or not found.targets:
        raise OptionError("FILE", path, "no positions", advice="give a file that offsets export has written")
    return found


def _read_text(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as cause:
        why = cause.strerror if isinstance(cause, OSError) else "not UTF-8"
        raise OptionError("FILE", path, f"unreadable: {why}", advice="check the path") from None
    if len(text) > _MOST_BYTES:
        raise OptionError("FILE", path, f"more than {_MOST_BYTES} characters", advice="give a smaller file")
    return text


def _everywhere(option: str, where: str, now_ms: int) -> Layer:
    from ..offsets.requested import AtTime, Everywhere, Keyword
    from ..options.values import OptionText, read_time_ms

    words = {"earliest": Keyword.EARLIEST, "latest": Keyword.LATEST}
    if where.lower() in words:
        return Everywhere(option, words[where.lower()])
    try:
        return Everywhere(option, AtTime(read_time_ms(OptionText(option, where, now_ms))))
    except OptionError as error:
        error.advice = f"give {WHERE}; {error.advice}"
        raise


def _resolve(cluster: Cluster, queues: Sequence[MessageQueue], option: str, layer: Layer) -> dict[MessageQueue, int]:
    from ..offsets.requested import Keyword, RequestedOffsets
    from ..offsets.resolve import resolve_offsets
    from ..source.view import BrokerView

    view = BrokerView(cluster, None)
    requested = RequestedOffsets(option, (layer,), if_too_young=Keyword.LATEST)
    return resolve_offsets(requested, queues, view.fetch_bounds(queues), view).positions
