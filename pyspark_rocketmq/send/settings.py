"""Hold the settings of a pipeline of sends."""

from __future__ import annotations

from dataclasses import dataclass

from ..wire.codes import ResponseCode

__all__ = ["SendSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSettings:
    """Timeouts, retries and bounds of one pipeline."""

    producer_group: str
    attempt_timeout_s: float = 3.0
    """The time after which an attempt without a response has failed."""
    retries: int = 2
    """The number of failed attempts that are followed by another one.

    No failed attempts are those for which a broker was busy, could not be reached, or sent nothing to anybody here.
    """
    deadline_s: float = 120.0
    """The time after which a request ends, with all its attempts and pauses."""
    accepted_statuses: frozenset[ResponseCode] = frozenset({ResponseCode.SUCCESS})
    """The codes of responses that count as sent; the others of `STORED` end a request with an error."""
    max_in_flight: int = 64
    """The most requests in flight; each broker gets an equal share of them."""
    max_bytes_in_flight: int = 8 * 2**20
    """The most bytes of bodies and properties in flight to one broker; a larger request goes alone."""
    keeps_order: bool = False
    """Whether each queue has one request in flight, so that it stores requests in the order of their submission.

    After a request has failed, its queue gets nothing more; `SendPipeline.pass_over` makes exceptions.
    """
    waits_for_topics: bool = False
    """Whether a topic that no name server knows is waited for, because the caller has seen its queues before."""
    rows_per_second: float | None = None
    """The rate at which requests are taken; None: no limit."""
    attempt_option: str = "sendMsgTimeout"
    """The caller's name of `attempt_timeout_s`, for the advice of errors."""
    deadline_option: str = "sendTimeoutMs"
    """The caller's name of `deadline_s`, for the advice of errors."""
