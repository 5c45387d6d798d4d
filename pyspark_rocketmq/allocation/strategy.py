"""Define what a strategy is, and check what it is given."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from ..errors import GroupError
from ..model import MessageQueue

__all__ = ["AllocateStrategy", "Members", "Queues", "check_listed", "require_both"]

Queues = Sequence[MessageQueue]
"""Queues in RocketMQ's order."""

Members = Sequence[str]
"""Client ids in Java's order, one per connection."""

_log = logging.getLogger(__name__)


class AllocateStrategy(Protocol):
    """One way to assign queues to members."""

    @property
    def name(self) -> str:
        """Name by which the members of a group agree on the strategy."""

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the queues of one member, in the order in which they are assigned."""

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return the queues of each listed member, as `allocate` does, in one pass over the queues."""


def require_both(queues: Queues, members: Members) -> None:
    """Raise if there are no queues, or no members."""
    if not queues:
        raise GroupError("no queues to allocate", advice="check that the topic's route has readable queues")
    if not members:
        raise GroupError("no members to allocate queues to", advice="check that the broker lists the group's members")


def check_listed(current: str, queues: Queues, members: Members) -> bool:
    """Return whether `current` is listed, and log if not; raise if there is nothing to assign.

    A member that its broker does not list (yet) gets no queue.
    """
    if not current:
        raise GroupError("no client id to allocate queues for", advice="give the member's client id")
    require_both(queues, members)
    listed = current in members
    if not listed:
        _log.warning("%s is not among the %d listed members and gets no queue", current, len(members))
    return listed
