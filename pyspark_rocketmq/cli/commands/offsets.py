"""Show, find, move, export and import positions of consumer groups."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OptionError, RocketMQError
from ...model import MessageQueue, sort_queues
from ..asking import fetch_brokers
from ..command import Command, Parameter
from ..exits import Exit, NotFound
from ..moving import commit, find_brokers, require_group, require_no_members, require_still_alone, require_unmoved
from ..positions import WHERE, Origin, nest, read_file, readable_queues, require_origin, resolve, resolve_file
from ..state_files import state_folder
from ..values import Moment, moment
from ..views import Column, Note, Table, Text, View, show_count

if TYPE_CHECKING:
    from ...cluster.routes import BrokerEndpoints
    from ..session import Session

__all__ = ["COMMANDS"]

Nested = dict[str, dict[str, dict[str, int]]]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A group's position in one queue, and the queue's bounds."""

    topic: str
    broker: str
    queue_id: int
    position: int | None
    """The next offset to read; null if the group has no position in the queue."""
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The positions of a group."""

    group: str
    queues: tuple[GroupOffset, ...]


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Offsets of all queues of topics, as the option `startingOffsets` takes them."""

    starting_offsets: Nested


@dataclass(frozen=True, slots=True)
class Export:
    """The positions of a group at one moment, for `offsets import`."""

    group: str
    at: Moment
    name_servers: tuple[str, ...]
    clusters: tuple[str, ...]
    """The names of the clusters that the brokers belong to."""
    positions: Nested


@dataclass(frozen=True, slots=True)
class Move:
    """The move of a group's position in one queue."""

    topic: str
    broker: str
    queue_id: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The moves of a group's positions; without `applied` they were only shown."""

    group: str
    applied: bool
    queues: int
    """Number of queues that were to be moved, with those that stand there already."""
    brokers: tuple[str, ...]
    """The brokers of these queues; a broker that is not registered, or serves no reads, is not among them."""
    moves: tuple[Move, ...]
    undo_file: str | None
    """The file with the positions before; null if nothing was moved."""
    undo: str | None
    """The command that moves the group back."""


# --- show, at, export ------------------------------------------------------------------------------------------------


def _show(session: Session, group: str, topic: tuple[str, ...]) -> GroupOffsets:
    cluster = session.cluster
    queues = readable_queues(cluster, topic or _topics_of(session, group))
    positions = cluster.offsets.fetch_committed(group, queues)
    bounds = cluster.offsets.fetch_bounds(queues)
    return GroupOffsets(
        group,
        tuple(
            GroupOffset(*queue, positions.get(queue), bounds[queue].min_offset, bounds[queue].max_offset)
            for queue in sort_queues(queues)
        ),
    )


def _topics_of(session: Session, group: str) -> list[str]:
    """Return the topics in which a group has positions; raise if it has none, or if a broker does not tell."""
    brokers = fetch_brokers(session)
    found = session.cluster.survey.fetch_consume_stats(brokers, group)
    for each in found.values():
        if isinstance(each, RocketMQError):
            raise each
    topics = {queue.topic for table in found.values() if not isinstance(table, RocketMQError) for queue in table}
    topics |= _find_hidden(session, brokers, group, topics)
    if not topics:
        raise NotFound(f"no broker has a position of group {group}", advice="check the name: groups list shows all")
    return sorted(topics)


def _find_hidden(
    session: Session, brokers: Collection[BrokerEndpoints], group: str, shown: Collection[str]
) -> set[str]:
    """Return further topics of a group, which statistics leave out while it has members; warn where none can be had."""
    survey, warn = session.cluster.survey, session.screen.warn
    told = survey.fetch_topics_of_group(brokers, group)
    refusing = [each for each in brokers if isinstance(told[each.broker_name], RocketMQError)]
    for name, members in survey.fetch_connections(refusing, group).items():
        if isinstance(members, RocketMQError) or members.connection_set:
            warn(
                f"{name} tells only of topics to which live members of the group subscribe, if it has any: "
                "name others with --topic"
            )
    hidden = {topic for each in told.values() if not isinstance(each, RocketMQError) for topic in each} - set(shown)
    # Positions stay behind when a topic is deleted.
    return {topic for topic in hidden if session.cluster.routes.has(topic)}


def _show_offsets(found: GroupOffsets) -> list[View]:
    columns = (
        Column("topic"),
        Column("broker"),
        Column("queue", is_number=True),
        Column("position", is_number=True),
        Column("min", is_number=True),
        Column("max", is_number=True),
    )
    rows = [
        (
            each.topic,
            each.broker,
            str(each.queue_id),
            "none" if each.position is None else str(each.position),
            str(each.min_offset),
            str(each.max_offset),
        )
        for each in found.queues
    ]
    return [Table(columns, rows)]


def _at(session: Session, when: str, topic: tuple[str, ...]) -> StartingOffsets:
    queues = readable_queues(session.cluster, topic)
    warn = session.screen.warn
    return StartingOffsets(nest(resolve(session.cluster, queues, "WHEN", when, now_ms=session.now_ms(), warn=warn)))


def _show_starting(found: StartingOffsets) -> list[View]:
    from ..documents import write_json

    return [Text(write_json(found.starting_offsets, is_ascii=True))]


def _export(session: Session, group: str, topic: tuple[str, ...]) -> Export:
    queues = readable_queues(session.cluster, topic or _topics_of(session, group))
    positions = session.cluster.offsets.fetch_committed(group, queues)
    if not positions:
        raise NotFound(f"group {group} has no position in these topics", advice="check the names")
    return _exported(session, group, positions)


def _exported(session: Session, group: str, positions: Mapping[MessageQueue, int]) -> Export:
    origin = _find_origin(session, {queue.broker_name for queue in positions})
    return Export(group, moment(session.now_ms()), origin.name_servers, origin.clusters, nest(positions))


def _find_origin(session: Session, brokers: Collection[str] | None = None) -> Origin:
    """Return which cluster this is; with `brokers`, only the names of the clusters to which these belong."""
    found = session.cluster.survey.fetch_brokers()
    clusters = {each.cluster for each in found if brokers is None or each.broker_name in brokers}
    return Origin(session.name_servers, tuple(sorted(clusters)))


def _show_export(found: Export) -> list[View]:
    from ..documents import write_json

    return [Text(write_json(found, indent=2, is_ascii=True))]


# --- seek, import ----------------------------------------------------------------------------------------------------


def _seek(session: Session, group: str, topic: tuple[str, ...], to: str, apply: bool, undo_file: str | None) -> Moved:
    queues = readable_queues(session.cluster, topic)
    wanted = resolve(session.cluster, queues, "--to", to, now_ms=session.now_ms(), warn=session.screen.warn)
    if not wanted:
        raise NotFound(f"{to} has no position in {', '.join(topic)}", advice="offsets show prints a group's positions")
    return _move(session, group, wanted, apply, undo_file)


def _import(
    session: Session, group: str, file: str, apply: bool, undo_file: str | None, from_other_cluster: bool
) -> Moved:
    content = read_file(file)
    if content.origin is not None and not from_other_cluster:
        require_origin(content.origin, _find_origin(session), file)
    wanted = resolve_file(session.cluster, content, file, session.screen.warn)
    return _move(session, group, wanted, apply, undo_file)


def _move(
    session: Session, group: str, wanted: Mapping[MessageQueue, int], apply: bool, undo_file: str | None
) -> Moved:
    """Move a group to the wanted positions, or only show the moves; in both cases first check that it may be moved."""
    cluster = session.cluster
    brokers = find_brokers(cluster, wanted)
    require_no_members(cluster, brokers, group)
    before = cluster.offsets.fetch_committed(group, list(wanted))
    if not any(before.values()):  # Brokers before 5.0 report 0 where there is no position.
        require_group(session, group)
    changed = {queue: wanted[queue] for queue in sort_queues(wanted) if before.get(queue) != wanted[queue]}
    moves = tuple(Move(*queue, before.get(queue), after) for queue, after in changed.items())
    names = tuple(sorted({queue.broker_name for queue in wanted}))
    if not apply or not moves:
        return Moved(group, False, len(wanted), names, moves, None, None)
    path = _apply(session, group, brokers, before, changed, undo_file)
    undo = _undo_command(session, group, path) if path else None
    return Moved(group, True, len(wanted), names, moves, str(path) if path else None, undo)


def _apply(
    session: Session,
    group: str,
    brokers: Collection[BrokerEndpoints],
    before: Mapping[MessageQueue, int],
    changed: Mapping[MessageQueue, int],
    undo_file: str | None,
) -> Path | None:
    """Commit the changed positions; return the file with the positions before, None if there were none."""
    cluster = session.cluster
    old = {queue: before[queue] for queue in changed if queue in before}
    path = _write_undo(session, group, old, undo_file) if old else None
    back = _way_back(session, group, path, len(changed) - len(old))
    try:
        require_unmoved(cluster, group, before, changed)
    except RocketMQError:
        if path:
            path.unlink(missing_ok=True)
        raise
    if path:
        # Whatever becomes of the output and of this process, the way back was told.
        session.screen.warn(f"positions before are kept; {back}")
    commit(session, group, changed, back)
    require_still_alone(cluster, brokers, group, back)
    return path


def _way_back(session: Session, group: str, path: Path | None, staying: int) -> str:
    """Return in words how to go back; `staying` queues have no position to go back to."""
    if path is None:
        return "there was no position to go back to"
    back = f"go back with: {_undo_command(session, group, path)}"
    return f"{_staying(staying)}; {back}" if staying else back


def _staying(count: int) -> str:
    return f"{count} queues without a position before stay where they are moved"


def _undo_command(session: Session, group: str, path: Path) -> str:
    words = ("pyspark-rocketmq", "offsets", "import", group, str(path), "--apply")
    return shlex.join((*words, *session.connection_words()))


def _write_undo(session: Session, group: str, positions: Mapping[MessageQueue, int], given: str | None) -> Path:
    """Write a new file that only its owner may read, with the positions before the move; return its path."""
    from ..documents import write_json

    content = write_json(_exported(session, group, positions), indent=2)
    path = Path(given).absolute() if given else _undo_folder() / f"{group}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.json"
    try:
        if not given:
            path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as cause:
        what = f"the undo file could not be written ({cause.strerror}), so nothing was moved"
        raise OptionError("--undo-file", str(path), what, advice="give the path of a new file") from None
    return path


def _undo_folder() -> Path:
    try:
        return state_folder("undo")
    except RuntimeError:
        what = "there is no home directory for the undo file, so nothing was moved"
        raise OptionError("--undo-file", None, what, advice="give --undo-file, or set XDG_STATE_HOME") from None


def _verdict(moved: Moved, values: dict[str, Any]) -> int:
    return Exit.NEEDS_APPLY if moved.moves and not moved.applied else Exit.DONE


def _show_moved(moved: Moved) -> list[View]:
    where = f"{show_count(moved.queues, 'queue')} at {', '.join(moved.brokers)}"
    if not moved.moves:
        return [Note(f"group {moved.group} stands there already in {where}: nothing to move")]
    columns = (
        Column("topic"),
        Column("broker"),
        Column("queue", is_number=True),
        Column("from", is_number=True),
        Column("to", is_number=True),
        Column("by", is_number=True),
    )
    rows = [_move_row(each) for each in moved.moves]
    views: list[View] = [Table(columns, rows)]
    views.append(Note(f"{len(moved.moves)} of {where}"))
    if not moved.applied:
        return [*views, Note("nothing was moved; --apply does it", is_warning=True)]
    if moved.undo is None:
        return [*views, Note("moved; there was no position before")]
    if staying := sum(each.before is None for each in moved.moves):
        views.append(Note(f"the undo is not complete: {_staying(staying)}", is_warning=True))
    # The command is no part of the note, which a terminal folds: folded, it could not be copied.
    return [*views, Note("moved; undo:"), Text(moved.undo)]


def _move_row(move: Move) -> tuple[str, ...]:
    before = "none" if move.before is None else str(move.before)
    by = "" if move.before is None else f"{move.after - move.before:+d}"
    return move.topic, move.broker, str(move.queue_id), before, str(move.after), by


_GROUP = Parameter("GROUP", "consumer group", is_required=True)
_SOME_TOPICS = Parameter("--topic", "only this topic", is_repeatable=True, metavar="TOPIC")
_TOPICS = Parameter("--topic", "topic", is_repeatable=True, is_required=True, metavar="TOPIC")
_APPLY = Parameter("--apply", "do it; without this, only show what would be done, and exit with 6", bool)
_UNDO = Parameter(
    "--undo-file",
    "new file for the positions before (default: a file in ~/.local/state/pyspark-rocketmq/undo)",
    metavar="FILE",
)
_MOVING = (
    "A group with live members is refused, because they would overwrite the positions. Spark queries that commit for "
    "the group, and members behind a proxy in cluster mode, are not seen: stop them, too. A query with a checkpoint "
    "continues from its checkpoint in any case. With --apply the positions before are written to a file first, and "
    "the command that goes back is printed. A position that a group did not have before cannot be taken away again. "
    "Queues of a broker that is not registered, or serves no reads, are not moved; the brokers that are moved at are "
    "listed."
)

COMMANDS = (
    Command(
        "offsets show",
        GroupOffsets,
        _show,
        _show_offsets,
        parameters=(_GROUP, _SOME_TOPICS),
        details="Without --topic, all topics in which the group has a position.",
        examples=("pyspark-rocketmq offsets show billing",),
    ),
    Command(
        "offsets at",
        StartingOffsets,
        _at,
        _show_starting,
        parameters=(Parameter("WHEN", WHERE, is_required=True), _TOPICS),
        details="Prints the JSON that the option startingOffsets takes. A time means the first message stored at or "
        "after it by its broker's clock, in a queue without one the end.",
        examples=(
            "pyspark-rocketmq offsets at -2h --topic orders",
            "pyspark-rocketmq offsets at earliest --topic orders",
        ),
    ),
    Command(
        "offsets seek",
        Moved,
        _seek,
        _show_moved,
        parameters=(
            _GROUP,
            _TOPICS,
            Parameter("--to", WHERE, is_required=True, metavar="WHERE"),
            _APPLY,
            _UNDO,
        ),
        details="Moves the group's positions in all queues of the topics. A time means the first message stored at or "
        f"after it by its broker's clock, in a queue without one the end. {_MOVING}",
        examples=("pyspark-rocketmq offsets seek billing --topic orders --to group:billing",),
        verdict=_verdict,
    ),
    Command(
        "offsets export",
        Export,
        _export,
        _show_export,
        parameters=(_GROUP, _SOME_TOPICS),
        details="Prints the JSON that offsets import reads. Queues in which the group has no position, and those of a "
        "broker that is not registered or serves no reads, are not in it.",
        examples=("pyspark-rocketmq offsets export billing",),
    ),
    Command(
        "offsets import",
        Moved,
        _import,
        _show_moved,
        parameters=(
            _GROUP,
            Parameter("FILE", "file of positions: from offsets export, or JSON of startingOffsets", is_required=True),
            _APPLY,
            _UNDO,
            Parameter("--from-other-cluster", "accept a file that was written at another cluster", bool),
        ),
        details="Moves the group's positions in the queues that the file names. A file from another cluster is "
        "refused: one with other name servers, or with another cluster's name. An offset outside its queue is taken "
        f"with a warning from a file that a command has written, and refused in others. {_MOVING}",
        examples=("pyspark-rocketmq offsets import billing positions.json",),
        verdict=_verdict,
    ),
)
