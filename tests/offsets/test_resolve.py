"""Requested offsets are resolved to an offset for each queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from pyspark_rocketmq.errors import OffsetBeforeEarliest, OffsetBeyondEnd, OffsetWentBack, OptionError
from pyspark_rocketmq.model import Finding, MessageQueue, QueueBounds, QueueRange
from pyspark_rocketmq.offsets.loss import settle_starts
from pyspark_rocketmq.offsets.requested import EndSettings, Keyword, StartSettings
from pyspark_rocketmq.offsets.resolve import Resolved, opened_if_late, resolve_batch, resolve_offsets
from tests.offsets.fixtures import A0, A1, B0, QUEUES, U0, KnownOffsets, read_times, read_tree

EARLIEST, LATEST, GROUP = Keyword.EARLIEST, Keyword.LATEST, Keyword.GROUP


def resolved(settings: StartSettings, source: KnownOffsets) -> Resolved:
    """Return what the requested starts of a new query resolve to."""
    return resolve_offsets(settings.requested, QUEUES, source.fetch_bounds(QUEUES), source)


def start(settings: StartSettings, source: KnownOffsets) -> dict[MessageQueue, int]:
    """Return the start positions of a new query; raise if one of them is a loss."""
    positions = resolved(settings, source).positions
    return settle_starts(positions, source.bounds, fail_on_data_loss=True).positions


@pytest.mark.parametrize(("keyword", "offset"), [(EARLIEST, 10), (LATEST, 100)])
def test_keywords(keyword: Keyword, offset: int) -> None:
    """If `earliest` or `latest` is requested, every queue starts at that bound, after one request for all queues."""
    source = KnownOffsets()

    assert start(StartSettings(keyword), source) == dict.fromkeys(QUEUES, offset)
    assert source.asked == ["bounds", "readable"][: 1 + (keyword is EARLIEST)]


def test_earliest_is_the_first_readable_message() -> None:
    """Queues that start at earliest, or at a time before their first message, start at the first readable message."""
    source = KnownOffsets(readable={A0: 15, U0: 100})
    times = read_times('{"T":{"a":{"0":0,"1":300}}}')

    found = resolved(StartSettings(EARLIEST, times=times), source)

    assert (found.positions, found.opened) == ({A0: 15, A1: 30, B0: 10, U0: 100}, {A0: 15, B0: 10, U0: 100})
    assert source.asked.count("readable") == 1


def test_an_empty_queue_has_no_first_message() -> None:
    """If a queue is empty, no first readable message is searched, since none can be missing."""
    source = KnownOffsets(bounds=dict.fromkeys(QUEUES, QueueBounds(7, 7)))

    assert resolved(StartSettings(EARLIEST), source) == (dict.fromkeys(QUEUES, 7), (), {})
    assert source.asked == ["bounds"]


@pytest.mark.parametrize(
    ("settings", "alone", "committed"),
    [
        (StartSettings(LATEST), 10, 77),
        (StartSettings(EARLIEST), 10, 10),
        (StartSettings(LATEST, time_ms=500), 10, 77),
        (StartSettings(GROUP, LATEST), 10, 77),
        (StartSettings(read_tree('{"T":{"*":{"*":50}}}')), 10, 77),
        (StartSettings(read_tree('{"T":{"*":{"*":50}},"U":{"*":{"*":-1}}}')), 100, 100),
    ],
)
def test_of_retries_nothing_is_left_out(settings: StartSettings, alone: int, committed: int) -> None:
    """If no option names the retry topic, it starts at the group's position, or else at its first message."""
    wanted = replace(settings, retry_topic=U0.topic)

    assert start(wanted, KnownOffsets())[U0] == alone
    assert start(wanted, KnownOffsets(committed=dict.fromkeys(QUEUES, 77)))[U0] == committed


def test_json_then_default() -> None:
    """If JSON leaves out a queue, the queue starts at the default."""
    tree = read_tree('{"T":{"a":{"0":50,"1":-1}}}')

    assert start(StartSettings(tree, EARLIEST), KnownOffsets()) == {A0: 50, A1: 100, B0: 10, U0: 10}


def test_left_out_without_default() -> None:
    """If JSON leaves out queues and there is no default, the error names the first of them."""
    with pytest.raises(OptionError, match=r"T/b/0 \(2 such queues\); .*set startingOffsetsDefault"):
        start(StartSettings(read_tree('{"T":{"a":{"*":50}}}')), KnownOffsets())


def test_group_then_time_then_default() -> None:
    """With `group`, a committed position outranks a time, even position 0; queues without a position start by time."""
    source = KnownOffsets(bounds=dict.fromkeys(QUEUES, QueueBounds(0, 100)), committed={A0: 0, A1: 77})

    assert start(StartSettings(GROUP, time_ms=205), source) == {A0: 0, A1: 77, B0: 21, U0: 21}
    assert source.asked == ["bounds", "committed", "times"]


def test_group_sentinel_falls_through_to_the_default() -> None:
    """If JSON requests the group's position for a queue and there is none, the queue starts at the default."""
    tree = read_tree('{"T":{"*":{"*":-3}},"U":{"a":{"0":12}}}')
    source = KnownOffsets(committed={B0: 30})

    assert start(StartSettings(tree, LATEST), source) == {A0: 100, A1: 100, B0: 30, U0: 12}


def test_time_by_queue_outranks_offsets() -> None:
    """If a queue has both a time and an offset, the time decides; a queue with an offset only starts at the offset."""
    times = read_times('{"T":{"a":{"0":300}}}')
    tree = read_tree('{"T":{"*":{"*":50}},"U":{"*":{"*":51}}}')

    assert start(StartSettings(tree, times=times), KnownOffsets()) == {A0: 30, A1: 50, B0: 50, U0: 51}


def test_time_before_the_first_message_means_the_first() -> None:
    """If a time lies before the first message, the queue starts at its first message."""
    assert start(StartSettings(time_ms=0), KnownOffsets()) == dict.fromkeys(QUEUES, 10)


@pytest.mark.parametrize("bounds", [QueueBounds(10, 100), QueueBounds(100, 100), QueueBounds(0, 0)])
def test_no_message_that_young(bounds: QueueBounds) -> None:
    """If no message is stored at or after the requested time, the strategy decides: the queue's end, or an error."""
    source = KnownOffsets(bounds=dict.fromkeys(QUEUES, bounds))

    assert start(StartSettings(time_ms=5000, if_too_young=LATEST), source) == dict.fromkeys(QUEUES, bounds.max_offset)
    with pytest.raises(
        OptionError, match=r"startingTimestamp: no message of T/a/0 .* 5000 .*ByTimestampStrategy=latest"
    ):
        start(StartSettings(time_ms=5000), source)


def test_options_that_have_no_say_are_told() -> None:
    """If other options outrank an option for every queue, its name is reported; that of a default is not."""
    settings = StartSettings(read_tree('{"T":{"a":{"0":50}}}'), time_ms=300)
    by_group = StartSettings(GROUP, EARLIEST)
    source = KnownOffsets(committed=dict.fromkeys(QUEUES, 20))

    assert resolved(settings, source).outranked == ("startingOffsets",)
    assert resolved(by_group, source).outranked == ()


def test_an_option_for_other_queues_is_outranked_too() -> None:
    """If the only queue that an option names gets its offset elsewhere, the option is reported, whatever is left."""
    settings = StartSettings(read_tree('{"T":{"a":{"0":50}}}'), EARLIEST, times=read_times('{"T":{"a":{"0":300}}}'))

    found = resolved(settings, KnownOffsets())

    assert found.positions == {A0: 30, A1: 10, B0: 10, U0: 10}
    assert found.outranked == ("startingOffsets",)


def test_a_new_queue_is_open_only_if_its_first_messages_are_gone() -> None:
    """A queue that was found late begins at its minimum; one whose minimum is 0 is read from there, and left out."""
    bounds = {A0: QueueBounds(0, 5), A1: QueueBounds(1, 5), B0: QueueBounds(7, 7)}

    assert opened_if_late(bounds) == {A1: 1, B0: 7}


def test_unknown_queue() -> None:
    """If JSON names an unknown queue, an error is raised before any request to the source."""
    with pytest.raises(OptionError, match="there is no queue 9"):
        start(StartSettings(read_tree('{"T":{"a":{"9":1}}}'), EARLIEST), KnownOffsets())


def test_explicit_start_outside_what_is_there() -> None:
    """If requested offsets lie outside the bounds, the query fails or they move to the nearer bound with a warning."""
    settings = StartSettings(read_tree('{"T":{"a":{"0":5,"1":101},"b":{"0":10}},"U":{"a":{"0":100}}}'))
    source = KnownOffsets()

    settled = settle_starts(resolved(settings, source).positions, source.bounds, fail_on_data_loss=False)

    assert settled.positions == {A0: 10, A1: 100, B0: 10, U0: 100}
    assert [warning.finding for warning in settled.warnings] == [Finding.BELOW_MIN, Finding.ABOVE_MAX]
    with pytest.raises(OffsetBeforeEarliest):
        start(settings, source)


def test_batch_between_times() -> None:
    """A batch covers the messages from the first one at or after the start time up to the end time."""
    plan = resolve_batch(
        StartSettings(time_ms=200).requested,
        EndSettings(time_ms=299).requested,
        QUEUES,
        KnownOffsets(),
        fail_on_data_loss=True,
    )

    assert plan.ranges == [QueueRange(queue, 20, 30) for queue in QUEUES]


def test_batch_end_by_queue() -> None:
    """If ends are requested by queue, other queues, and times after the last message, end at the latest offset."""
    ends = EndSettings(read_tree('{"T":{"a":{"0":40,"1":-1},"b":{"0":10}}}', "endingOffsets"))

    plan = resolve_batch(
        StartSettings(EARLIEST).requested, ends.requested, QUEUES, KnownOffsets(), fail_on_data_loss=True
    )
    late = resolve_batch(
        StartSettings(EARLIEST).requested,
        EndSettings(time_ms=9999).requested,
        [U0],
        KnownOffsets(),
        fail_on_data_loss=True,
    )

    assert plan.ranges == [QueueRange(A0, 10, 40, True), QueueRange(A1, 10, 100, True), QueueRange(U0, 10, 100, True)]
    assert late.ranges == [QueueRange(U0, 10, 100, True)]


class LiveOffsets(KnownOffsets):
    """A source whose queues get ten more messages at each request for positions; the group has read all of them."""

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """Add ten messages to each queue, and return the new ends as the group's positions."""
        self.bounds = {queue: at._replace(max_offset=at.max_offset + 10) for queue, at in self.bounds.items()}
        return {queue: self.bounds[queue].max_offset for queue in queues}


@pytest.mark.parametrize("fatal", [True, False])
def test_a_batch_that_begins_at_a_live_groups_position_finds_no_loss(fatal: bool) -> None:
    """If the group reads on while its positions and the bounds are fetched, the batch finds no loss."""
    plan = resolve_batch(
        StartSettings(GROUP, EARLIEST).requested,
        EndSettings().requested,
        QUEUES,
        LiveOffsets(),
        fail_on_data_loss=fatal,
    )

    assert plan.ranges == [] and plan.warnings == []


class AskedPositions(KnownOffsets):
    """A source that notes for which queues positions are requested."""

    def fetch_committed(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, int]:
        """Note the queues, and return the positions that the test set."""
        self.asked += map(str, queues)
        return KnownOffsets.fetch_committed(self, queues)


@pytest.mark.parametrize(
    ("start", "asked"),
    [
        (StartSettings(EARLIEST), []),
        (StartSettings(read_tree('{"T":{"*":{"*":-3}}}'), EARLIEST), ["T/a/0", "T/a/1", "T/b/0", "committed"]),
    ],
)
def test_positions_are_requested_only_where_they_are_wanted(start: StartSettings, asked: list[str]) -> None:
    """A batch requests the group's positions in queues that may begin or end there, and sends no request for none."""
    source = AskedPositions()

    resolve_batch(start.requested, EndSettings().requested, QUEUES, source, fail_on_data_loss=True)

    assert source.asked == [*asked, "bounds", "readable"]


def test_end_below_start() -> None:
    """If the requested end lies below the start, an error is raised."""
    ends = EndSettings(read_tree('{"T":{"a":{"0":9}}}', "endingOffsets"))

    with pytest.raises(OptionError, match="endingOffsets: the end 9 of T/a/0 lies below its start 10"):
        resolve_batch(StartSettings(EARLIEST).requested, ends.requested, QUEUES, KnownOffsets(), fail_on_data_loss=True)


def test_end_below_a_start_that_retention_moved() -> None:
    """If retention deleted the whole requested range, the range is empty and there is a warning."""
    starts, ends = read_tree('{"T":{"a":{"0":0}}}'), read_tree('{"T":{"a":{"0":5}}}', "endingOffsets")

    plan = resolve_batch(
        StartSettings(starts).requested, EndSettings(ends).requested, [A0], KnownOffsets(), fail_on_data_loss=False
    )

    assert plan.ranges == []
    assert [(each.finding, each.planned, each.found) for each in plan.warnings] == [(Finding.BELOW_MIN, 0, 10)]


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "error"),
    [(500, -1, OffsetBeyondEnd), (50, 600, OffsetWentBack), (5, 50, OffsetBeforeEarliest)],
)
def test_batch_outside_what_is_there(start_offset: int, end_offset: int, error: type[Exception]) -> None:
    """Each way to request offsets outside a queue's bounds raises its own error."""
    starts = StartSettings(read_tree(f'{{"T":{{"a":{{"0":{start_offset}}}}}}}')).requested
    ends = EndSettings(read_tree(f'{{"T":{{"a":{{"0":{end_offset}}}}}}}', "endingOffsets")).requested

    with pytest.raises(error, match=f"{start_offset if error is not OffsetWentBack else end_offset}.*failOnDataLoss"):
        resolve_batch(starts, ends, [A0], KnownOffsets(), fail_on_data_loss=True)
