"""Run the rules of half messages on the stub; `tests/real` runs them on real brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .scenarios import TRANSACTION_RULES, Scenario, each_of, transaction_servers
from .stub_servers import QUICK_CHECKS, RELEASES, start_stub, stub_world
from .world import World


@each_of(TRANSACTION_RULES)
def test_rule(checking_world: World, scenario: Scenario) -> None:
    """Each rule of half messages holds on the stub, for each release that the stub emulates."""
    scenario(checking_world)


def test_half_message_in_memory() -> None:
    """The stub ends no half message for the time that its setting names."""
    with start_stub(settings=replace(QUICK_CHECKS, transient_store_ms=2_000)) as stub:
        transaction_servers.half_message_in_memory_is_not_found(stub_world(stub))


@pytest.mark.parametrize("release", RELEASES)
def test_crash_after_the_end(release: str) -> None:
    """A stub of 5.x that crashes checks a half message again that has ended."""
    settings = replace(QUICK_CHECKS, transaction_op_batch_interval_ms=60_000)
    with start_stub(release, settings=settings) as stub:
        transaction_servers.crash_forgets_that_a_half_message_ended(stub_world(stub, release))
