"""Times and durations are read as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.offsets.strict_json import LAST_OFFSET
from pyspark_rocketmq.options.values import OptionText, read_duration_ms, read_time_ms

NOW_MS = 1_769_817_600_000


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("0", 0), ("500", 500), ("+500", 500), ("500ms", 500), (" 30s ", 30_000), ("15 M", 900_000), ("2h", 7_200_000)],
)
def test_durations(text: str, duration_ms: int) -> None:
    """A duration is an integer of milliseconds or a number with a unit, in any case."""
    assert read_duration_ms(OptionText("maxTriggerDelay", text)) == duration_ms


@pytest.mark.parametrize("text", ["", "s", "1.5s", "-5", "5 weeks", "1h30m", "٣s", "9" * 5000])
def test_no_durations(text: str) -> None:
    """If a text is not a duration, the error lists the units."""
    with pytest.raises(OptionError, match=r"OPTION_VALUE.*maxTriggerDelay.*not a duration; .*ms, s, m, h or d"):
        read_duration_ms(OptionText("maxTriggerDelay", text))


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("0", 0),
        ("1769817600000", NOW_MS),
        ("2026-01-31T00:00:00Z", NOW_MS),
        ("2026-01-31T08:00:00+08:00", NOW_MS),
        ("2026-01-31T00:00:00.0001Z", NOW_MS + 1),
        ("1969-01-01T00:00:00Z", 0),
        ("-2h", NOW_MS - 7_200_000),
        ("-5000", NOW_MS - 5000),
        ("-99999999d", 0),
        (str(LAST_OFFSET), LAST_OFFSET),
    ],
)
def test_times(text: str, time_ms: int) -> None:
    """A time is milliseconds, ISO-8601 with a zone (rounded up), or a time ago; times before 1970 become 1970."""
    assert read_time_ms(OptionText("startingTimestamp", text, NOW_MS)) == time_ms


@pytest.mark.parametrize("text", ["", "now", "-", "--5", "-+5s", "5s", "2026-13-01T00:00:00Z", str(LAST_OFFSET + 1)])
def test_no_times(text: str) -> None:
    """If a text is not a time, the error shows all three forms."""
    with pytest.raises(OptionError, match=r"startingTimestamp = .*not a time; .*1970.*2026-01-31T00:00:00Z.*-2h"):
        read_time_ms(OptionText("startingTimestamp", text, NOW_MS))


@pytest.mark.parametrize("text", ["2026-01-31T08:00:00", "2026-01-31 08:00", "2026-01-31T08"])
def test_a_time_without_zone_shows_both_spellings(text: str) -> None:
    """If a time has no zone, the error repeats it with a zone, once in UTC and once with another offset."""
    with pytest.raises(OptionError, match=r"2026-01-31T08:00:00Z or 2026-01-31T08:00:00\+08:00"):
        read_time_ms(OptionText("startingTimestamp", text, NOW_MS))


@given(st.text(max_size=30))
def test_text_is_read_or_refused(text: str) -> None:
    """Any text is either read as a time or duration, or refused with an `OptionError`."""
    try:
        assert 0 <= read_time_ms(OptionText("startingTimestamp", text, NOW_MS)) <= LAST_OFFSET
    except OptionError as error:
        assert error.option == "startingTimestamp"
