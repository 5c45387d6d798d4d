"""What is a strategy, and when may it not answer?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from ..errors import GroupError
from ..model import MessageQueue

__all__ = ["AllocateStrategy", "Members", "Queues", "is_listed", "require_both"]

Queues = Sequence[MessageQueue]
"""In RocketMQ's order."""

Members = Sequence[str]
"""Client ids in Java's order, one per connection."""

_log = logging.getLogger(__name__)


class AllocateStrategy(Protocol):
    """One way to divide queues among members."""

    @property
    def name(self) -> str:
        """The name by which the members of a group agree on it."""

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """The share of one member, in dealing order."""

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """The share of each listed member, as `allocate` gives it, in one pass over the queues."""


def require_both(queues: Queues, members: Members) -> None:
    """Refuse to divide nothing, or among nobody."""
    if not queues:
        raise GroupError("no queues to allocate", advice="check that the topic's route has readable queues")
    if not members:
        raise GroupError("no members to allocate queues to", advice="check that the broker lists the group's members")


def is_listed(current: str, queues: Queues, members: Members) -> bool:
    """Whether `current` takes part at all; a member that its broker does not list (yet) owns nothing."""
    if not current:
        raise GroupError("no client id to allocate queues for", advice="give the member's client id")
    require_both(queues, members)
    listed = current in members
    if not listed:
        _log.warning("%s is not among the %d listed members and gets no queue", current, len(members))
    return listed
