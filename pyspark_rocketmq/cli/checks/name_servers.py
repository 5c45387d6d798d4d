"""Check name servers: reach each, and compare the brokers that they know."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...errors import RocketMQError
from ...net.deadline import Deadline
from ..diagnosis import diagnose
from ..views import show_count
from .findings import Finding, Level, describe
from .together import map_together

if TYPE_CHECKING:
    from ...cluster.routes import BrokerEndpoints
    from ...cluster.settings import ClusterSettings
    from ...model import Address

__all__ = ["NameServerAnswer", "ask_name_servers", "check_name_servers", "merge_brokers"]

_DEADLINE_S = 3.0


class NameServerAnswer(NamedTuple):
    """The result of asking one name server for the brokers that it knows."""

    address: Address
    brokers: tuple[BrokerEndpoints, ...] | RocketMQError
    seconds: float
    failure: Finding | None
    """The mistake that was found, if the server did not answer."""


def ask_name_servers(settings: ClusterSettings) -> list[NameServerAnswer]:
    """Ask all name servers at the same time."""
    return map_together(lambda address: _ask(settings, address), settings.name_servers)


def _ask(settings: ClusterSettings, address: Address) -> NameServerAnswer:
    from ...cluster.cluster import open_cluster

    cluster = open_cluster(replace(settings, name_servers=(address,), retries=0))
    started = time.monotonic()
    try:
        brokers = cluster.name_servers.fetch_brokers(Deadline.after(_DEADLINE_S))
    except RocketMQError as error:
        return NameServerAnswer(address, error, time.monotonic() - started, _fail(settings, address, error))
    return NameServerAnswer(address, brokers, time.monotonic() - started, None)


def _fail(settings: ClusterSettings, address: Address, error: RocketMQError) -> Finding:
    found = diagnose(address, error, settings)
    what, advice = found or (describe(error), error.advice or "check the address")
    why = "without a name server no route can be found"
    return Finding(Level.PROBLEM, "name server", str(address), what, why, advice)


def check_name_servers(answers: list[NameServerAnswer]) -> Iterator[Finding]:
    """Yield what was found about each name server, and how their tables differ."""
    known: dict[Address, set[str]] = {}
    for answer in answers:
        if isinstance(answer.brokers, RocketMQError):
            assert answer.failure is not None, "a name server without an answer has a finding"
            yield answer.failure
            continue
        known[answer.address] = {each.broker_name for each in answer.brokers}
        what = f"answers in {1000 * answer.seconds:.0f} ms, knows {show_count(len(answer.brokers), 'broker')}"
        yield Finding(Level.OK, "name server", str(answer.address), what)
    yield from _compare(known)


def _compare(known: Mapping[Address, set[str]]) -> Iterator[Finding]:
    everything = set().union(*known.values())
    for address, names in known.items():
        if missing := sorted(everything - names):
            what = f"does not know {', '.join(missing)}, which another name server knows"
            why = "a client that asks this one does not see their queues"
            yield Finding(Level.WARNING, "name server", str(address), what, why, "list all name servers in namesrvAddr")


def merge_brokers(answers: list[NameServerAnswer]) -> list[BrokerEndpoints]:
    """Return the brokers that any name server knows, with all their processes, sorted by name."""
    merged: dict[str, BrokerEndpoints] = {}
    for answer in answers:
        for broker in () if isinstance(answer.brokers, RocketMQError) else answer.brokers:
            known = merged.setdefault(broker.broker_name, broker)
            endpoints = tuple(sorted({*known.endpoints, *broker.endpoints}))
            merged[broker.broker_name] = replace(known, endpoints=endpoints)
    return [merged[name] for name in sorted(merged)]
