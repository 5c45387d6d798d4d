"""JSON that names queues is read with all its levels; an error names the topic, broker and id with the wrong value."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.offsets.requested import AtTime, Keyword
from pyspark_rocketmq.options.queue_json import read_assignment, read_offsets, read_queue_lists, read_times
from pyspark_rocketmq.options.values import OptionText
from tests.offsets.fixtures import QUEUES, read_tree

EARLIEST, LATEST, GROUP = Keyword.EARLIEST, Keyword.LATEST, Keyword.GROUP


@pytest.mark.parametrize(("text", "keyword"), [("earliest", EARLIEST), (" Latest ", LATEST), ("GROUP", GROUP)])
def test_keywords(text: str, keyword: Keyword) -> None:
    """Keywords such as `earliest` are read in any case."""
    assert read_offsets(OptionText("startingOffsets", text)) is keyword


def test_sentinels() -> None:
    """In JSON, -2, -1 and -3 mean the keywords earliest, latest and group, and numbers from 0 are offsets."""
    parsed = read_tree('{"T":{"a":{"0":-2,"1":-1},"b":{"0":-3}},"U":{"a":{"0":9223372036854775807}}}')

    assert [parsed.target(queue) for queue in QUEUES] == [EARLIEST, LATEST, GROUP, 2**63 - 1]
    assert parsed.uses(GROUP) and not read_tree('{"T":{"a":{"0":5}}}').uses(GROUP)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("oldest", "unknown; give earliest, latest, group, or JSON"),
        ("[]", "unknown"),
        ('{"T":5}', "T is not an object"),
        (
            '{"T":{"a":{"0":-4}}}',
            r"T/a/0 is -4; give an offset from 0, or -2 \(earliest\), -1 \(latest\), -3 \(group\)",
        ),
        ('{"T":{"a":{"0":5.0}}}', "T/a/0 is 5.0"),
        ('{"T":{"a":{"0":true}}}', "T/a/0 is true"),
        ('{"T":{"a":{"0":"5"}}}', 'T/a/0 is "5"'),
        ('{"T":{"a":{"0":null}}}', "T/a/0 is null"),
        ('{"T":{"a":{"0":9223372036854775808}}}', "T/a/0 is 9223372036854775808"),
        ('{"T":{"a":{"00":5}}}', "T/a/00 is no queue"),
        ('{"T":{"a":{"0":1,"0":1}}}', "key '0' appears twice"),
    ],
)
def test_refused_offsets(text: str, what: str) -> None:
    """If JSON of offsets is wrong, the error says where and what is accepted."""
    with pytest.raises(OptionError, match=what) as raised:
        read_offsets(OptionText("startingOffsets", text))

    assert raised.value.option == "startingOffsets"


def test_two_levels_are_answered_with_three() -> None:
    """If offsets have Kafka's two levels, the error repeats them with `*` added as the broker."""
    with pytest.raises(OptionError) as raised:
        read_offsets(OptionText("startingOffsets", '{"T":{"0":5,"1":-2},"U":{"a":{"0":7}}}'))

    assert '{"T": {"*": {"0": 5, "1": -2}}, "U": {"a": {"0": 7}}}' in str(raised.value)


@pytest.mark.parametrize("text", ["earliest", "group", '{"T":{"a":{"0":-2}}}', '{"T":{"a":{"0":-3}}}'])
def test_an_end_is_latest_or_an_offset(text: str) -> None:
    """If only `latest` is accepted, other keywords are refused, as words and as numbers."""
    with pytest.raises(OptionError, match="endingOffsets"):
        read_offsets(OptionText("endingOffsets", text), [LATEST])
    assert read_offsets(OptionText("endingOffsets", "latest"), [LATEST]) is LATEST


def test_times_by_topic_and_by_queue() -> None:
    """JSON sets one time for a topic or one for each queue, as a number or as text."""
    parsed = read_times(OptionText("x", '{"U":"-1s","T":{"a":{"0":"1970-01-01T00:00:05Z","1":7}}}', 9000))

    assert [parsed.target(queue) for queue in QUEUES] == [AtTime(5000), AtTime(7), None, AtTime(8000)]


@pytest.mark.parametrize("text", ['{"T":-1}', '{"T":1.5}', '{"T":true}', '{"T":"soon"}', '{"T":{"0":5}}', "5"])
def test_refused_times(text: str) -> None:
    """Negative numbers, fractions and JSON in two levels are refused as times."""
    with pytest.raises(OptionError, match="startingOffsetsByTimestamp"):
        read_times(OptionText("startingOffsetsByTimestamp", text))


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
def test_refused_assignments(text: str) -> None:
    """If the JSON of `assign` has another shape, it is refused."""
    with pytest.raises(OptionError, match=r"\[OPTION_VALUE\] assign = "):
        read_assignment(OptionText("assign", text))


@pytest.mark.parametrize("text", ["{}", "[]", "[1]"])
def test_no_array_of_slots(text: str) -> None:
    """If the JSON of `messageQueueList` is not a non-empty array of objects, it is refused."""
    with pytest.raises(OptionError, match="messageQueueList"):
        read_queue_lists(OptionText("messageQueueList", text))
