"""Show where a topic's queues are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..command import Command, Parameter
from ..views import Column, Table, View

if TYPE_CHECKING:
    from ...cluster.routes import BrokerEndpoints, Route
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """One process of a broker."""

    broker_id: int
    """0 for the master."""
    address: str


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """A broker in the route of a topic."""

    broker: str
    cluster: str
    processes: tuple[BrokerAddress, ...]
    readable_queues: int
    writable_queues: int


@dataclass(frozen=True, slots=True)
class ShownRoute:
    """The route of a topic, as the name servers report it; addresses are those that this machine uses."""

    topic: str
    brokers: tuple[BrokerRoute, ...]


def _run(session: Session, topic: str) -> ShownRoute:
    route = session.cluster.name_servers.fetch_route(topic)
    return ShownRoute(topic, tuple(_broker(route, each) for _, each in sorted(route.brokers.items())))


def _broker(route: Route, broker: BrokerEndpoints) -> BrokerRoute:
    readable = Counter(queue.broker_name for queue in route.readable)
    writable = Counter(queue.broker_name for queue in route.writable)
    processes = tuple(BrokerAddress(each.broker_id, str(each.address)) for each in broker.endpoints)
    name = broker.broker_name
    return BrokerRoute(name, broker.cluster, processes, readable[name], writable[name])


def _show(route: ShownRoute) -> list[View]:
    columns = (
        Column("broker"),
        Column("role"),
        Column("address"),
        Column("readable queues", is_number=True),
        Column("writable queues", is_number=True),
        Column("cluster"),
    )
    rows = [
        (
            each.broker,
            f"replica {process.broker_id}" if process.broker_id else "master",
            process.address,
            str(each.readable_queues),
            str(each.writable_queues) if process.broker_id == 0 else "-",
            each.cluster,
        )
        for each in route.brokers
        for process in each.processes
    ]
    return [Table(columns, rows)]


COMMANDS = (
    Command(
        "routes",
        ShownRoute,
        _run,
        _show,
        parameters=(Parameter("TOPIC", "topic", is_required=True),),
        examples=("pyspark-rocketmq routes orders",),
    ),
)
