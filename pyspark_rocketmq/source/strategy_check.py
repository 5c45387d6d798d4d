"""Warn if another member of the group assigns queues to members by another strategy.

Brokers know nothing of strategies. But they pass an administrator's request for running info on to a member, and
Java's consumers and the members of this library name their strategy there. Each other member is asked once, one after
each round of rebalancing, because a member that does not answer takes seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from ..allocation.strategy_names import parse_strategy
from ..broker_errors import NoPermission
from ..client.running_info import STRATEGY_PROPERTY
from ..cluster.cluster import Cluster
from ..errors import OptionError, RocketMQError, shown
from ..net.deadline import Deadline

__all__ = ["StrategyCheck"]

_TIMEOUT_S = 3.0
_DIFFERENT = (
    "the members of group %s disagree: %s assigns queues by %.100r, this member by %r, so that some queues are read by "
    "two members and others by none; set allocateMessageQueueStrategy alike in all members"
)
_log = logging.getLogger(__name__)


class StrategyCheck:
    """Compares this member's allocation strategy with those of the group's other members. Used by one thread."""

    def __init__(self, cluster: Cluster, group: str, client_id: str, strategy: str) -> None:
        self._cluster = cluster
        self._group = group
        self._client_id = client_id
        self._strategy = _plain_name(strategy)
        self._asked: set[str] = set()
        self._may_ask = True

    def ask_one(self, members: Collection[str]) -> None:
        """Ask one more member for its allocation strategy, and log a warning if it is not the one of this member."""
        self._asked.intersection_update(members)
        known = self._asked | {self._client_id}
        new = next((each for each in members if each not in known), None)
        if new is not None and self._may_ask:
            self._asked.add(new)
            self._compare(new, self._fetch_strategy(new))

    def _compare(self, client_id: str, strategy: str | None) -> None:
        if strategy and _plain_name(strategy) != self._strategy:
            _log.warning(_DIFFERENT, self._group, shown(client_id), _plain_name(strategy), self._strategy)

    def _fetch_strategy(self, client_id: str) -> str | None:
        """Return the strategy that a member reports; None if it reports none."""
        deadline = Deadline.after(_TIMEOUT_S)
        try:
            info = self._cluster.admin.fetch_running_info(self._group, client_id, deadline=deadline)
        except RocketMQError as error:
            self._may_ask = not isinstance(error, NoPermission)
            _log.info("member %s of group %s does not report its strategy: %s", shown(client_id), self._group, error)
            return None
        return info.properties.get(STRATEGY_PROPERTY)


def _plain_name(reported: str) -> str:
    """Return RocketMQ's short name of a strategy; for a user's own strategy, the name of its class.

    Java reports a strategy as the name of its class, followed by `@` and a number. If the strategy uses a second one
    inside each machine room, the name of the second one is left out.
    """
    name = reported.partition("@")[0]
    try:
        return parse_strategy(name).outer
    except OptionError:
        return name
