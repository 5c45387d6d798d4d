"""Options are checked as soon as their use is known, and come from the user before the environment."""

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
    if not option.is_planned
    for stream in (True, False)
    if "BS"[stream] not in option.use
]


@pytest.mark.parametrize(("name", "stream"), SCOPED)
def test_options_of_another_use(name: str, stream: bool) -> None:
    """An option of another use is refused once the use is known, with the use that it belongs to."""
    raw = raw_with(name, SAMPLES[name][0])

    error = error_of(raw, stream=stream)

    assert (error.code, error.option in raw) == ("OPTION_SCOPE", True)
    homes = USES["H"] if name in HELPERS_ONLY else USES["B" if stream else "S"]
    assert homes in error.advice
    assert read(raw, stream=None)


def test_the_end_of_a_stream() -> None:
    """The refusal of an end in a stream names the trigger availableNow."""
    assert "availableNow" in str(error_of(LEAST | {"endingOffsets": "latest"}))


@pytest.mark.parametrize(("name", "text"), [("topic", "a b"), ("ordering", "key")])
def test_names_that_mean_two_things(name: str, text: str) -> None:
    """A name with two meanings is checked only when the use is known."""
    raw = {"nameServer": "a:1", name: text}

    assert read(raw, stream=None).selection.topics == ()
    assert error_of(raw, stream=True).code == "OPTION_VALUE"


def test_two_names_of_one_option() -> None:
    """Two names of one option may say the same in different spellings.

    Different values are a conflict of both names.
    """
    assert read(LEAST | {"pullTimeoutMs": "20s", "consumerPullTimeoutMillis": "20000"}).pull.pull_timeout_s == 20.0
    assert read(LEAST | {"topics": "orders", "topic": " orders"}) == read(LEAST)

    error = error_of(LEAST | {"groupId": "a", "rocketmq.consumerGroup": "b"})

    assert error.code == "OPTION_CONFLICT" and "groupId" in str(error) and "rocketmq.consumerGroup" in str(error)


def test_one_name_in_two_cases() -> None:
    """Two spellings of one name in different case are one option."""
    assert error_of(LEAST | {"SUBSCRIBE": "other"}).code == "OPTION_CONFLICT"


def test_the_environment_names_the_servers() -> None:
    """An option outranks the environment, whose errors have the variable's name."""
    env = {"NAMESRV_ADDR": "a:1;b:2"}

    found = parse_reader_options({"subscribe": "orders"}, stream=True, env=env)

    assert [str(address) for address in found.cluster.name_servers] == ["a:1", "b:2"]
    assert [str(a) for a in parse_reader_options(LEAST, stream=True, env=env).cluster.name_servers] == ["ns:9876"]
    with pytest.raises(OptionError, match=r"\[OPTION_VALUE\] NAMESRV_ADDR = 'nonsense'"):
        parse_reader_options({"subscribe": "orders"}, stream=True, env={"NAMESRV_ADDR": "nonsense"})


@pytest.mark.parametrize("name", ["accessKey", "secretKey", "securityToken", "tlsClientKeyPassword"])
def test_errors_hide_secrets(name: str) -> None:
    """A secret is shown in no error, neither of a missing companion nor of a second name."""
    alone = error_of(LEAST | {name: "hush"})
    two = {name.upper(): "hush1", name: "hush2"}

    assert f"{name} = '***'" in str(alone)
    assert "hush" not in str(error_of(LEAST | two)) and error_of(LEAST | two).value == "***"


def test_helpers_take_a_readers_options() -> None:
    """Helpers ignore options of other uses, also those that would contradict each other."""
    raw = {**raw_with("endingOffsets", "latest"), "consumerGroup": "g", "commitOffsets": "batch", "useTLS": "true"}

    found = parse_helper_options(raw, env={})

    assert isinstance(found, HelperOptions) and found.group == "g"
    assert found.cluster == read(LEAST | {"useTLS": "true"}).cluster


def test_helpers_refuse_what_readers_refuse() -> None:
    """Helpers refuse unknown, refused and planned names as readers do."""
    for name, code in [("nameServr", "UNKNOWN"), ("numTasks", "REFUSED"), ("endpoints", "REFUSED")]:
        with pytest.raises(OptionError, match=f"OPTION_{code}"):
            parse_helper_options(LEAST | {name: "1"}, env={})
    with pytest.raises(OptionError, match="OPTION_MISSING"):
        parse_helper_options({}, env={})
