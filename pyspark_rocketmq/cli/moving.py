"""Commit new positions of a group: refuse a move that would not last, and say how to go back, whatever happens.

Brokers take a position from anybody at any time. So a move is refused if the group has live members at any broker of
its topics, or if its positions change while the move is prepared; afterwards both are checked again. From the commit
on, an interruption says that positions may have moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..errors import GroupInUse, RocketMQError
from ..model import MessageQueue
from .asking import fetch_brokers
from .exits import NotFound

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster
    from ..cluster.routes import BrokerEndpoints
    from ..cluster.survey import Surveyed
    from ..wire.bodies import ConsumerConnection
    from .session import Session

__all__ = ["commit", "find_brokers", "require_group", "require_no_members", "require_still_alone", "require_unmoved"]

Positions = Mapping[MessageQueue, int]


def find_brokers(cluster: Cluster, queues: Collection[MessageQueue]) -> list[BrokerEndpoints]:
    """Return the brokers that hold the topics of these queues; members of a group are known at some of them."""
    routes = [cluster.routes.route(topic) for topic in sorted({queue.topic for queue in queues})]
    return list({name: each for route in routes for name, each in route.brokers.items()}.values())


def require_no_members(cluster: Cluster, brokers: Collection[BrokerEndpoints], group: str) -> None:
    """Raise `GroupInUse` if a broker knows live members of the group; raise the error of a broker that does not tell.

    The next commit of a member would overwrite the new positions.
    """
    found = cluster.survey.fetch_connections(brokers, group)
    if members := _list_members(found):
        what = f"{len(members)} live members, for example {members[0]}, would overwrite the new positions"
        raise GroupInUse(what, advice="stop them first", group=group)
    for each in found.values():
        if isinstance(each, RocketMQError):
            each.what += "; the group may have live members there, so nothing was moved"
            raise each


def require_group(session: Session, group: str) -> None:
    """Raise `NotFound` if no broker knows the group: some brokers would create a misspelt one."""
    found = session.cluster.survey.fetch_group_configs(fetch_brokers(session))
    failures = [each for each in found.values() if isinstance(each, RocketMQError)]
    if any(not isinstance(each, RocketMQError) and group in each for each in found.values()):
        return
    if failures:
        session.screen.warn(f"whether group {group} exists is not known: {failures[0]}")
        return
    advice = "check the name: groups list shows all; mqadmin updateSubGroup creates a group"
    raise NotFound(f"no broker knows group {group}, and it has no positions here", advice=advice)


def require_unmoved(cluster: Cluster, group: str, before: Positions, queues: Collection[MessageQueue]) -> None:
    """Raise `GroupInUse` if the group's positions are not those of `before` any more: somebody commits for it."""
    now = cluster.offsets.fetch_committed(group, list(queues))
    if moving := sorted(queue for queue in queues if now.get(queue) != before.get(queue)):
        first = moving[0]
        what = f"the position in {first} went from {before.get(first)} to {now.get(first)} meanwhile; nothing was moved"
        raise GroupInUse(what, advice="stop the client or query that commits for the group, then repeat", group=group)


def commit(session: Session, group: str, positions: Positions, back: str) -> None:
    """Commit the positions, and check that brokers have them; `back` says how to go back.

    An error that is raised says so, and so does the screen if the command is interrupted from now on.
    """
    session.screen.interruption = f"interrupted; some positions may have moved: {back}"
    offsets = session.cluster.offsets
    try:
        offsets.commit(group, positions)
        found = offsets.fetch_committed(group, list(positions))
    except RocketMQError as error:
        error.what += "; some positions may have moved"
        later = "the undo of a repeated command leads only to where the group is now"
        error.advice = "; ".join(filter(None, (error.advice, "then repeat the command", back, later)))
        raise
    if wrong := [queue for queue, offset in positions.items() if found.get(queue) != offset]:
        what = f"{wrong[0]} stands at {found.get(wrong[0])}, not at {positions[wrong[0]]}, right after the move"
        why = "another client commits for the group, or brokers 5.x keep a reset of mqadmin for its next pull"
        raise RocketMQError(what, advice=f"{why}: stop the one, or let the other happen; then repeat, or {back}")
    session.screen.interruption = f"interrupted; the positions have moved: {back}"


def require_still_alone(cluster: Cluster, brokers: Collection[BrokerEndpoints], group: str, back: str) -> None:
    """Raise `GroupInUse` if members joined while positions were moved: they may have begun at the old ones."""
    if members := _list_members(cluster.survey.fetch_connections(brokers, group)):
        what = f"{members[0]} joined while the positions were moved, and may overwrite them"
        raise GroupInUse(what, advice=f"stop it, then repeat, or {back}", group=group)


def _list_members(found: Surveyed[ConsumerConnection]) -> list[str]:
    known = [each for each in found.values() if not isinstance(each, RocketMQError)]
    return sorted({member.client_id for each in known for member in each.connection_set})
