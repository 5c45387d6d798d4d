"""What may any thread ask about a member at any moment?"""

from __future__ import annotations

from ..pull.process_queue import FlowLimits

__all__ = ["MemberState"]


class MemberState:
    """Flags and limits that change while a member lives; each is replaced as a whole."""

    def __init__(self, limits: FlowLimits) -> None:
        self.is_running = False
        self.is_paused_by_user = False
        self.pending_resets = 0
        """Administrators' resets whose pause is not over; changed on the timer loop alone."""
        self.limits = limits
        """What a queue may hold now; those of the settings, or a topic's limit shared out."""

    @property
    def is_paused(self) -> bool:
        """Whether nothing is pulled, and no queue comes or goes, for the time being."""
        return self.is_paused_by_user or self.pending_resets > 0

    def __repr__(self) -> str:
        state = "running" if self.is_running else "not running"
        return f"<MemberState {state}{', paused' if self.is_paused else ''}, {self.limits}>"
