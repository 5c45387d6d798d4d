"""Define the port of the pull engine: the interface that sends pull requests and returns their outcomes.

The engine (`loop`, `reader`, `cursor`) deals with offsets, queues and broker processes. Header fields, response codes
and connections belong to a `PullPort`. `remoting` has the port for RocketMQ's remoting protocol.
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
    """The offsets `[start, end)` that one pull requests."""

    start: int
    end: int


class PullGroup(NamedTuple, Generic[R]):
    """Pulls of one queue that are sent together to one broker process."""

    reader: R
    """The reader that gets the outcomes of these pulls."""
    queue: MessageQueue
    endpoint: BrokerEndpoint
    requests: Sequence[PullRequest]
    is_filtered: bool = True
    """Whether the broker applies the reader's subscription."""


class PullStatus(IntEnum):
    """The statuses of a pull's response that are no errors; the values are RocketMQ's response codes."""

    FOUND = 0
    NO_NEW = 19
    NO_MATCH = 20
    OFFSET_MOVED = 21


@final
class PullOutcome(NamedTuple):
    """The content of a broker's response to one pull."""

    status: PullStatus
    next_offset: int
    """The offset from which to pull next; the response covers the requested offsets up to it."""
    min_offset: int
    """The queue's minimum offset when the response was made."""
    max_offset: int
    """The queue's maximum offset when the response was made."""
    suggested_broker_id: int
    """The id of the broker process from which the broker suggests to pull next."""
    body: memoryview
    """The records found, as stored."""
    was_reset: bool = False
    """Whether `next_offset` is an offset to which an administrator has reset the group."""


Delivery = tuple[PullGroup[R], PullRequest, PullOutcome | RocketMQError]
"""One pull with its outcome, or with the error that ended it."""


class PullPort(Protocol[R]):
    """A transport for pulls. `R` is the type of the readers: a port only hands each one back with its outcomes."""

    @property
    def in_flight(self) -> int:
        """The number of pulls that await an outcome."""

    def connect(self, address: Address) -> bool:
        """Connect to an address if not connected; return whether pulls can be submitted to it now.

        Raise if no connection can be made.
        """

    def submit(self, group: PullGroup[R]) -> None:
        """Add pulls for an address for which `connect` returned True; `send` or `drain` sends them."""

    def send(self) -> None:
        """Send the submitted pulls, as far as that is possible without waiting."""

    def drain(self, until: float) -> Sequence[Delivery[R]]:
        """Wait until outcomes arrive, but not beyond the moment `until` of the port's clock.

        Return the outcomes that have arrived, and the errors of failed pulls; the list is empty if there are none.
        """

    def close(self) -> None:
        """Return all connections to their pool; pulls in flight get no outcome."""
