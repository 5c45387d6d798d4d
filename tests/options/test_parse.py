"""Options are checked as soon as their use is known; the user's options outrank the environment."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.options import HelperOptions, parse_helper_options, parse_reader_options
from pyspark_rocketmq.options.option import USES
from pyspark_rocketmq.options.table import OPTIONS
from tests.options.samples import HELPERS_ONLY, LEAST, SAMPLES, error_of, raw_with, read

SCOPED = [
    (option.name, stream)
    for option in OPTIONS
    if not option.is_planned and option.use != "W"
    for stream in (True, False)
    if "BS"[stream] not in option.use
]


@pytest.mark.parametrize(("name", "stream"), SCOPED)
def test_options_of_another_use(name: str, stream: bool) -> None:
    """If an option does not apply to this use, the error names the uses to which it applies."""
    raw = raw_with(name, SAMPLES[name][0])

    error = error_of(raw, stream=stream)

    assert (error.code, error.option in raw) == ("OPTION_SCOPE", True)
    homes = USES["H"] if name in HELPERS_ONLY else USES["B" if stream else "S"]
    assert homes in error.advice
    assert read(raw, stream=None)


def test_the_end_of_a_stream() -> None:
    """If a stream gets an option about the end, the error names the trigger availableNow."""
    assert "availableNow" in str(error_of(LEAST | {"endingOffsets": "latest"}))


@pytest.mark.parametrize(("name", "text"), [("topic", "a b"), ("ordering", "key")])
def test_names_that_mean_two_things(name: str, text: str) -> None:
    """If reads and writes have different options of one name, the value is checked only when the use is known."""
    raw = {"nameServer": "a:1", name: text}

    assert read(raw, stream=None).selection.topics == ()
    assert error_of(raw, stream=True).code == "OPTION_VALUE"


def test_two_names_of_one_option() -> None:
    """If two names of one option are given with equal values, spelled in two ways, they are accepted.

    If the values differ, the error names both.
    """
    assert read(LEAST | {"pullTimeoutMs": "20s", "consumerPullTimeoutMillis": "20000"}).pull.pull_timeout_s == 20.0
    assert read(LEAST | {"topics": "orders", "topic": " orders"}) == read(LEAST)

    error = error_of(LEAST | {"groupId": "a", "rocketmq.consumerGroup": "b"})

    assert error.code == "OPTION_CONFLICT" and "groupId" in str(error) and "rocketmq.consumerGroup" in str(error)


def test_one_name_in_two_cases() -> None:
    """If a key is given in another case, it means the same option."""
    assert error_of(LEAST | {"SUBSCRIBE": "other"}).code == "OPTION_CONFLICT"


def test_the_environment_names_the_servers() -> None:
    """A name server given as an option outranks the environment variable; errors about the variable name it."""
    env = {"NAMESRV_ADDR": "a:1;b:2"}

    found = parse_reader_options({"subscribe": "orders"}, stream=True, env=env)

    assert [str(address) for address in found.cluster.name_servers] == ["a:1", "b:2"]
    assert [str(a) for a in parse_reader_options(LEAST, stream=True, env=env).cluster.name_servers] == ["ns:9876"]
    with pytest.raises(OptionError, match=r"\[OPTION_VALUE\] NAMESRV_ADDR = 'nonsense'"):
        parse_reader_options({"subscribe": "orders"}, stream=True, env={"NAMESRV_ADDR": "nonsense"})


@pytest.mark.parametrize("name", ["accessKey", "secretKey", "securityToken", "tlsClientKeyPassword"])
def test_errors_hide_secrets(name: str) -> None:
    """No error shows a secret, neither if a companion option is missing nor if two names of the option differ."""
    alone = error_of(LEAST | {name: "hush"})
    two = {name.upper(): "hush1", name: "hush2"}

    assert f"{name} = '***'" in str(alone)
    assert "hush" not in str(error_of(LEAST | two)) and error_of(LEAST | two).value == "***"


def test_helpers_take_a_readers_options() -> None:
    """A helper function ignores the options of readers and writers, also if they contradict each other."""
    raw = {**raw_with("endingOffsets", "latest"), "consumerGroup": "g", "commitOffsets": "batch", "useTLS": "true"}

    found = parse_helper_options(raw, env={})

    assert isinstance(found, HelperOptions) and found.group == "g"
    assert found.cluster == read(LEAST | {"useTLS": "true"}).cluster


def test_helpers_refuse_what_readers_refuse() -> None:
    """A helper function refuses unknown, refused and planned options as a reader does."""
    for name, code in [("nameServr", "UNKNOWN"), ("numTasks", "REFUSED"), ("endpoints", "REFUSED")]:
        with pytest.raises(OptionError, match=f"OPTION_{code}"):
            parse_helper_options(LEAST | {name: "1"}, env={})
    with pytest.raises(OptionError, match="OPTION_MISSING"):
        parse_helper_options({}, env={})
