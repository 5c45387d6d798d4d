"""Compare a replica's message with its master's before a range is read from the replica.

A replica copies its master's commit log, so a message lies at the same offset of both logs. But when a topic is
deleted at the master, the replica keeps the messages. If the topic is created again, the replica returns old messages
at offsets at which the master has new ones; new messages follow at higher offsets only. So one comparison, at the
lowest offset that a range still lacks, holds for the rest of the range.

A comparison is two pulls without the filter, one at the replica and one at the master. They are ordinary pulls in
flight. Until both outcomes are there, and if one of the pulls fails or cannot be sent, the range is read from the
master. If there is no master, nothing is compared.
"""

from __future__ import annotations

import logging
from collections import deque

from ..cluster.broker import Brokers
from ..cluster.routes import BrokerEndpoint, BrokerEndpoints
from ..model import MessageQueue
from .port import PullOutcome, PullRequest
from .probe import find_stored, is_readable

__all__ = ["Comparison", "ReplicaCheck"]

_DIFFERENT = (
    "%s: the replica %s and its master %s have different messages at offset %d (commit-log offsets %d and %d), as if "
    "the topic was deleted and created again; reading from the master"
)
_log = logging.getLogger(__name__)


class Comparison(PullRequest):
    """A pull of one offset without the filter, at a replica or its master, to compare their messages."""


class ReplicaCheck:
    """Decides from which replicas one range may be read; each replica is compared with its master once."""

    def __init__(self, queue: MessageQueue, brokers: Brokers) -> None:
        self._queue = queue
        self._brokers = brokers
        self._may_be_read: dict[BrokerEndpoint, bool] = {}
        self._replica: BrokerEndpoint | None = None
        """The replica that is being compared, or was compared last."""
        self._master: BrokerEndpoint | None = None
        self._offset = 0
        self._found: dict[BrokerEndpoint, int | None] = {}
        """The commit-log offset of the message that each of the two processes has at `_offset`; None if it has none."""
        self.due: deque[BrokerEndpoint] = deque()
        """The processes to which pulls of the comparison are still to be sent."""

    def choose(self, replica: BrokerEndpoint, broker: BrokerEndpoints, offset: int) -> BrokerEndpoint:
        """Return `replica` if its comparison allows reading it, or if `broker` has no master; else return the master.

        If the replica was not compared before, begin its comparison at `offset`, the lowest one that the range still
        lacks.
        """
        master = next((each for each in broker.endpoints if each.is_master), None)
        if master is None or self._may_be_read.get(replica):
            return replica
        if replica not in self._may_be_read and replica != self._replica:
            self._replica, self._master, self._offset, self._found = replica, master, offset, {}
            self.due.clear()
            self.due.extend((replica, master))
        return master

    def take_request(self) -> Comparison:
        """Return the pull to be sent to the first process in `due`, and remove this process from `due`."""
        self.due.popleft()
        return Comparison(self._offset, self._offset + 1)

    def accept(self, request: Comparison, endpoint: BrokerEndpoint, outcome: PullOutcome) -> bool:
        """Note the outcome of one pull of a comparison; return whether the comparison allows reading the replica."""
        replica, master = self._replica, self._master
        if replica is None or master is None or request.start != self._offset or endpoint not in (replica, master):
            return False  # Another comparison has begun meanwhile.
        stored = find_stored(outcome) if is_readable(self._offset, outcome) else None
        self._found[endpoint] = stored.physical_offset if stored else None
        if len(self._found) == 2:
            self._may_be_read[replica] = self._judge(replica, master)
        return self._may_be_read.get(replica, False)

    def _judge(self, replica: BrokerEndpoint, master: BrokerEndpoint) -> bool:
        """Return whether the replica has a message at the compared offset, and its master the same message or none.

        If so, the replica may be read. In a compacted topic its message may differ from the master's.
        """
        copy, original = self._found[replica], self._found[master]
        if copy is None or original is None or copy == original:
            return copy is not None
        if self._brokers.compacted.is_compacted(self._queue.topic, self._queue.broker_name):
            return True  # Compaction may have left different messages at two processes.
        _log.warning(_DIFFERENT, self._queue, replica.address, master.address, self._offset, copy, original)
        return False
