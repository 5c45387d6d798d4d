"""Pulls with a filter, whose answers may lawfully hold fewer messages than offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.record import Record

from .behaviours import (
    PULLS,
    at_pulls,
    during,
    each_record,
    fields,
    first,
    mishear,
    not_found,
    records,
    refuse,
    shifted,
)
from .faces import MESSAGES
from .scenarios import Ends, Scenario, assert_ends_well, lie
from .server import Behaviour, Manner

NO_NEW, NO_MATCH = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY


def filtered(name: str, behaviour: Behaviour, **given: Any) -> Scenario:
    """Return the scenario of a batch read that asks for one tag."""
    return lie(name, lambda: at_pulls(behaviour), tag="a", **given)


def misplaced(found: list[Record]) -> list[Record]:
    """Claim that the last record lies far behind the others."""
    return [*found[:-1], replace(found[-1], queue_offset=found[-1].queue_offset + 10_000)]


SCENARIOS = [
    lie("honest", lambda: at_pulls(during(0, refuse(1))), tag="a", ends=Ends.RIGHT),
    filtered("found nothing", records(lambda found: [])),
    filtered("an offset repeated", records(lambda found: [found[0], found[0], *found[2:]]), ends=Ends.ERROR),
    filtered("one offset for all", records(lambda found: found[:1] * len(found)), ends=Ends.ERROR),
    filtered("each sent twice", records(lambda found: sorted(found * 2, key=lambda r: r.queue_offset))),
    filtered("reversed", records(lambda found: found[::-1])),
    filtered("reversed, in order", records(lambda found: found[::-1]), options={"ordering": "queue"}),
    filtered("of another topic", each_record(topic="payments"), ends=Ends.ERROR),
    filtered("of another queue", each_record(queue_id=7), ends=Ends.ERROR),
    filtered("the last one misplaced", records(misplaced)),
    filtered("below the asked offset", shifted(-32, since=32)),
    filtered("stored offsets 1 higher", shifted(1), ends=Ends.RIGHT),
    filtered("stored offsets 2 higher from the middle", shifted(2, since=31), ends=Ends.RIGHT),
    filtered("stored offsets 1000 higher", shifted(1000)),
    filtered("next far beyond the end", fields(nextBeginOffset="1000000")),
    filtered("no match, no progress", not_found(NO_MATCH, lambda asked, _: asked), ends=Ends.ERROR),
    filtered("nothing new, no progress", not_found(NO_NEW, lambda asked, _: asked), ends=Ends.ERROR),
    filtered("no match, backwards", not_found(NO_MATCH, lambda asked, _: asked - 5), ends=Ends.ERROR),
    filtered("no filter of that name", refuse(23), ends=Ends.ERROR),
    filtered("no filter data", refuse(27), ends=Ends.ERROR),
    lie("errors for a while", lambda: at_pulls(first(2, refuse(14))), tag="a", ends=Ends.RIGHT),
    Scenario(
        "the filter is forgotten",
        lambda: Manner(misunderstanding=mishear(PULLS, subscription="*")),
        tag="a",
        ends=Ends.RIGHT,
    ),
    lie(
        "the end comes early",
        lambda: at_pulls(fields(maxOffset=str(MESSAGES // 2))),
        tag="a",
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_filtered_pulls(scenario: Scenario) -> None:
    """A filter is no leave to send what lies elsewhere, twice, or out of order."""
    assert_ends_well(scenario)
