"""What if the user fixed the queues?"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import MessageQueue
from .strategy import Members, Queues

__all__ = ["ByConfig"]


@dataclass(frozen=True, slots=True)
class ByConfig:
    """Everybody gets the configured list, whatever queues and members there are; RocketMQ checks nothing here."""

    configured: tuple[MessageQueue, ...]
    name: str = "CONFIG"

    def allocate(self, current: str, queues: Queues, members: Members) -> list[MessageQueue]:
        """The configured list."""
        return list(self.configured)

    def allocate_all(self, queues: Queues, members: Members) -> list[list[MessageQueue]]:
        """The configured list, once per member."""
        return [list(self.configured) for _ in members]
