"""Warn if members of one group have different subscriptions.

Brokers keep one table of subscriptions and one message model for a whole group: those of the last heartbeat. If members
differ, one takes another's topics away, or shares queues with a member that reads every queue anyway; no broker reports
this. So before each heartbeat a member compares the brokers' table with its own subscriptions. It logs each difference
once, and again only if the difference has gone and comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ..broker_errors import NoPermission
from ..cluster.cluster import Cluster
from ..errors import MOST_TEXT, RocketMQError, shown
from ..model import RETRY_PREFIX
from ..net.deadline import Deadline
from ..wire.bodies import ConsumerConnection, ConsumerData, SubscriptionData

__all__ = ["SubscriptionCheck", "find_differences"]

TIMEOUT_S = 3.0
_MOST_LOGGED = 20
"""The most differences that are logged after one comparison; brokers could name any number of topics."""
_MOST_NAMES = 5
_log = logging.getLogger(__name__)


class SubscriptionCheck:
    """Compares one member's subscriptions with those that brokers have for its group. Used by one thread."""

    def __init__(self, cluster: Cluster, group: str, client_id: str) -> None:
        self._cluster = cluster
        self._group = group
        self._client_id = client_id
        self._is_known = False
        """Whether a heartbeat was sent before, so that brokers may list this member itself."""
        self._logged: frozenset[str] = frozenset()
        self._may_ask = True
        self._compared: dict[str, tuple[str, str]] | None = None
        """The member's own expressions at the last comparison; None before the first one."""

    def compare(self, own: ConsumerData) -> None:
        """Fetch the group's subscriptions and log how they differ from `own`. Called before each heartbeat.

        If `own` has changed since the last comparison, nothing is compared: brokers may still have the old data.
        """
        expressions = _expressions(own.subscription_data_set)
        is_changed = self._compared not in (None, expressions)
        self._compared = expressions
        if self._may_ask and not is_changed:
            self._ask(own)
        self._is_known = True

    def _ask(self, own: ConsumerData) -> None:
        deadline = Deadline.after(TIMEOUT_S)
        try:
            known = self._cluster.groups.fetch_consumer_connections(self._group, deadline=deadline)
        except NoPermission as error:
            self._may_ask = False
            _log.info("subscriptions of group %s are not compared, access control forbids it: %s", self._group, error)
        except RocketMQError as error:
            _log.debug("subscriptions of group %s were not compared: %s", self._group, error)
        else:
            self._log_new(frozenset(each for seen in known.values() for each in self._differences(seen, own)), known)

    def _log_new(self, differences: frozenset[str], known: Mapping[str, ConsumerConnection]) -> None:
        members = {each.client_id for seen in known.values() for each in seen.connection_set}
        others = ", ".join(map(shown, sorted(members - {self._client_id})[:_MOST_NAMES]))
        new = sorted(differences - self._logged)
        for number, each in enumerate(new[:_MOST_LOGGED], 1):
            text = "the members of group %s disagree: %s%s (this member is %s, some others are: %s)"
            more = f", and {len(new) - number} more" if number == _MOST_LOGGED < len(new) else ""
            _log.warning(text, self._group, shown(each, MOST_TEXT), more, self._client_id, others)
        self._logged = differences

    def _differences(self, seen: ConsumerConnection, own: ConsumerData) -> Iterator[str]:
        unwrap = self._cluster.settings.namespace.unwrap
        theirs = tuple(replace(each, topic=unwrap(each.topic)) for each in seen.subscription_table.values())
        yield from find_differences(seen.message_model, theirs, own)
        if sum(each.client_id == self._client_id for each in seen.connection_set) > int(self._is_known):
            yield f"{self._client_id} is a member already; give every member an instance name of its own"


def find_differences(
    message_model: str | None, subscriptions: Iterable[SubscriptionData], own: ConsumerData
) -> Iterator[str]:
    """Yield a text for each difference between a broker's table of the group and one member's data, with advice."""
    if message_model not in (None, own.message_model):
        yield f"others are {message_model}, this member is {own.message_model}; give each model a group of its own"
    others, member = _expressions(subscriptions), _expressions(own.subscription_data_set)
    for topic in sorted(others.keys() | member.keys()):
        if others.get(topic) != member.get(topic):
            want = f"others want {_text(others.get(topic))} of {topic}, this member wants {_text(member.get(topic))}"
            lost = "messages that one of them does not want may be lost for all"
            yield f"{want}; {lost}; let all members subscribe to the same, or give them groups of their own"


def _expressions(subscriptions: Iterable[SubscriptionData]) -> dict[str, tuple[str, str]]:
    """Return (type, expression) by topic, without retry topics; tags are sorted, since their order does not matter."""
    return {
        each.topic: (each.expression_type, " || ".join(sorted(each.tags_set)) or each.sub_string)
        for each in subscriptions
        if not each.topic.startswith(RETRY_PREFIX)
    }


def _text(wanted: tuple[str, str] | None) -> str:
    return "nothing" if wanted is None else f"{wanted[0]} {wanted[1]!r}"
