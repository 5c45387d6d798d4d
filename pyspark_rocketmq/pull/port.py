"""Define what the pull engine needs of a transport: pull requests go out, outcomes come back.

The engine (`loop`, `reader`, `cursor`) knows offsets, queues and broker processes. It knows no header fields, no
response codes and no connections: these belong to a `PullPort`. `remoting` holds the port for RocketMQ's remoting
protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Generic, NamedTuple, Protocol, TypeVar, final

from ..cluster.routes import BrokerEndpoint
from ..errors import RocketMQError
from ..model import Address, MessageQueue

__all__ = ["Delivery", "PullGroup", "PullOutcome", "PullPort", "PullRequest", "PullStatus"]

R = TypeVar("R")


class PullRequest(NamedTuple):
    """Offsets `[start, end)` that one pull is to cover."""

    start: int
    end: int


class PullGroup(NamedTuple, Generic[R]):
    """Pulls of one queue that are submitted together to one broker process."""

    reader: R
    """The reader that takes the outcomes."""
    queue: MessageQueue
    endpoint: BrokerEndpoint
    requests: Sequence[PullRequest]
    is_filtered: bool = True
    """Whether the broker applies the reader's subscription."""


class PullStatus(IntEnum):
    """The ordinary ends of a pull; the values are RocketMQ's response codes."""

    FOUND = 0
    NO_NEW = 19
    NO_MATCH = 20
    OFFSET_MOVED = 21


@final
class PullOutcome(NamedTuple):
    """A broker's answer to one pull."""

    status: PullStatus
    next_offset: int
    """The offset to go on from."""
    min_offset: int
    """The queue's lower bound at the time of the answer."""
    max_offset: int
    """The queue's upper bound at the time of the answer."""
    suggested_broker_id: int
    """The broker process to pull from next."""
    body: memoryview
    """The records found, as stored."""
    was_reset: bool = False
    """Whether the offset moved because an administrator reset the group."""


Delivery = tuple[PullGroup[R], PullRequest, PullOutcome | RocketMQError]
"""One pull with its outcome, or with the error that ended it."""


class PullPort(Protocol[R]):
    """A transport for pulls. `R` is the type of the readers, which a port only hands through."""

    @property
    def in_flight(self) -> int:
        """The number of pulls that await an outcome."""

    def connect(self, address: Address) -> bool:
        """Connect if need be; return whether pulls can be submitted to an address now, raise if it is out of reach."""

    def submit(self, group: PullGroup[R]) -> None:
        """Add pulls to an address to which `connect` returned True; `send` or `drain` sends them."""

    def send(self) -> None:
        """Send what was submitted, as far as that needs no waiting."""

    def drain(self, until: float) -> Sequence[Delivery[R]]:
        """Wait for outcomes until a moment of the port's clock; return those at hand, and errors of failed pulls."""

    def close(self) -> None:
        """Give all connections back; pulls in flight are given up."""
