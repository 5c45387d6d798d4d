"""What is a query's part in its group?

The two halves of `groupMembership=shared` together: which queues are its own now (`membership`), and where it stands in
them (`group_positions`). One look at both opens every planning, and what follows from it holds until the next. What is
finished is published in the same planning, once it is judged by what brokers hold.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from ..client.assignment import Assigned
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..offsets.position import Positions
from ..options.reader_options import ReaderOptions, ShareSettings
from .group_positions import GroupPositions, Places
from .membership import QueryMember

__all__ = ["Share"]


class Share:
    """A query's part in its group. For the planning thread."""

    def __init__(self, options: ReaderOptions, settings: ShareSettings) -> None:
        self.member = QueryMember(options, settings)
        self.positions = GroupPositions(
            self.member.cluster.offsets,
            options.pull.group,
            min_interval_s=options.commit.min_interval_s,
            now_s=time.monotonic,
            note_progress=self.member.note_progress,
            connection_to=self.member.connection_to,
        )
        self._owned: dict[MessageQueue, Assigned] = {}
        self._has_joined = self._has_looked = False

    def __repr__(self) -> str:
        return f"<Share {self.member!r}, {self.positions!r}>"

    @property
    def client_id(self) -> str:
        """As whom the query is known to brokers."""
        return self.member.client_id

    def join(self) -> None:
        """Become a member, once."""
        if not self._has_joined:
            self._has_joined = True
            self.member.join()

    def look(self) -> None:
        """See which queues are ours now, and where the group stands in them; the first look waits for an answer."""
        if not self._has_looked:
            self.member.wait()
            self._has_looked = True
        self._owned = self.member.owned()
        self.positions.keep(self._owned)
        self.positions.note_resets(self.member.take_resets())
        self.positions.ask()

    def acknowledge(self, finished: Positions, fallen: Positions) -> None:
        """Publish what is finished in our queues; `fallen` ones were found to end at these smaller offsets."""
        self.positions.note_done(finished, fallen)
        self.positions.tell()

    def select(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Those of the queues that are ours."""
        return [queue for queue in queues if queue in self._owned]

    def starts(self, ready: Collection[MessageQueue], known: Positions, places: Places) -> dict[MessageQueue, int]:
        """Where the next batch starts in each queue that is ours; gained ones join when they are `ready`."""
        return self.positions.starts(self._owned, ready, known, places)

    def flush(self, timeout_s: float) -> None:
        """Publish what is finished, as far as that is done in time."""
        self.positions.keep(self.member.owned())
        deadline = Deadline.after(timeout_s)
        self.positions.ask(at_once=True, deadline=deadline)
        self.positions.tell(deadline)

    def close(self) -> None:
        """Leave the group."""
        self.member.close()
