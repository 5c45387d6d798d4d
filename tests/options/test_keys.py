"""If a key is misspelt, the error holds the name that was meant; other unknown keys are only logged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.options.keys import edit_distance
from tests.options.samples import LEAST, error_of, read

WORDS = st.text("abc", max_size=6)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("subscrbe", "subscribe"),
        ("starting_offsets", "startingOffsets"),
        ("starting.offsets", "startingOffsets"),
        ("name-server", "nameServer"),
        ("tgas", "tags"),
        ("maxOffsetPerTriger", "maxOffsetsPerTrigger"),
        ("failOnDatalsos", "failOnDataLoss"),
        ("rocketmq.subscribe", "subscribe"),
        ("rocketmq.pullBatchSze", "rocketmq.pullBatchSize"),
        ("rocketmq.group", "group"),
        ("tls.client.trustPath", "tls.client.trustCertPath"),
        ("kafkaConsumer.pollTimeout", "kafkaConsumer.pollTimeoutMs"),
    ],
)
def test_a_near_miss_names_what_was_meant(key: str, meant: str) -> None:
    """If a key has a wrong prefix, separator or order of letters, the error holds the name that was meant."""
    error = error_of(LEAST | {key: "1"})

    assert error.code == "OPTION_UNKNOWN"
    assert str(error).startswith(f"[OPTION_UNKNOWN] {key} = '")
    assert f"did you mean {meant}" in str(error)


@pytest.mark.parametrize("key", ["header", "mergeSchema", "tax", "modes2", "ctx.notebook", "checkpointLocation"])
def test_foreign_names_pass(key: str) -> None:
    """If an unknown key is not similar to an option's name, it is ignored; short keys must be more similar."""
    assert read(LEAST | {key: "1"}) == read(LEAST)


def test_foreign_names_are_warned_about_once_the_use_is_known(caplog: pytest.LogCaptureFixture) -> None:
    """If the use is known, one warning names an unknown key without its value; before, nothing is logged."""
    read(LEAST | {"theirPassword": "hush"}, stream=None)
    assert caplog.messages == []

    read(LEAST | {"theirPassword": "hush", "checkpointLocation": "/x"})

    assert caplog.messages == ["option theirPassword is not known here and has no effect"]


def test_all_fails_on_foreign_names() -> None:
    """With `strictOptions=all` every unknown key raises an error."""
    error = error_of(LEAST | {"header": "hush", "strictOptions": "all"})

    assert error.code == "OPTION_UNKNOWN" and "header = '***'" in str(error)


def test_warn_fails_on_no_unknown_name(caplog: pytest.LogCaptureFixture) -> None:
    """With `strictOptions=warn` misspelt keys and unknown keys with a prefix of this source are only logged."""
    lenient = LEAST | {"strictOptions": "warn"}

    assert read(lenient | {"subscrbe": "x", "rocketmq.x": "1"}) == read(LEAST)
    assert len(caplog.messages) == 2
    assert error_of(lenient | {"numTasks": "1"}).code == "OPTION_REFUSED"


def test_a_misspelt_secret_is_not_shown() -> None:
    """If the key of a secret is misspelt, the error does not show the value."""
    text = str(error_of(LEAST | {"secretKye": "hush"}))

    assert "secretKye = '***'" in text and "secretKey" in text
    assert "hush" not in str(error_of(LEAST | {"rocketmq.their.secret": "hush"}))


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "xbc", 1), ("abc", "ac", 1), ("ca", "abc", 3)],
)
def test_edit_distance(first: str, second: str, distance: int) -> None:
    """Two neighbouring letters that are swapped count as one step of the edit distance."""
    assert edit_distance(first, second) == distance


@given(WORDS, WORDS)
def test_edit_distance_is_symmetric_and_bounded(first: str, second: str) -> None:
    """The edit distance is symmetric, and lies between the difference of the two lengths and the greater length."""
    distance = edit_distance(first, second)

    assert distance == edit_distance(second, first)
    assert abs(len(first) - len(second)) <= distance <= max(len(first), len(second))
