"""Test pulls with a filter, whose responses may lawfully have fewer messages than the offsets that they cover."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.record import Record

from .behaviours import (
    PULLS,
    at_pulls,
    change_requests,
    during,
    each_record,
    fields,
    first,
    not_found,
    records,
    refuse,
    shifted,
)
from .entry_points import MESSAGES
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour, ServerFaults

NO_NEW, NO_MATCH = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY


def filtered(name: str, behaviour: Behaviour, **given: Any) -> Scenario:
    """Return the scenario of a batch read that filters by one tag, from servers with this behaviour."""
    return scenario_of(name, lambda: at_pulls(behaviour), tag="a", **given)


def misplaced(found: list[Record]) -> list[Record]:
    """Return the records with the last one's queue offset moved far behind the others."""
    return [*found[:-1], replace(found[-1], queue_offset=found[-1].queue_offset + 10_000)]


SCENARIOS = [
    scenario_of("honest", lambda: at_pulls(during(0, refuse(1))), tag="a", allowed=Allowed.RIGHT),
    filtered("found nothing", records(lambda found: [])),
    filtered("an offset repeated", records(lambda found: [found[0], found[0], *found[2:]]), allowed=Allowed.ERROR),
    filtered("one offset for all", records(lambda found: found[:1] * len(found)), allowed=Allowed.ERROR),
    filtered("each sent twice", records(lambda found: sorted(found * 2, key=lambda r: r.queue_offset))),
    filtered("reversed", records(lambda found: found[::-1])),
    filtered("reversed, in order", records(lambda found: found[::-1]), options={"ordering": "queue"}),
    filtered("of another topic", each_record(topic="payments"), allowed=Allowed.ERROR),
    filtered("of another queue", each_record(queue_id=7), allowed=Allowed.ERROR),
    filtered("the last one misplaced", records(misplaced)),
    filtered("below the asked offset", shifted(-32, since=32)),
    filtered("stored offsets 1 higher", shifted(1), allowed=Allowed.RIGHT),
    filtered("stored offsets 2 higher from the middle", shifted(2, since=31), allowed=Allowed.RIGHT),
    filtered("stored offsets 1000 higher", shifted(1000)),
    filtered("next far beyond the end", fields(nextBeginOffset="1000000")),
    filtered("no match, no progress", not_found(NO_MATCH, lambda asked, _: asked), allowed=Allowed.ERROR),
    filtered("nothing new, no progress", not_found(NO_NEW, lambda asked, _: asked), allowed=Allowed.ERROR),
    filtered("no match, backwards", not_found(NO_MATCH, lambda asked, _: asked - 5), allowed=Allowed.ERROR),
    filtered("no filter of that name", refuse(23), allowed=Allowed.ERROR),
    filtered("no filter data", refuse(27), allowed=Allowed.ERROR),
    scenario_of("errors for a while", lambda: at_pulls(first(2, refuse(14))), tag="a", allowed=Allowed.RIGHT),
    Scenario(
        "the filter is forgotten",
        lambda: ServerFaults(change_request=change_requests(PULLS, subscription="*")),
        tag="a",
        allowed=Allowed.RIGHT,
    ),
    scenario_of(
        "the end comes early",
        lambda: at_pulls(fields(maxOffset=str(MESSAGES // 2))),
        tag="a",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_filtered_pulls(scenario: Scenario) -> None:
    """If a response to a filtered pull is false, no row is wrong, and none is missing without an error or a warning."""
    run_and_check(scenario)
