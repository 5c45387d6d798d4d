"""Find out whether a topic is compacted.

Compaction keeps the last message of each key, so offsets of such a topic are missing lawfully. It is an attribute of
the topic, fixed when the topic is created, so a process fetches it once. Releases before 5.0
know neither compaction nor the request; a user without permission to read the topic's configuration is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from ..broker_errors import CredentialsRefused, NoPermission, RequestCodeNotSupported
from ..errors import RocketMQError
from ..wire.bodies import TopicConfig

__all__ = ["CompactedTopics"]

_POLICY, _COMPACTION = "cleanup.policy", "COMPACTION"
_REFUSALS = (CredentialsRefused, NoPermission, RequestCodeNotSupported)


FetchConfig = Callable[[str, str], TopicConfig]
"""Fetches the configuration of a topic from a broker, by their names."""


class CompactedTopics:
    """The compacted topics among those that were looked up."""

    def __init__(self, fetch: FetchConfig) -> None:
        self._fetch = fetch
        self._known: dict[tuple[str, str], bool | None] = {}
        self.found: set[tuple[str, str]] = set()
        """Topics that are known to be compacted, with their brokers' names; filled by `is_compacted`."""

    def is_compacted(self, topic: str, broker_name: str) -> bool | None:
        """Return whether the topic is compacted; None if that cannot be known.

        A refusal is remembered; a broker that did not respond gets another request next time.
        """
        if (topic, broker_name) in self._known:
            return self._known[topic, broker_name]
        try:
            attributes = self._fetch(topic, broker_name).attributes or {}
        except _REFUSALS:
            self._known[topic, broker_name] = None
            return None
        except RocketMQError:
            return None
        is_compacted = self._known[topic, broker_name] = attributes.get(_POLICY) == _COMPACTION
        if is_compacted:
            self.found.add((topic, broker_name))
        return is_compacted
