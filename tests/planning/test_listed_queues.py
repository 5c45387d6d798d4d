"""Listed queues are selected from the route, and wrong lists raise errors."""

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
    """Return the queues that this value of the option `assign` lists."""
    return read_assignment(OptionText("assign", text))


def slots_of(text: str) -> tuple[ListedQueues, ...]:
    """Return the queues that each entry of this value of `messageQueueList` lists."""
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
    """Queue ids select single queues and a star selects all, and the result has the order of the route."""
    assignment = assigned(text)

    assignment.require_known(ROUTE)
    assert assignment.select(ROUTE) == selected
    assert assignment.topics == {queue.topic for queue in selected}


def test_a_star_follows_growth() -> None:
    """If a queue is added to the route, a star for its topic selects it, but a star for another broker does not."""
    later = MessageQueue("T", "c", 0)

    assert later in assigned('{"T":"*"}').select([*ROUTE, later])
    assert later not in assigned('{"T":{"a":"*"}}').select([*ROUTE, later])


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"T":{"a":[0,7]}}', "T/a/7"), ('{"T":{"c":"*"}}', "T/c"), ('{"X":"*"}', "X/*"), ('{"X":{"a":[0]}}', "X/a/0")],
)
def test_what_the_route_does_not_have(text: str, name: str) -> None:
    """If the route lacks a listed queue, broker or topic, the error names it."""
    with pytest.raises(OptionError) as raised:
        assigned(text).require_known(ROUTE)

    assert f"assign = '{name}': not in the route" in str(raised.value)


def test_the_first_of_several_missing_names_is_told() -> None:
    """If the route lacks several listed names, the error has the first by name, the same in each run."""
    with pytest.raises(OptionError, match="assign = 'A/a/3'"):
        assigned('{"X":"*","A":{"a":[3,4]},"B":{"c":"*"}}').require_known(ROUTE)


def test_lists_of_slots() -> None:
    """Each entry of `messageQueueList` becomes a slot with the queues that it lists."""
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
    """If a queue is not listed, listed twice or not in the route, the error names the option and the queue."""
    with pytest.raises(OptionError, match=f"messageQueueList = {what}"):
        list_queues(slots_of(text), ROUTE)
