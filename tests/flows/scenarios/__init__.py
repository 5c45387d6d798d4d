"""List the scenarios that hold for every cluster, stub or real, of every version.

Each public function of a `World` in a module of this package is a scenario. `EVERYWHERE` and `RETENTION` run on one
broker; they are apart because real brokers delete nothing in their first minute. Each other list is named after the
kind of cluster that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import getmembers, isfunction
from types import ModuleType

import pytest

from tests.flows.world import World

from . import (
    access,
    administration,
    encryption,
    failover,
    lookups,
    membership,
    offsets,
    pulling,
    ranges,
    replica_reads,
    retention,
    routing,
    send_back,
    sending,
    transaction_rules,
    transactions,
    two_brokers,
)

Scenario = Callable[[World], None]


def scenarios_of(*modules: ModuleType) -> list[Scenario]:
    """Return the scenarios of these modules, sorted by name."""
    found = [(module, scenario) for module in modules for _, scenario in getmembers(module, isfunction)]
    return [scenario for module, scenario in found if is_own(module, scenario)]


def is_own(module: ModuleType, scenario: Scenario) -> bool:
    """Return whether this module defines the function as a scenario; helpers and imported functions are none."""
    return scenario.__module__ == module.__name__ and not scenario.__name__.startswith("_")


def each_of(scenarios: list[Scenario]) -> pytest.MarkDecorator:
    """Return a decorator that parametrizes a test with these scenarios, under their names."""
    return pytest.mark.parametrize("scenario", scenarios, ids=lambda scenario: scenario.__name__)


EVERYWHERE = scenarios_of(
    routing, sending, pulling, offsets, ranges, membership, send_back, transactions, administration, lookups
)
RETENTION = scenarios_of(retention)
MASTER_SLAVE = scenarios_of(failover)
REPLICA_READS = scenarios_of(replica_reads)
TWO_BROKERS = scenarios_of(two_brokers)
ACCESS_CONTROL = scenarios_of(access)
TLS = scenarios_of(encryption)
RANGES = scenarios_of(ranges)
TRANSACTION_RULES = scenarios_of(transaction_rules)
"""Scenarios that need brokers which check half messages every few seconds, and give them up after three checks."""
