"""Find, write and read positions: the offsets of queues that a user names by word, time, group or file.

The JSON is that of the option `startingOffsets`: topic → broker → queue id → offset. Files of positions have it under
`positions`, beside the group and the time; a file with the JSON alone is read, too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import OptionError, RocketMQError
from ..model import MessageQueue

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster
    from ..offsets.requested import Everywhere, Layer, QueueTree

__all__ = [
    "Origin",
    "PositionsFile",
    "nest",
    "read_file",
    "readable_queues",
    "require_origin",
    "resolve",
    "resolve_file",
    "resolve_time",
]


class Origin(NamedTuple):
    """The cluster from which positions come."""

    name_servers: tuple[str, ...]
    clusters: tuple[str, ...]


class PositionsFile(NamedTuple):
    """The content of a file of positions."""

    tree: QueueTree
    origin: Origin | None
    """None if the file does not tell."""
    is_export: bool
    """Whether a command has written the positions, not a person."""


_OLDEST_MS = 10**11
"""A time in 1973: a smaller number, other than 0, is one of seconds, or a date without dashes."""
_MOST_BYTES = 64 * 1024 * 1024
_TIME = "earliest, latest or a time (-2h, 2026-01-31T00:00:00Z)"
WHERE = "earliest, latest, a time (-2h, 2026-01-31T00:00:00Z) or group:NAME"
"""The places to which `resolve` leads."""


def nest(positions: Mapping[MessageQueue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Return positions as the JSON of `startingOffsets`."""
    from ..offsets.position import Position, position_json

    nested: dict[str, dict[str, dict[str, int]]] = position_json(Position(positions))["next"]
    return nested


def readable_queues(cluster: Cluster, topics: Collection[str]) -> list[MessageQueue]:
    """Return the readable queues of topics; raise if one does not exist."""
    return [queue for topic in dict.fromkeys(topics) for queue in cluster.routes.route(topic).readable]


def resolve(
    cluster: Cluster,
    queues: Sequence[MessageQueue],
    option: str,
    where: str,
    *,
    now_ms: int,
    warn: Callable[[str], None],
) -> dict[MessageQueue, int]:
    """Return the offset of each queue to which a text leads: `earliest`, `latest`, a time, or `group:NAME`.

    A queue in which the group has no position is left out. A position outside its queue, a time in the future, and a
    time where a broker has another clock are taken with a warning. Raise `OptionError` for any other text.
    """
    from ..offsets.requested import AtTime

    kind, colon, other = where.partition(":")
    if kind.lower() != "group" or not colon:
        place = _read_place(option, where, now_ms, WHERE)
        if isinstance(place.everywhere, AtTime):
            _warn_of_clocks(cluster, queues, now_ms, warn)
            if place.everywhere.time_ms > now_ms:
                warn(f"{where} is in the future: it means the end of each queue")
        return _resolve(cluster, queues, option, place)
    positions = cluster.offsets.fetch_committed(other, queues)
    _warn_of_outside(list(_find_outside(cluster, positions)), warn)
    return positions


def _warn_of_clocks(
    cluster: Cluster, queues: Collection[MessageQueue], now_ms: int, warn: Callable[[str], None]
) -> None:
    """Warn of brokers whose clock differs from the one here; `now_ms` is the time now."""
    from ..cluster.clocks import describe_skew, skew_ms
    from .moving import find_brokers

    began_s = time.monotonic()
    names = {queue.broker_name for queue in queues}
    brokers = [each for each in find_brokers(cluster, queues) if each.broker_name in names]
    found = cluster.survey.fetch_master_infos(brokers)
    answered_ms = now_ms + int(1000 * (time.monotonic() - began_s))
    for name, figures in found.items():
        skew = 0 if isinstance(figures, RocketMQError) else skew_ms(figures, now_ms, answered_ms) or 0
        if difference := describe_skew(skew):
            warn(f"the clock of {name} is {difference}; times of messages are by it")


def resolve_time(
    cluster: Cluster, queues: Sequence[MessageQueue], option: str, where: str, *, now_ms: int
) -> dict[MessageQueue, int]:
    """Return the offset of each queue to which a text leads: `earliest`, `latest` or a time.

    A time later than the last message means the end of the queue. Raise `OptionError` for any other text.
    """
    return _resolve(cluster, queues, option, _read_place(option, where, now_ms, _TIME))


def resolve_file(
    cluster: Cluster, content: PositionsFile, path: str, warn: Callable[[str], None]
) -> dict[MessageQueue, int]:
    """Return the offset of each queue that a file of positions names; raise if a queue does not exist.

    An offset outside its queue is taken with a warning if a command has exported it, since a group may stand there:
    retention has passed it, or the topic was created again. Else it is a mistake: raise.
    """
    tree = content.tree
    topics = sorted({place.topic for place in tree.targets})
    queues = readable_queues(cluster, topics)
    try:
        tree.require_known(queues)
    except OptionError as error:
        if content.is_export:
            error.advice = f"bring its broker back, or {error.advice}"
        raise
    named = [queue for queue in queues if tree.target(queue) is not None]
    positions = _resolve(cluster, named, path, tree)
    # The others are words, which were just resolved: retention may have moved the front since.
    numbers = {queue: offset for queue, offset in positions.items() if isinstance(tree.target(queue), int)}
    outside = list(_find_outside(cluster, numbers))
    if outside and not content.is_export:
        raise OptionError("FILE", path, outside[0], advice="correct the file; -2 means earliest, -1 latest")
    _warn_of_outside(outside, warn)
    return positions


def _find_outside(cluster: Cluster, positions: Mapping[MessageQueue, int]) -> Iterator[str]:
    for queue, (low, high, _) in cluster.offsets.fetch_bounds(list(positions)).items():
        if not low <= positions[queue] <= high:
            yield f"offset {positions[queue]} of {queue} lies outside {low}..{high}"


def _warn_of_outside(outside: Sequence[str], warn: Callable[[str], None]) -> None:
    if outside:
        warn(
            f"{outside[0]} (of {len(outside)} such offsets): a reader starts at the first message that is left, and "
            "skips messages before an offset that lies after the end"
        )


def read_file(path: str) -> PositionsFile:
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
    is_export = tree is not content
    return PositionsFile(found, _read_origin(content, path) if is_export else None, is_export)


def _read_origin(content: Mapping[str, Any], path: str) -> Origin | None:
    if "nameServers" not in content and "clusters" not in content:
        return None
    return Origin(_read_names(content, "nameServers", path), _read_names(content, "clusters", path))


def _read_names(content: Mapping[str, Any], member: str, path: str) -> tuple[str, ...]:
    names = content.get(member)
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise OptionError("FILE", path, f"{member} is not an array of names", advice="correct the file")
    return tuple(names)


def require_origin(origin: Origin, here: Origin, path: str) -> None:
    """Raise `OptionError` if positions come from another cluster: no name server in common, or another name."""
    if set(origin.name_servers) & set(here.name_servers) and set(origin.clusters) <= set(here.clusters):
        return
    what = f"the positions are those of {_describe(origin)}, and this is {_describe(here)}"
    advice = "name that cluster with --name-server; --from-other-cluster moves the group here all the same"
    raise OptionError("FILE", path, what, advice=advice)


def _describe(origin: Origin) -> str:
    return f"cluster {', '.join(origin.clusters) or '?'} at {';'.join(origin.name_servers) or '?'}"


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


def _read_place(option: str, where: str, now_ms: int, accepted: str) -> Everywhere:
    from ..offsets.requested import AtTime, Everywhere, Keyword
    from ..options.values import OptionText, read_time_ms
    from .values import moment

    words = {"earliest": Keyword.EARLIEST, "latest": Keyword.LATEST}
    if where.lower() in words:
        return Everywhere(option, words[where.lower()])
    try:
        time_ms = read_time_ms(OptionText(option, where, now_ms))
    except OptionError as error:
        error.advice = f"give {accepted}; {error.advice}"
        raise
    if 0 < time_ms < _OLDEST_MS:
        what = f"{moment(time_ms)}, which is before all messages"
        raise OptionError(option, where, what, advice=f"give {accepted}; a number counts milliseconds, not seconds")
    return Everywhere(option, AtTime(time_ms))


def _resolve(cluster: Cluster, queues: Sequence[MessageQueue], option: str, layer: Layer) -> dict[MessageQueue, int]:
    from ..offsets.requested import Keyword, RequestedOffsets
    from ..offsets.resolve import resolve_offsets
    from ..source.view import BrokerView

    view = BrokerView(cluster, None)
    requested = RequestedOffsets(option, (layer,), if_too_young=Keyword.LATEST)
    return resolve_offsets(requested, queues, view.fetch_bounds(queues), view).positions
