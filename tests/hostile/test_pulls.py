"""Pulls without a filter: answers that hold other messages than they claim, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.record import Record

from .behaviours import (
    PULLS,
    after,
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
    stale,
)
from .faces import MESSAGES
from .scenarios import Ends, Scenario, assert_ends_well, lie
from .server import Behaviour, Manner

NO_NEW, NO_MATCH = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY
MOVED = ResponseCode.PULL_OFFSET_MOVED
TOLERANT = {"failOnDataLoss": "false"}
EARLIEST = {"startingOffsets": "earliest"}


def ten(found: list[Record]) -> list[Record]:
    """Keep ten records."""
    return found[:10]


def hole(found: list[Record]) -> list[Record]:
    """Keep all but one in the middle."""
    return [record for record in found if record.queue_offset % MESSAGES != 20]


def repeated(found: list[Record]) -> list[Record]:
    """Send the first record where the second should be."""
    return [found[0], found[0], *found[2:]]


def emptied(found: list[Record]) -> list[Record]:
    """Keep nothing."""
    return []


def to_the_end(_asked: int, maximum: int) -> int:
    """Go on at the queue's end."""
    return maximum


def nowhere(asked: int, _maximum: int) -> int:
    """Go on where the pull began."""
    return asked


def stay() -> Behaviour:
    """Find messages, and name the asked offset as the next one."""
    return at_pulls(not_found(ResponseCode.SUCCESS, nowhere))


def refused(code: int) -> Scenario:
    """Return the scenario of brokers that refuse all pulls."""
    return lie(f"code {code} for ever", lambda: at_pulls(refuse(code)), ends=Ends.ERROR)


CODES = (1, 2, 3, 13, 14, 16, 17, 24, 25, 26, 29, 501, 1500, 9999, -7, 2**31 - 1)
SCENARIOS = [
    lie("10 of 32", lambda: at_pulls(records(ten)), ends=Ends.ERROR),
    lie("10 of 32 once", lambda: at_pulls(first(1, records(ten)))),
    lie("10 of 32 in the stream", lambda: at_pulls(records(ten)), "stream", ends=Ends.ERROR),
    lie("10 of 32 to the triggers", lambda: at_pulls(after(2, records(ten))), "triggers", ends=Ends.ERROR),
    lie("10 of 32, losses accepted", lambda: at_pulls(records(ten)), options=TOLERANT, ends=Ends.TOLD),
    lie("the last is missing", lambda: at_pulls(records(lambda found: found[:-1])), ends=Ends.ERROR),
    lie("the first is missing", lambda: at_pulls(records(lambda found: found[1:])), ends=Ends.ERROR),
    lie("one in the middle is missing", lambda: at_pulls(records(hole)), ends=Ends.ERROR),
    lie("one is missing, losses accepted", lambda: at_pulls(records(hole)), options=TOLERANT, ends=Ends.TOLD),
    lie("found nothing", lambda: at_pulls(records(emptied)), ends=Ends.ERROR),
    lie("found nothing once", lambda: at_pulls(first(1, records(emptied)))),
    lie("found nothing, losses accepted", lambda: at_pulls(records(emptied)), options=TOLERANT, ends=Ends.TOLD),
    lie("no match to the end", lambda: at_pulls(not_found(NO_MATCH, to_the_end)), ends=Ends.ERROR),
    lie("no match to the end once", lambda: at_pulls(first(1, not_found(NO_MATCH, to_the_end)))),
    lie("nothing new to the end", lambda: at_pulls(not_found(NO_NEW, to_the_end)), ends=Ends.ERROR),
    lie("moved to the end", lambda: at_pulls(not_found(MOVED, to_the_end)), ends=Ends.ERROR),
    lie(
        "moved to the end, losses accepted",
        lambda: at_pulls(not_found(MOVED, to_the_end)),
        options=TOLERANT,
    ),
    lie("moved nowhere", lambda: at_pulls(not_found(MOVED, nowhere)), ends=Ends.ERROR),
    lie("moved back", lambda: at_pulls(not_found(MOVED, lambda asked, _: asked - 1)), ends=Ends.ERROR),
    lie("no match, no progress", lambda: at_pulls(not_found(NO_MATCH, nowhere)), ends=Ends.ERROR),
    lie("nothing new, no progress", lambda: at_pulls(not_found(NO_NEW, nowhere)), ends=Ends.ERROR),
    lie("nothing new for a while", lambda: at_pulls(first(6, not_found(NO_NEW, nowhere))), ends=Ends.RIGHT),
    lie("no match for a while", lambda: at_pulls(first(6, not_found(NO_MATCH, nowhere))), ends=Ends.RIGHT),
    lie("found, no progress", stay, ends=Ends.ERROR),
    lie("no progress for the stream", lambda: at_pulls(not_found(NO_NEW, nowhere)), "stream", ends=Ends.ERROR),
    lie("next far beyond the end", lambda: at_pulls(fields(nextBeginOffset="1000000"))),
    lie("next beyond what was sent", lambda: at_pulls(fields(nextBeginOffset=str(MESSAGES)))),
    lie("an offset repeated", lambda: at_pulls(records(repeated)), ends=Ends.ERROR),
    lie("one offset for all", lambda: at_pulls(records(lambda found: found[:1] * len(found))), ends=Ends.ERROR),
    lie("all sent twice", lambda: at_pulls(records(lambda found: found * 2))),
    lie("each sent twice", lambda: at_pulls(records(lambda found: sorted(found * 2, key=lambda r: r.queue_offset)))),
    lie("reversed", lambda: at_pulls(records(lambda found: found[::-1]))),
    lie("reversed, in order", lambda: at_pulls(records(lambda found: found[::-1])), options={"ordering": "queue"}),
    lie("of another topic", lambda: at_pulls(each_record(topic="payments")), ends=Ends.ERROR),
    lie("of another queue", lambda: at_pulls(each_record(queue_id=7)), ends=Ends.ERROR),
    lie(
        "one of another topic",
        lambda: at_pulls(records(lambda f: [*f[:-1], replace(f[-1], topic="x")])),
        ends=Ends.ERROR,
    ),
    lie(
        "one of another queue",
        lambda: at_pulls(records(lambda f: [*f[:-1], replace(f[-1], queue_id=1 - f[-1].queue_id)])),
        ends=Ends.ERROR,
    ),
    Scenario(
        "answers for the other queue", lambda: Manner(misunderstanding=mishear(PULLS, queueId="1")), ends=Ends.ERROR
    ),
    Scenario("answers for another offset", lambda: Manner(misunderstanding=mishear(PULLS, queueOffset="7"))),
    lie("answers of the pull before", lambda: at_pulls(stale()), ends=Ends.ERROR),
    lie("stored offsets 1 higher", lambda: at_pulls(shifted(1)), ends=Ends.RIGHT),
    lie("stored offsets 2 higher from the middle", lambda: at_pulls(shifted(2, since=40)), ends=Ends.RIGHT),
    lie("stored offsets 1 higher in the stream", lambda: at_pulls(shifted(1, since=10)), "triggers", ends=Ends.RIGHT),
    lie("stored offsets 2 lower", lambda: at_pulls(shifted(-2, since=0))),
    lie("stored offsets 1000 higher", lambda: at_pulls(shifted(1000))),
    lie("stored offsets near the end of numbers", lambda: at_pulls(shifted(2**63 - 1 - MESSAGES))),
    lie("stored offsets below zero", lambda: at_pulls(shifted(-(2**40)))),
    lie("flow control for a while", lambda: at_pulls(during(0.7, refuse(215))), ends=Ends.RIGHT),
    lie("flow control for ever", lambda: at_pulls(refuse(215)), ends=Ends.ERROR),
    lie("flow control in the stream", lambda: at_pulls(during(0.7, refuse(215))), "stream", ends=Ends.RIGHT),
    lie("flow control for the engine", lambda: at_pulls(during(0.7, refuse(215))), "engine", ends=Ends.RIGHT),
    lie("flow control for a member", lambda: at_pulls(during(0.7, refuse(215))), "consume", ends=Ends.RIGHT),
    lie(
        "a replica that refuses",
        lambda: at_pulls(refuse(2, "[REJECTREQUEST]system busy")),
        slaves=1,
        shut="broker-a 0",
        ends=Ends.ERROR,
    ),
    lie(
        "a replica that refuses for a while",
        lambda: at_pulls(during(1.0, refuse(2, "[REJECTREQUEST]system busy"))),
        slaves=1,
        shut="broker-a 0",
        ends=Ends.RIGHT,
    ),
    *map(refused, CODES),
    lie(
        "a replica is suggested that is not there",
        lambda: at_pulls(fields(suggestWhichBrokerId="999")),
        ends=Ends.RIGHT,
    ),
    lie("a replica below zero is suggested", lambda: at_pulls(fields(suggestWhichBrokerId="-1"))),
    lie("the minimum lies above what was found", lambda: at_pulls(fields(minOffset="50"))),
    lie("the maximum is zero", lambda: at_pulls(fields(maxOffset="0"))),
    lie("a member gets errors for a while", lambda: at_pulls(first(3, refuse(1))), "consume", ends=Ends.RIGHT),
    lie("a pull consumer gets errors for a while", lambda: at_pulls(first(3, refuse(1))), "poll", ends=Ends.RIGHT),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_pulls(scenario: Scenario) -> None:
    """A broker that lies about what it found is believed in nothing that would lose or invent a row."""
    assert_ends_well(scenario)
