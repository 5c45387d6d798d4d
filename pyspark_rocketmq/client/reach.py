"""Which brokers are worth asking in this round?

Whoever goes through many queues meets a broker that cannot be reached once for each queue it holds, and would wait for
it as often, seconds each time, while healthy brokers wait behind it. So what goes through queues keeps a `Reach` for
as long as that takes: after the first failure the rest of a broker's queues is left for the next round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from ..errors import RocketMQError, TransportError

__all__ = ["Reach"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Reach:
    """The brokers as one round finds them. For one thread."""

    def __init__(self) -> None:
        self._missed: set[str] = set()

    def __repr__(self) -> str:
        return f"<Reach without {', '.join(sorted(self._missed)) or 'nobody'}>"

    def covers(self, broker_name: str) -> bool:
        """Whether a broker may still be asked."""
        return broker_name not in self._missed

    def attempt(self, broker_name: str, act: Callable[[], T], failing: str) -> T | None:
        """What an action at a broker returns; none if it fails, which is logged, or is not worth trying."""
        if not self.covers(broker_name):
            return None
        try:
            return act()
        except RocketMQError as error:
            _log.warning("%s: %s", failing, error)
            if isinstance(error, TransportError):
                self._missed.add(broker_name)
            return None
