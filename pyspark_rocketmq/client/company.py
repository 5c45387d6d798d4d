"""Do the other members of our group want what we want?

Brokers keep one table of subscriptions and one message model for a whole group: those of whichever heartbeat came
last. Members that differ take each other's topics away, or share with somebody who gets everything anyhow, and no
broker tells them. So we look at what the others left before each heartbeat of ours, and log what differs, once as long
as it stays the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..broker_errors import NoPermission
from ..cluster.cluster import Cluster
from ..errors import RocketMQError
from ..model import RETRY_PREFIX
from ..net.deadline import Deadline
from ..wire.bodies import ConsumerConnection, ConsumerData, SubscriptionData

__all__ = ["Company", "find_differences"]

TIMEOUT_S = 3.0
_log = logging.getLogger(__name__)


class Company:
    """The others of our group, as brokers see them. For one thread alone."""

    def __init__(self, cluster: Cluster, group: str, client_id: str) -> None:
        self._cluster = cluster
        self._group = group
        self._client_id = client_id
        self._is_known = False
        """Whether brokers list us for ourselves."""
        self._told: frozenset[str] = frozenset()
        self._may_ask = True

    def look(self, own: ConsumerData) -> None:
        """Ask the group's brokers, before they hear from us again, and log how the group differs from us."""
        if self._may_ask:
            self._ask(own)
        self._is_known = True

    def _ask(self, own: ConsumerData) -> None:
        deadline = Deadline.after(TIMEOUT_S)
        try:
            known = self._cluster.groups.fetch_consumer_connections(self._group, deadline=deadline)
        except NoPermission as error:
            self._may_ask = False
            _log.info("whether %s agrees is not for us to know: %s", self._group, error)
        except RocketMQError as error:
            _log.debug("whether %s agrees is not known: %s", self._group, error)
        else:
            self._tell(frozenset(each for seen in known.values() for each in self._differences(seen, own)))

    def _tell(self, differences: frozenset[str]) -> None:
        for each in sorted(differences - self._told):
            _log.warning("the members of group %s disagree: %s", self._group, each)
        self._told = differences

    def _differences(self, seen: ConsumerConnection, own: ConsumerData) -> Iterator[str]:
        unwrap = self._cluster.settings.namespace.unwrap
        theirs = tuple(replace(each, topic=unwrap(each.topic)) for each in seen.subscription_table.values())
        yield from find_differences(seen.message_model, theirs, own)
        if sum(each.client_id == self._client_id for each in seen.connection_set) > int(self._is_known):
            yield f"{self._client_id} is there already; give every member an instance name of its own"


def find_differences(
    message_model: str | None, subscriptions: Iterable[SubscriptionData], own: ConsumerData
) -> Iterator[str]:
    """How what a broker knows of a group differs from what one member says of it, each with what to do."""
    if message_model not in (None, own.message_model):
        yield f"others are {message_model}, we are {own.message_model}; give each model a group of its own"
    theirs, ours = _wishes(subscriptions), _wishes(own.subscription_data_set)
    for topic in sorted(theirs.keys() | ours.keys()):
        if (wanted := theirs.get(topic)) != (by_us := ours.get(topic)):
            want = f"others want {_text(wanted)} of {topic}, we want {_text(by_us)}"
            yield f"{want}; let all members subscribe to the same, or give them groups of their own"


def _wishes(subscriptions: Iterable[SubscriptionData]) -> dict[str, tuple[str, str]]:
    """Type and expression by topic; alternatives of tags in any order are the same."""
    return {
        each.topic: (each.expression_type, " || ".join(sorted(each.tags_set)) or each.sub_string)
        for each in subscriptions
        if not each.topic.startswith(RETRY_PREFIX)
    }


def _text(wish: tuple[str, str] | None) -> str:
    return "nothing" if wish is None else f"{wish[0]} {wish[1]!r}"
