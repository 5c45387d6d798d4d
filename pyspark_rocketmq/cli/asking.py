"""Ask a whole cluster: find its brokers, and tell failures that may pass from those that will not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..errors import RocketMQError, TransportError
from .exits import NotFound

if TYPE_CHECKING:
    from ..cluster.routes import BrokerEndpoints
    from .session import Session

__all__ = ["fetch_brokers", "may_pass", "part_silent"]


def fetch_brokers(session: Session) -> tuple[BrokerEndpoints, ...]:
    """Return the brokers that the name servers know; raise `NotFound` if there is none."""
    if brokers := session.cluster.survey.fetch_brokers():
        return brokers
    raise NotFound("the name servers know no broker", advice="check brokers' namesrvAddr, and their logs")


def part_silent(
    brokers: Iterable[BrokerEndpoints], found: Mapping[str, object]
) -> tuple[list[BrokerEndpoints], dict[str, TransportError]]:
    """Return the brokers that can be asked more, given what each has answered, and the errors of those that did not.

    A command that asked a silent broker again would wait for it again.
    """
    silent = {name: each for name, each in found.items() if isinstance(each, TransportError)}
    return [each for each in brokers if each.broker_name not in silent], silent


def may_pass(error: RocketMQError) -> bool:
    """Return whether a command that goes on and on should outlive this error: a server may come back."""
    return error.retriable or error.refresh_routes
