"""Assign the queues that the user listed, by RocketMQ's strategy CONFIG."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import MessageQueue
from .strategy import Members, Queues

__all__ = ["ByConfig"]


@dataclass(frozen=True, slots=True)
class ByConfig:
    """RocketMQ's CONFIG: every member gets the configured list, whether or not its queues exist."""

    configured: tuple[MessageQueue, ...]
    name: str = "CONFIG"

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """Return the configured list."""
        return list(self.configured)

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """Return the configured list once for each member."""
        return [list(self.configured) for _ in members]
