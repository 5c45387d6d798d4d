"""Options that request offsets have ranks, and may only name existing queues."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.offsets.requested import EndSettings, Keyword, StartSettings
from tests.offsets.fixtures import A0, A1, B0, QUEUES, U0, read_times, read_tree

EARLIEST, LATEST, GROUP = Keyword.EARLIEST, Keyword.LATEST, Keyword.GROUP


def test_exact_entries_outrank_any_id_and_any_broker() -> None:
    """An exact id at a named broker comes first, then `*` ids at that broker, the id at `*` brokers, `*` at `*`."""
    parsed = read_tree('{"T":{"a":{"0":1,"*":2},"*":{"1":3,"0":4,"*":5}}}')

    assert [parsed.target(queue) for queue in (A0, A1, B0)] == [1, 2, 4]
    assert parsed.target(B0._replace(queue_id=7)) == 5
    assert parsed.target(U0) is None


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
    """If JSON names a topic, broker or queue id that does not exist, the error names it."""
    with pytest.raises(OptionError, match=what):
        StartSettings(read_tree(text)).requested.require_known(QUEUES)


def test_known_names_with_stars() -> None:
    """In JSON `*` stands for every existing broker or queue id."""
    StartSettings(read_tree('{"T":{"*":{"0":5,"1":6,"*":7},"b":{"*":8}}}')).requested.require_known(QUEUES)


def test_rank_of_starting_options() -> None:
    """Times outrank offsets, and one time for all queues outranks times by queue; only `group` outranks times."""
    times = read_times('{"T":5}')

    by_group = StartSettings(GROUP, time_ms=1, times=times).requested
    by_latest = StartSettings(LATEST, EARLIEST, time_ms=1, times=times, if_too_young=LATEST).requested

    names = ["startingTimestamp", "startingOffsetsByTimestamp"]
    assert [layer.option for layer in by_group.layers] == ["startingOffsets", *names]
    assert [layer.option for layer in by_latest.layers] == [*names, "startingOffsets"]
    assert (by_latest.fallback, by_latest.if_too_young) == (EARLIEST, LATEST)


def test_rank_of_ending_options() -> None:
    """For ends, times outrank offsets; queues that no option names are read to their latest offset."""
    requested = EndSettings(read_tree('{"T":{"a":{"0":5}}}'), time_ms=1).requested

    assert [layer.option for layer in requested.layers] == ["endingTimestamp", "startingOffsets"]
    assert (requested.fallback, requested.if_too_young) == (LATEST, LATEST)
