"""A position that is written to Spark's log and read back is the same position."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import MalformedFrame, OptionError
from pyspark_rocketmq.model import MessageQueue, QueueRange
from pyspark_rocketmq.offsets.position import SENTINEL, Position, advance, batch_ranges, parse_position, position_json
from tests.offsets.fixtures import A0, A1, B0, GOLDEN

Q0, Q1 = MessageQueue("TopicTest", "broker-a", 0), MessageQueue("TopicTest", "broker-a", 1)
RELEASED: dict[str, Position | None] = {
    "v1-sentinel": None,
    "v1-first": Position({Q0: 620, Q1: 480}, {Q0: 120, Q1: 0}, "spark-orders"),
    "v1-later": Position({Q0: 900, Q1: 480}, {}, "spark-orders"),
    "v1-order": Position(
        {
            MessageQueue("t", "B", 0): 5,
            **{
                MessageQueue("T", "broker-10", queue_id): offset
                for queue_id, offset in {2: 2, 10: 3, 0: 7, 1: 1}.items()
            },
            MessageQueue("T", "broker-2", 0): 2**63 - 1,
            MessageQueue("%RETRY%G", "broker-a", 0): 0,
        }
    ),
    "v1-escapes": Position({MessageQueue("订单", "broker-a", 0): 1}),
    "v2-open": Position({Q0: 620, Q1: 480}, {Q0: 120, Q1: 0}, "spark-orders", {Q0: 120}),
}

queues = st.builds(
    MessageQueue, st.text(min_size=1, max_size=3), st.text("ab-1", min_size=1), st.integers(0, 2**31 - 1)
)
positions = st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=6)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["next", "begin", "group", "version", "0", "T"]), inner, max_size=4)
    ),
)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("v*.json")), ids=lambda path: path.stem)
def test_released_offsets_are_read_and_written_alike(path: Path) -> None:
    """An offset written by an earlier release is read with the same meaning, and written again as the same text."""
    text = path.read_text(encoding="utf-8")
    expected = RELEASED[path.stem]

    assert parse_position(text) == parse_position(json.loads(text)) == expected
    assert json.dumps(position_json(expected)) == text


def test_every_meaning_above_has_its_file() -> None:
    """Every golden file of an offset is covered by the tests of this module."""
    assert {path.stem for path in GOLDEN.glob("v*.json")} == RELEASED.keys()
    assert json.dumps(position_json(None)) == json.dumps(SENTINEL)


@given(positions, positions, st.none() | st.text(), positions)
def test_written_then_read(
    next_: dict[MessageQueue, int], begin: dict[MessageQueue, int], group: str | None, opened: dict[MessageQueue, int]
) -> None:
    """A position that is written and read back is equal, and its text does not depend on the order of queues."""
    position = Position(next_, begin, group, opened)
    turned_next, turned_begin, turned_open = (dict(reversed(each.items())) for each in (next_, begin, opened))
    turned = Position(turned_next, turned_begin, group, turned_open)

    assert parse_position(str(position)) == position
    assert str(turned) == str(position)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not standard JSON"),
        ("[]", "the offset is not an object"),
        ("{}", "no version"),
        ('{"next": {}}', "no version"),
        ('{"version": 0}', "no version"),
        ('{"version": true}', "no version"),
        ('{"version": 1.0}', "no version"),
        ('{"version": 3, "shape": []}', "written by a newer release"),
        ('{"version": 1, "version": 1}', "key 'version' appears twice"),
        ('{"version": 1, "end": 5}', "unknown key 'end'"),
        ('{"version": 1, "group": "g"}', "'next' is missing"),
        ('{"version": 1, "next": {}, "group": null}', "'group' is not text"),
        ('{"version": 1, "next": null}', "positions is not an object"),
        ('{"version": 1, "next": {"T": 5}}', "T is not an object"),
        ('{"version": 1, "next": {"T": {"0": 5}}}', "T/0 is not an object"),
        ('{"version": 1, "next": {"T": {"a": {"0": -1}}}}', "T/a/0 is -1, no position"),
        ('{"version": 1, "next": {"T": {"a": {"0": 5.0}}}}', "T/a/0 is 5.0, no position"),
        ('{"version": 1, "next": {"T": {"a": {"01": 5}}}}', "T/a/01 is 5, no position"),
        ('{"version": 1, "next": {}, "begin": null}', "positions is not an object"),
        ('{"version": 2, "next": {}, "open": {"T": {"a": {"0": -1}}}}', "T/a/0 is -1, no position"),
        ('{"version": 1, "next": {"T": {"a": {"0": 9223372036854775808}}}}', "no position"),
    ],
)
def test_refusals(text: str, what: str) -> None:
    """If a log holds an offset that this release cannot have written, the error gives advice."""
    with pytest.raises(OptionError, match=f"checkpointLocation = .*{what}") as raised:
        parse_position(text)

    if "JSON" not in what and "twice" not in what:
        assert "or a new checkpoint" in str(raised.value)


def test_a_refused_offset_is_shown_as_the_text_in_the_log() -> None:
    """The error shows the offset as it stands in Spark's log, also if Spark has parsed it already."""
    text = '{"version": 1, "end": 5}'

    errors = []
    for stored in (text, json.loads(text)):
        with pytest.raises(OptionError) as raised:
            parse_position(stored)
        errors.append(str(raised.value))

    assert errors[0] == errors[1]
    assert f"checkpointLocation = '{text}': unknown key 'end'" in errors[0]


@given(anything)
def test_any_json_is_read_or_refused(value: object) -> None:
    """Any JSON value is either read as a position or refused with an `OptionError`."""
    try:
        parsed = parse_position(json.dumps(value))
    except OptionError as error:
        assert error.option == "checkpointLocation"
    else:
        assert parse_position(position_json(parsed)) == parsed


def test_first_offset_pins_the_begin_of_every_queue() -> None:
    """The first position of a query holds the starts of all queues in `begin`, even if the batch reads nothing."""
    held_back = advance(None, {A0: 5, A1: 0}, {A0: 5, A1: 0}, "g")

    assert held_back == Position({A0: 5, A1: 0}, {A0: 5, A1: 0}, "g")
    assert batch_ranges(None, held_back) == []


def test_later_offsets_begin_only_what_starts_elsewhere() -> None:
    """New queues and queues whose start moved are in `begin`; a queue that continues where it ended is not."""
    first = Position({A0: 5, A1: 8}, {A0: 0, A1: 0})

    second = advance(first, {A0: 5, A1: 10, B0: 3}, {A0: 9, A1: 12, B0: 3})

    assert second == Position({A0: 9, A1: 12, B0: 3}, {A1: 10, B0: 3})
    assert batch_ranges(first, second) == [QueueRange(A0, 5, 9), QueueRange(A1, 10, 12)]


def test_nothing_new_returns_the_same_offset() -> None:
    """If nothing is read, the query keeps its position with `begin` and group, so that its text stays equal."""
    first = Position({A0: 5}, {A0: 0}, "g")

    assert advance(first, {A0: 5}, {A0: 5}, "g") is first
    assert advance(first, {A0: 5}, {A0: 5}, "other") is first
    assert advance(first, {A0: 5}, {A0: 6}, "g") == Position({A0: 6}, {}, "g")


def test_a_queue_that_is_given_up_leaves_the_offset() -> None:
    """If a queue has no end in the new batch, it is removed from the position."""
    first = Position({A0: 5, A1: 8})

    second = advance(first, {A0: 5}, {A0: 5})

    assert second == Position({A0: 5})
    assert batch_ranges(first, second) == []


@pytest.mark.parametrize(
    ("start", "end", "what"),
    [
        (Position({A0: 5}), Position({A0: 4}), "end 4 of T/a/0 lies below its start 5"),
        (Position({A0: 5}), Position({A0: 6}, {A0: 7}), "end 6 of T/a/0 lies below its start 7"),
        (Position({A0: 5}), Position({A0: 5, A1: 2}), "an end without a start"),
        (None, Position({A0: 5}), "an end without a start"),
    ],
)
def test_offsets_that_do_not_follow_each_other(start: Position | None, end: Position, what: str) -> None:
    """If no query can have logged two positions one after the other, they are refused."""
    with pytest.raises(OptionError, match=what):
        batch_ranges(start, end)


def test_a_begin_allows_an_end_below_the_previous_one() -> None:
    """If a topic was deleted and created again, a range may lie below the previous position."""
    assert batch_ranges(Position({A0: 500}), Position({A0: 20}, {A0: 10})) == [QueueRange(A0, 10, 20)]


def test_an_open_front_lasts_until_something_of_the_queue_is_read() -> None:
    """A queue's front stays open until a batch reads from the queue; only this range has the open front."""
    first = advance(None, {A0: 5, A1: 0}, {A0: 5, A1: 7}, opened={A0: 5, A1: 0})
    second = advance(first, {A0: 5, A1: 7}, {A0: 6, A1: 8}, opened=first.still_open)

    assert batch_ranges(None, first) == [QueueRange(A1, 0, 7, is_front_open=True)]
    assert batch_ranges(first, second) == [QueueRange(A0, 5, 6, is_front_open=True), QueueRange(A1, 7, 8)]
    assert second.still_open == {}


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 2**63), (0, 10**30)])
def test_what_is_no_offset_never_enters_a_checkpoint(start: int, end: int) -> None:
    """If a start or end is no legal offset, an error is raised before it can be written to the checkpoint."""
    with pytest.raises(MalformedFrame, match=r"T/a/0 is at .*, which is not an offset"):
        advance(None, {A0: start}, {A0: end})
