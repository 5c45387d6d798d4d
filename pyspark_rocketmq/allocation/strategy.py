"""Define the interface of allocation strategies, and check their arguments."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from ..errors import GroupError
from ..model import MessageQueue

__all__ = ["AllocateStrategy", "Members", "Queues", "check_listed", "require_both"]

Queues = Sequence[MessageQueue]
"""Queues in RocketMQ's sort order."""

Members = Sequence[str]
"""Client ids in Java's sort order; a client with several connections is listed several times."""

_log = logging.getLogger(__name__)


class AllocateStrategy(Protocol):
    """A way to assign queues to members."""

    @property
    def name(self) -> str:
        """Name of the strategy; all members of a group must use the same one."""

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of the member `current`, in the order in which they are assigned."""

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return for each of `members`, in order, what `allocate` returns; this takes one pass over the queues."""


def require_both(queues: Queues, members: Members) -> None:
    """Raise if the list of queues or the list of members is empty."""
    if not queues:
        raise GroupError("no queues to allocate", advice="check that the topic's route has readable queues")
    if not members:
        raise GroupError("no members to allocate queues to", advice="check that the broker lists the group's members")


def check_listed(current: str, queues: Queues, members: Members) -> bool:
    """Return whether `current` is among the members, and log a warning if not; raise if any argument is empty.

    A member that its broker does not list (yet) gets no queue.
    """
    if not current:
        raise GroupError("no client id to allocate queues for", advice="give the member's client id")
    require_both(queues, members)
    listed = current in members
    if not listed:
        _log.warning("%s is not among the %d listed members and gets no queue", current, len(members))
    return listed
