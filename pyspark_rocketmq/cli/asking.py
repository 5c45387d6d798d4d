"""Ask a whole cluster: find its brokers, and tell failures that may pass from those that will not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import RocketMQError
from .exits import NotFound

if TYPE_CHECKING:
    from ..cluster.routes import BrokerEndpoints
    from .session import Session

__all__ = ["fetch_brokers", "may_pass"]


def fetch_brokers(session: Session) -> tuple[BrokerEndpoints, ...]:
    """Return the brokers that the name servers know; raise `NotFound` if there is none."""
    if brokers := session.cluster.survey.fetch_brokers():
        return brokers
    raise NotFound("the name servers know no broker", advice="check brokers' namesrvAddr, and their logs")


def may_pass(error: RocketMQError) -> bool:
    """Return whether a command that goes on and on should outlive this error: a server may come back."""
    return error.retriable or error.refresh_routes
