"""Find out whether a topic is compacted.

Compaction keeps only the last message of each key, so that missing offsets are no loss in such a topic. It is an
attribute of the topic, fixed when the topic is created, so a process fetches it once. Releases before 5.0 know neither
compaction nor the request; a user without permission to read the topic's configuration is refused.
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
"""A function that fetches a topic's configuration from a broker; it takes topic and broker name."""


class CompactedTopics:
    """A cache of which topics are compacted."""

    def __init__(self, fetch: FetchConfig) -> None:
        self._fetch = fetch
        self._known: dict[tuple[str, str], bool | None] = {}
        self.found: set[tuple[str, str]] = set()
        """Pairs of a topic known to be compacted and its broker's name; filled by `is_compacted`."""

    def is_compacted(self, topic: str, broker_name: str) -> bool | None:
        """Return whether the topic is compacted; None if this cannot be known.

        A broker's refusal is remembered; after a missing response the next call sends another request.
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
