"""Queues that users list."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.planning.assignment import list_queues, parse_assignment, parse_queue_lists

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)
U0 = MessageQueue("U", "a", 0)
ROUTE = [A0, A1, B0, U0]


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ('{"T":{"a":[1,0]}}', [A0, A1]),
        ('{"T":{"a":"*"},"U":{"a":[0]}}', [A0, A1, U0]),
        ('{"T":"*"}', [A0, A1, B0]),
    ],
)
def test_select(text: str, selected: list[MessageQueue]) -> None:
    """Numbers mean queues, stars mean all there are; the route gives the order."""
    assignment = parse_assignment(text)

    assignment.require_known(ROUTE)
    assert assignment.select(ROUTE) == selected
    assert assignment.topics == {queue.topic for queue in selected}


def test_a_star_follows_growth() -> None:
    """A queue that appears later is selected without being named."""
    later = MessageQueue("T", "c", 0)

    assert later in parse_assignment('{"T":"*"}').select([*ROUTE, later])
    assert later not in parse_assignment('{"T":{"a":"*"}}').select([*ROUTE, later])


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"T":{"a":[0,7]}}', "T/a/7"), ('{"T":{"c":"*"}}', "T/c"), ('{"X":"*"}', "X/*"), ('{"X":{"a":[0]}}', "X/a/0")],
)
def test_what_the_route_does_not_have(text: str, name: str) -> None:
    """A queue, broker or topic outside the route is named."""
    with pytest.raises(OptionError) as raised:
        parse_assignment(text).require_known(ROUTE)

    assert f"assign = '{name}': not in the route" in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "T",
        "[]",
        "{}",
        '{"T":[]}',
        '{"T":{}}',
        '{"T":{"a":[]}}',
        '{"T":{"a":[0,0]}}',
        '{"T":{"a":[-1]}}',
        '{"T":{"a":[true]}}',
        '{"T":{"a":["0"]}}',
        '{"T":{"a":0}}',
        '{"T":{"a":[[0]]}}',
        '{"T":"*","T":"*"}',
    ],
)
def test_refusals(text: str) -> None:
    """Anything of another shape is refused."""
    with pytest.raises(OptionError, match=r"\[OPTION_VALUE\] assign = "):
        parse_assignment(text)


def test_lists_of_slots() -> None:
    """Each entry of the array is a slot; together they list the route."""
    slots = parse_queue_lists('[{"T":{"a":[0]},"U":"*"},{"T":{"a":[1],"b":"*"}}]')

    assert list_queues(slots, ROUTE) == ((A0, U0), (A1, B0))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[{"T":"*"}]', "'U/a/0': not listed"),
        ('[{"T":"*","U":"*"},{"T":{"a":[0]}}]', "'T/a/0': listed twice"),
        ('[{"T":"*","U":"*"},{"T":{"a":[9]}}]', "'T/a/9': not in the route"),
    ],
)
def test_slots_list_every_queue_once(text: str, what: str) -> None:
    """A queue that is missing, double or unknown is named with its option."""
    with pytest.raises(OptionError, match=f"messageQueueList = {what}"):
        list_queues(parse_queue_lists(text), ROUTE)


@pytest.mark.parametrize("text", ["{}", "[]", "[1]"])
def test_no_array_of_slots(text: str) -> None:
    """Slots are a non-empty array of objects."""
    with pytest.raises(OptionError, match="messageQueueList"):
        parse_queue_lists(text)
