"""What is a query's part in its group?

The two halves of `groupMembership=shared` together: which queues are its own now (`membership`), and where it stands in
them (`group_positions`). One look at both opens every planning, and what follows from it holds until the next.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from ..client.assignment import Assigned
from ..model import MessageQueue
from ..net.deadline import Deadline
from ..offsets.position import Positions
from ..options.reader_options import ReaderOptions, ShareSettings
from .group_positions import FirstOffsets, GroupPositions
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

    def look(self, finished: Positions | None) -> None:
        """See which queues are ours now, and publish what is finished in them; the first look waits for an answer."""
        if not self._has_looked:
            self.member.wait()
            self._has_looked = True
        self._owned = self.member.owned()
        self.positions.keep(self._owned)
        if finished:
            self.positions.note_done(finished)
        self.positions.note_resets(self.member.take_resets())
        self.positions.exchange()

    def select(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Those of the queues that are ours."""
        return [queue for queue in queues if queue in self._owned]

    def starts(self, ready: Collection[MessageQueue], known: Positions, first: FirstOffsets) -> dict[MessageQueue, int]:
        """Where the next batch starts in each queue that is ours; gained ones join when they are `ready`."""
        return self.positions.starts(self._owned, ready, known, first)

    def flush(self, timeout_s: float) -> None:
        """Publish what is finished, as far as that is done in time."""
        self.positions.keep(self.member.owned())
        self.positions.exchange(at_once=True, deadline=Deadline.after(timeout_s))

    def close(self) -> None:
        """Leave the group."""
        self.member.close()
