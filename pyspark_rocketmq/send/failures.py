"""Judge what the error of a failed attempt means for the send, and for the broker; make the errors of unsent sends."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from ..broker_errors import (
    BrokerSystemError,
    FlowControl,
    GoAway,
    NoBuyerId,
    NoPermission,
    NotInCurrentUnit,
    ServiceNotAvailable,
    SystemBusy,
    error_for,
)
from ..errors import (
    AddressNotAllowed,
    BrokerError,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RocketMQError,
    TransportError,
)
from ..wire.header import Command

__all__ = [
    "Judgement",
    "NextStep",
    "earlier_send_failed_error",
    "interrupted_error",
    "judge",
    "status_error",
    "stopped_error",
]

_BUSY = (SystemBusy, FlowControl, GoAway)
_BUSY_REMARK = re.compile(r"\[(REJECTREQUEST|OVERLOAD|TIMEOUT_CLEAN_QUEUE|PCBUSY_CLEAN_QUEUE|PC_SYNCHRONIZED)\]")
"""The remarks by which brokers refuse requests under load; before release 5 some of them come with code 1."""
_ELSEWHERE = (AddressNotAllowed, NoPermission, NoBuyerId, NotInCurrentUnit)
"""Errors that an attempt at another broker may avoid, but no attempt at the same one."""
_UNKNOWN = (ConnectionLost, RequestTimeout, RemoteProtocolError)
"""Errors that leave open whether the request was stored: no response came, or one that cannot be understood."""
_OF_BROKER = (TransportError, RemoteProtocolError, ServiceNotAvailable)


class NextStep(Enum):
    """The step after a failed attempt: none, one at another broker, another one, or one after a pause of the broker."""

    NONE = auto()
    ELSEWHERE = auto()
    AGAIN = auto()
    PAUSE = auto()


class Judgement(NamedTuple):
    """The meaning of a failed attempt, for the send and for its broker."""

    next_step: NextStep
    is_unknown: bool = False
    """Whether the request may be stored."""
    is_of_broker: bool = False
    """Whether other requests to the broker would fail, too."""


def judge(error: RocketMQError) -> Judgement:
    """Return what to do after an attempt has failed with this error."""
    if isinstance(error, _BUSY) or (isinstance(error, BrokerSystemError) and _BUSY_REMARK.match(error.remark or "")):
        return Judgement(NextStep.PAUSE)
    if isinstance(error, RequestTimeout) and error.is_silent:
        # The broker stands still, or cannot be reached any more, which a new connection may not show.
        return Judgement(NextStep.PAUSE, is_unknown=True)
    otherwise = NextStep.ELSEWHERE if isinstance(error, _ELSEWHERE) else NextStep.NONE
    next_step = NextStep.AGAIN if error.retriable else otherwise
    return Judgement(next_step, isinstance(error, _UNKNOWN), isinstance(error, _OF_BROKER))


def status_error(response: Command) -> BrokerError:
    """Return the error for a response which says that the master stored the request with a status other than success.

    The caller does not accept that status.
    """
    error = error_for(response.code, response.remark or "the master has stored it")
    error.advice = "look for the cause at the broker and its replicas, or add the status to acceptSendStatus"
    return error


def earlier_send_failed_error() -> LocalProtocolError:
    """Return the error for a send whose queue gets nothing more, because an earlier send to it has failed."""
    what = "not sent, because an earlier send to the queue has failed and the order is kept"
    return LocalProtocolError(what, advice="look for the error of the earlier send, and repeat both in their order")


def stopped_error() -> LocalProtocolError:
    """Return the error for a send that was not sent before its pipeline was stopped."""
    what = "not sent, because the pipeline was stopped"
    return LocalProtocolError(what, advice="look for the error that stopped it")


def interrupted_error() -> LocalProtocolError:
    """Return the error for a send whose outcome was lost because its pipeline was interrupted."""
    what = "sent, but its response was lost because the pipeline was interrupted"
    return LocalProtocolError(what, advice="it may be stored; send it again, with the same message id")
