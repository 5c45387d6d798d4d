"""Users list queues."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.options.queue_json import read_assignment, read_queue_lists
from pyspark_rocketmq.options.values import OptionText
from pyspark_rocketmq.planning.listed_queues import ListedQueues, list_queues

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)
U0 = MessageQueue("U", "a", 0)
ROUTE = [A0, A1, B0, U0]


def assigned(text: str) -> ListedQueues:
    """Return the queues that `assign` lists."""
    return read_assignment(OptionText("assign", text))


def slots_of(text: str) -> tuple[ListedQueues, ...]:
    """Return the queues that each entry of `messageQueueList` lists."""
    return read_queue_lists(OptionText("messageQueueList", text))


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ('{"T":{"a":[1,0]}}', [A0, A1]),
        ('{"T":{"a":"*"},"U":{"a":[0]}}', [A0, A1, U0]),
        ('{"T":"*"}', [A0, A1, B0]),
    ],
)
def test_select(text: str, selected: list[MessageQueue]) -> None:
    """Numbers select queues, stars all queues of the route, in the order of the route."""
    assignment = assigned(text)

    assignment.require_known(ROUTE)
    assert assignment.select(ROUTE) == selected
    assert assignment.topics == {queue.topic for queue in selected}


def test_a_star_follows_growth() -> None:
    """A star selects a queue that appears later."""
    later = MessageQueue("T", "c", 0)

    assert later in assigned('{"T":"*"}').select([*ROUTE, later])
    assert later not in assigned('{"T":{"a":"*"}}').select([*ROUTE, later])


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"T":{"a":[0,7]}}', "T/a/7"), ('{"T":{"c":"*"}}', "T/c"), ('{"X":"*"}', "X/*"), ('{"X":{"a":[0]}}', "X/a/0")],
)
def test_what_the_route_does_not_have(text: str, name: str) -> None:
    """The error names a queue, broker or topic that the route lacks."""
    with pytest.raises(OptionError) as raised:
        assigned(text).require_known(ROUTE)

    assert f"assign = '{name}': not in the route" in str(raised.value)


def test_lists_of_slots() -> None:
    """Each entry of the array is a slot; together they list the route."""
    slots = slots_of('[{"T":{"a":[0]},"U":"*"},{"T":{"a":[1],"b":"*"}}]')

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
    """The error names a missing, repeated or unknown queue, and the option."""
    with pytest.raises(OptionError, match=f"messageQueueList = {what}"):
        list_queues(slots_of(text), ROUTE)
