"""Test unfiltered pulls whose responses have other messages than they claim, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.record import Record

from .behaviours import (
    PULLS,
    after,
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
    stale,
)
from .entry_points import MESSAGES
from .scenarios import Allowed, Scenario, run_and_check, scenario_of
from .server import Behaviour, ServerFaults

NO_NEW, NO_MATCH = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY
MOVED = ResponseCode.PULL_OFFSET_MOVED
TOLERANT = {"failOnDataLoss": "false"}
EARLIEST = {"startingOffsets": "earliest"}


def ten(found: list[Record]) -> list[Record]:
    """Return the first ten records."""
    return found[:10]


def hole(found: list[Record]) -> list[Record]:
    """Return the records without one in the middle."""
    return [record for record in found if record.queue_offset % MESSAGES != 20]


def repeated(found: list[Record]) -> list[Record]:
    """Return the records with the first one in place of the second."""
    return [found[0], found[0], *found[2:]]


def emptied(found: list[Record]) -> list[Record]:
    """Return no records."""
    return []


def to_the_end(_asked: int, maximum: int) -> int:
    """Return the queue's maximum offset as the response's next offset."""
    return maximum


def nowhere(asked: int, _maximum: int) -> int:
    """Return the requested offset as the response's next offset, so that the pull makes no progress."""
    return asked


def stay() -> Behaviour:
    """Return a behaviour that sends the found messages, but names the requested offset as the next one."""
    return at_pulls(not_found(ResponseCode.SUCCESS, nowhere))


def refused(code: int) -> Scenario:
    """Return the scenario of brokers that refuse all pulls with this code."""
    return scenario_of(f"code {code} for ever", lambda: at_pulls(refuse(code)), allowed=Allowed.ERROR)


CODES = (1, 2, 3, 13, 14, 16, 17, 24, 25, 26, 29, 501, 1500, 9999, -7, 2**31 - 1)
SCENARIOS = [
    scenario_of("10 of 32", lambda: at_pulls(records(ten)), allowed=Allowed.ERROR),
    scenario_of("10 of 32 once", lambda: at_pulls(first(1, records(ten)))),
    scenario_of("10 of 32 in the stream", lambda: at_pulls(records(ten)), "stream", allowed=Allowed.ERROR),
    scenario_of(
        "10 of 32 to the triggers", lambda: at_pulls(after(2, records(ten))), "triggers", allowed=Allowed.ERROR
    ),
    scenario_of("10 of 32, losses accepted", lambda: at_pulls(records(ten)), options=TOLERANT, allowed=Allowed.WARNED),
    scenario_of("the last is missing", lambda: at_pulls(records(lambda found: found[:-1])), allowed=Allowed.ERROR),
    scenario_of("the first is missing", lambda: at_pulls(records(lambda found: found[1:])), allowed=Allowed.ERROR),
    scenario_of("one in the middle is missing", lambda: at_pulls(records(hole)), allowed=Allowed.ERROR),
    scenario_of(
        "one is missing, losses accepted", lambda: at_pulls(records(hole)), options=TOLERANT, allowed=Allowed.WARNED
    ),
    scenario_of("found nothing", lambda: at_pulls(records(emptied)), allowed=Allowed.ERROR),
    scenario_of("found nothing once", lambda: at_pulls(first(1, records(emptied)))),
    scenario_of(
        "found nothing, losses accepted", lambda: at_pulls(records(emptied)), options=TOLERANT, allowed=Allowed.WARNED
    ),
    scenario_of("no match to the end", lambda: at_pulls(not_found(NO_MATCH, to_the_end)), allowed=Allowed.ERROR),
    scenario_of("no match to the end once", lambda: at_pulls(first(1, not_found(NO_MATCH, to_the_end)))),
    scenario_of("nothing new to the end", lambda: at_pulls(not_found(NO_NEW, to_the_end)), allowed=Allowed.ERROR),
    scenario_of("moved to the end", lambda: at_pulls(not_found(MOVED, to_the_end)), allowed=Allowed.ERROR),
    scenario_of(
        "moved to the end, losses accepted",
        lambda: at_pulls(not_found(MOVED, to_the_end)),
        options=TOLERANT,
    ),
    scenario_of("moved nowhere", lambda: at_pulls(not_found(MOVED, nowhere)), allowed=Allowed.ERROR),
    scenario_of("moved back", lambda: at_pulls(not_found(MOVED, lambda asked, _: asked - 1)), allowed=Allowed.ERROR),
    scenario_of("no match, no progress", lambda: at_pulls(not_found(NO_MATCH, nowhere)), allowed=Allowed.ERROR),
    scenario_of("nothing new, no progress", lambda: at_pulls(not_found(NO_NEW, nowhere)), allowed=Allowed.ERROR),
    scenario_of(
        "nothing new for a while", lambda: at_pulls(first(6, not_found(NO_NEW, nowhere))), allowed=Allowed.RIGHT
    ),
    scenario_of(
        "no match for a while", lambda: at_pulls(first(6, not_found(NO_MATCH, nowhere))), allowed=Allowed.RIGHT
    ),
    scenario_of("found, no progress", stay, allowed=Allowed.ERROR),
    scenario_of(
        "no progress for the stream", lambda: at_pulls(not_found(NO_NEW, nowhere)), "stream", allowed=Allowed.ERROR
    ),
    scenario_of("next far beyond the end", lambda: at_pulls(fields(nextBeginOffset="1000000"))),
    scenario_of("next beyond what was sent", lambda: at_pulls(fields(nextBeginOffset=str(MESSAGES)))),
    scenario_of("an offset repeated", lambda: at_pulls(records(repeated)), allowed=Allowed.ERROR),
    scenario_of(
        "one offset for all", lambda: at_pulls(records(lambda found: found[:1] * len(found))), allowed=Allowed.ERROR
    ),
    scenario_of("all sent twice", lambda: at_pulls(records(lambda found: found * 2))),
    scenario_of(
        "each sent twice", lambda: at_pulls(records(lambda found: sorted(found * 2, key=lambda r: r.queue_offset)))
    ),
    scenario_of("reversed", lambda: at_pulls(records(lambda found: found[::-1]))),
    scenario_of(
        "reversed, in order", lambda: at_pulls(records(lambda found: found[::-1])), options={"ordering": "queue"}
    ),
    scenario_of("of another topic", lambda: at_pulls(each_record(topic="payments")), allowed=Allowed.ERROR),
    scenario_of("of another queue", lambda: at_pulls(each_record(queue_id=7)), allowed=Allowed.ERROR),
    scenario_of(
        "one of another topic",
        lambda: at_pulls(records(lambda f: [*f[:-1], replace(f[-1], topic="x")])),
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "one of another queue",
        lambda: at_pulls(records(lambda f: [*f[:-1], replace(f[-1], queue_id=1 - f[-1].queue_id)])),
        allowed=Allowed.ERROR,
    ),
    Scenario(
        "answers for the other queue",
        lambda: ServerFaults(change_request=change_requests(PULLS, queueId="1")),
        allowed=Allowed.ERROR,
    ),
    Scenario(
        "answers for another offset", lambda: ServerFaults(change_request=change_requests(PULLS, queueOffset="7"))
    ),
    scenario_of("answers of the pull before", lambda: at_pulls(stale()), allowed=Allowed.ERROR),
    scenario_of("stored offsets 1 higher", lambda: at_pulls(shifted(1)), allowed=Allowed.RIGHT),
    scenario_of(
        "stored offsets 2 higher from the middle", lambda: at_pulls(shifted(2, since=40)), allowed=Allowed.RIGHT
    ),
    scenario_of(
        "stored offsets 1 higher in the stream",
        lambda: at_pulls(shifted(1, since=10)),
        "triggers",
        allowed=Allowed.RIGHT,
    ),
    scenario_of("stored offsets 2 lower", lambda: at_pulls(shifted(-2, since=0))),
    scenario_of("stored offsets 1000 higher", lambda: at_pulls(shifted(1000))),
    scenario_of("stored offsets near the end of numbers", lambda: at_pulls(shifted(2**63 - 1 - MESSAGES))),
    scenario_of("stored offsets below zero", lambda: at_pulls(shifted(-(2**40)))),
    scenario_of("flow control for a while", lambda: at_pulls(during(0.7, refuse(215))), allowed=Allowed.RIGHT),
    scenario_of("flow control for ever", lambda: at_pulls(refuse(215)), allowed=Allowed.ERROR),
    scenario_of(
        "flow control in the stream", lambda: at_pulls(during(0.7, refuse(215))), "stream", allowed=Allowed.RIGHT
    ),
    scenario_of(
        "flow control for the engine", lambda: at_pulls(during(0.7, refuse(215))), "engine", allowed=Allowed.RIGHT
    ),
    scenario_of(
        "flow control for a member", lambda: at_pulls(during(0.7, refuse(215))), "consume", allowed=Allowed.RIGHT
    ),
    scenario_of(
        "a replica that refuses",
        lambda: at_pulls(refuse(2, "[REJECTREQUEST]system busy")),
        slaves=1,
        shut="broker-a 0",
        allowed=Allowed.ERROR,
    ),
    scenario_of(
        "a replica that refuses for a while",
        lambda: at_pulls(during(1.0, refuse(2, "[REJECTREQUEST]system busy"))),
        slaves=1,
        shut="broker-a 0",
        allowed=Allowed.RIGHT,
    ),
    *map(refused, CODES),
    scenario_of(
        "a replica is suggested that is not there",
        lambda: at_pulls(fields(suggestWhichBrokerId="999")),
        allowed=Allowed.RIGHT,
    ),
    scenario_of("a replica below zero is suggested", lambda: at_pulls(fields(suggestWhichBrokerId="-1"))),
    scenario_of("the minimum lies above what was found", lambda: at_pulls(fields(minOffset="50"))),
    scenario_of("the maximum is zero", lambda: at_pulls(fields(maxOffset="0"))),
    scenario_of(
        "a member gets errors for a while", lambda: at_pulls(first(3, refuse(1))), "consume", allowed=Allowed.RIGHT
    ),
    scenario_of(
        "a pull consumer gets errors for a while", lambda: at_pulls(first(3, refuse(1))), "poll", allowed=Allowed.RIGHT
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_pulls(scenario: Scenario) -> None:
    """If a response to a pull is false, no row is wrong, and none is missing without an error or a warning."""
    run_and_check(scenario)
