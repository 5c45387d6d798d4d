"""What users may write about offsets, and which option has the say."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.offsets.requested import (
    AtTime,
    EndSettings,
    Keyword,
    QueueTree,
    StartSettings,
    parse_offsets,
    parse_times,
)
from tests.offsets.fixtures import A0, A1, B0, QUEUES, U0

EARLIEST, LATEST, GROUP = Keyword.EARLIEST, Keyword.LATEST, Keyword.GROUP


def tree(text: str) -> QueueTree:
    """Offsets JSON that is known to be right."""
    parsed = parse_offsets(text, "startingOffsets")
    assert isinstance(parsed, QueueTree)
    return parsed


@pytest.mark.parametrize(("text", "keyword"), [("earliest", EARLIEST), (" Latest ", LATEST), ("GROUP", GROUP)])
def test_keywords(text: str, keyword: Keyword) -> None:
    """Keywords are read in any case."""
    assert parse_offsets(text, "startingOffsets") is keyword


def test_sentinels() -> None:
    """-2, -1 and -3 stand for the keywords, everything from 0 for itself."""
    parsed = tree('{"T":{"a":{"0":-2,"1":-1},"b":{"0":-3}},"U":{"a":{"0":9223372036854775807}}}')

    assert [parsed.target(queue) for queue in QUEUES] == [EARLIEST, LATEST, GROUP, 2**63 - 1]
    assert parsed.uses(GROUP) and not tree('{"T":{"a":{"0":5}}}').uses(GROUP)


def test_exact_entries_outrank_any_id_and_any_broker() -> None:
    """An exact entry comes first, then `*` ids of the broker, then the id on `*` brokers, then `*` under `*`."""
    parsed = tree('{"T":{"a":{"0":1,"*":2},"*":{"1":3,"0":4,"*":5}}}')

    assert [parsed.target(queue) for queue in (A0, A1, B0)] == [1, 2, 4]
    assert parsed.target(B0._replace(queue_id=7)) == 5
    assert parsed.target(U0) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("oldest", "unknown; give earliest, latest, group, or JSON"),
        ("[]", "unknown"),
        ('{"T":5}', "T is no object"),
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
    """Each wrong value is refused with its place and with what is accepted."""
    with pytest.raises(OptionError, match=what) as raised:
        parse_offsets(text, "startingOffsets")

    assert raised.value.option == "startingOffsets"


def test_two_levels_are_answered_with_three() -> None:
    """Offsets in Kafka's two levels are refused; the text repeats them with the broker level added."""
    with pytest.raises(OptionError) as raised:
        parse_offsets('{"T":{"0":5,"1":-2},"U":{"a":{"0":7}}}', "startingOffsets")

    assert '{"T": {"*": {"0": 5, "1": -2}}, "U": {"a": {"0": 7}}}' in str(raised.value)


@pytest.mark.parametrize("text", ["earliest", "group", '{"T":{"a":{"0":-2}}}', '{"T":{"a":{"0":-3}}}'])
def test_an_end_is_latest_or_an_offset(text: str) -> None:
    """What is accepted can be narrowed, for keywords and sentinels together."""
    with pytest.raises(OptionError, match="endingOffsets"):
        parse_offsets(text, "endingOffsets", [LATEST])
    assert parse_offsets("latest", "endingOffsets", [LATEST]) is LATEST


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"X":{"a":{"0":5}}}', "topic X is not read here"),
        ('{"T":{"c":{"*":5}}}', "topic T has no queue on broker c"),
        ('{"T":{"b":{"1":5}}}', "there is no queue 1"),
        ('{"T":{"*":{"7":5}}}', "there is no queue 7"),
    ],
)
def test_unknown_names(text: str, what: str) -> None:
    """A topic, broker or id that no queue bears is named."""
    with pytest.raises(OptionError, match=what):
        StartSettings(tree(text)).requested.require_known(QUEUES)


def test_known_names_with_stars() -> None:
    """A star covers whatever is there."""
    StartSettings(tree('{"T":{"*":{"0":5,"1":6,"*":7},"b":{"*":8}}}')).requested.require_known(QUEUES)


def test_times_by_topic_and_by_queue() -> None:
    """A topic has one time, or one per queue, as a number or as text."""
    parsed = parse_times('{"U":"-1s","T":{"a":{"0":"1970-01-01T00:00:05Z","1":7}}}', "x", now_ms=9000)

    assert [parsed.target(queue) for queue in QUEUES] == [AtTime(5000), AtTime(7), None, AtTime(8000)]


@pytest.mark.parametrize("text", ['{"T":-1}', '{"T":1.5}', '{"T":true}', '{"T":"soon"}', '{"T":{"0":5}}', "5"])
def test_refused_times(text: str) -> None:
    """Sentinels, fractions and two levels are no times."""
    with pytest.raises(OptionError, match="startingOffsetsByTimestamp"):
        parse_times(text, "startingOffsetsByTimestamp", now_ms=0)


def test_rank_of_starting_options() -> None:
    """Times outrank offsets, one time for all outranks times by queue; only the keyword `group` comes before them."""
    times = parse_times('{"T":5}', "startingOffsetsByTimestamp", now_ms=0)

    by_group = StartSettings(GROUP, time_ms=1, times=times).requested
    by_latest = StartSettings(LATEST, EARLIEST, time_ms=1, times=times, if_too_young=LATEST).requested

    names = ["startingTimestamp", "startingOffsetsByTimestamp"]
    assert [layer.option for layer in by_group.layers] == ["startingOffsets", *names]
    assert [layer.option for layer in by_latest.layers] == [*names, "startingOffsets"]
    assert (by_latest.fallback, by_latest.if_too_young) == (EARLIEST, LATEST)


def test_rank_of_ending_options() -> None:
    """At the end, too, times outrank offsets; what is left over is read to its latest offset."""
    requested = EndSettings(tree('{"T":{"a":{"0":5}}}'), time_ms=1).requested

    assert [layer.option for layer in requested.layers] == ["endingTimestamp", "startingOffsets"]
    assert (requested.fallback, requested.if_too_young) == (LATEST, LATEST)
