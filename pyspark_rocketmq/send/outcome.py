"""Define how a send ends, and what a pipeline counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..cluster.messages import Receipt
from ..errors import RocketMQError
from ..model import SendRequest

__all__ = ["Outcome", "SendStatistics"]


class Outcome(NamedTuple):
    """The end of one request.

    Without an error it was stored, and the receipt says where. With an error *and* a receipt the master holds it, with
    a status that is not accepted. With an error alone it is not stored, or, if `is_unknown`, it may be stored.
    """

    request: SendRequest
    receipt: Receipt | None
    error: RocketMQError | None
    is_unknown: bool


@dataclass(slots=True)
class SendStatistics:
    """Counts and times of one pipeline, from its beginning."""

    rows: int = 0
    """Rows of the requests that were stored."""
    requests: int = 0
    """Requests that were stored."""
    bytes: int = 0
    """Bytes of their bodies, as they were sent."""
    failed_rows: int = 0
    """Rows of the requests that ended with an error."""
    retries: int = 0
    """Attempts after the first one."""
    pauses: int = 0
    """Pauses of brokers that were busy or could not be reached."""
    rows_by_broker: dict[str, int] = field(default_factory=dict)
    """{broker name: rows stored there}."""
    connecting_s: float = 0.0
    """Seconds spent on routes and connections."""
    waiting_s: float = 0.0
    """Seconds spent waiting for responses, and for the ends of pauses."""
    limited_s: float = 0.0
    """Seconds spent waiting because of the rate limit."""
