"""Every option has an effect under each of its names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_rocketmq.options.keys import find_option
from pyspark_rocketmq.options.option import Option
from pyspark_rocketmq.options.table import OPTIONS
from tests.options.samples import LEAST, SAMPLES, error_of, raw_with, settings_of

BUILT = [option for option in OPTIONS if not option.is_planned and option.use != "W"]
"""Options that are implemented, without those of writes, which `test_writing` covers."""
PLANNED = [option for option in OPTIONS if option.is_planned]
WITHOUT_SETTING = {"nameServer", "strictOptions"}
NEEDED_BY_COMPANIONS = {
    "accessKey",
    "secretKey",
    "tlsClientCertPath",
    "tlsClientKeyPath",
    "messageQueueList",
    "consumerRooms",
}
"""Options that their companions need: the companions cannot be given without them."""
ALIASES = [(alias, option.name) for option in BUILT for alias in option.spellings[1:]]


def test_every_built_option_has_a_sample() -> None:
    """There is a sample for every implemented option, so that the tests below cover all of them."""
    assert SAMPLES.keys() | {"credentialsFile"} == {option.name for option in BUILT}


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - WITHOUT_SETTING))
def test_an_option_changes_the_settings(name: str) -> None:
    """If an implemented option is given, the settings differ from those without it."""
    companions = {} if name in NEEDED_BY_COMPANIONS else SAMPLES[name][1]

    with_it = settings_of(name, raw_with(name, SAMPLES[name][0]))

    assert with_it != settings_of(name, {**LEAST, **companions})


@pytest.mark.parametrize(("alias", "name"), ALIASES)
def test_an_alias_means_its_main_name(alias: str, name: str) -> None:
    """If an option is given under an alias, the settings are the same as under its main name."""
    text = SAMPLES[name][0]

    assert settings_of(name, raw_with(alias, text, name)) == settings_of(name, raw_with(name, text))


@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase])
@pytest.mark.parametrize("name", SAMPLES)
def test_case_of_names_does_not_matter(name: str, change: Callable[[str], str]) -> None:
    """If names are in another case, the settings are the same: Spark passes lower case, helpers keep the case."""
    text = SAMPLES[name][0]

    changed = {change(key): value for key, value in raw_with(name, text).items()}

    assert settings_of(name, changed) == settings_of(name, raw_with(name, text))


@pytest.mark.parametrize("option", PLANNED, ids=lambda option: option.name)
def test_planned_options_are_refused(option: Option[Any]) -> None:
    """If an option is planned but not implemented, it is refused in every use."""
    for stream in (True, False, None):
        error = error_of(LEAST | {option.name: "1"}, stream=stream)

        assert error.code == "OPTION_REFUSED" and str(error).startswith(f"[OPTION_REFUSED] {option.name} = '")
        assert "planned, not built" in str(error)


@pytest.mark.parametrize("option", [option for option in BUILT if option.default], ids=lambda option: option.name)
def test_a_default_is_a_value_like_others(option: Option[Any]) -> None:
    """If an option's default is given, the settings do not change, so the defaults on the page are true."""
    name, default = option.name, option.default
    raw = {**LEAST, **SAMPLES[name][1]}

    assert settings_of(name, raw | {name: default}) == settings_of(name, raw)


def test_names_are_unique() -> None:
    """No name belongs to two options, except for two names that mean different options of reads and writes."""
    names = [spelling.lower() for option in OPTIONS for spelling in option.spellings]
    shared = {name for name in names if names.count(name) > 1}

    assert shared == {"topic", "ordering"}
    assert all((found := find_option(name)) and found.depends_on_use for name in shared)


def test_importing_options_is_cheap() -> None:
    """If the options are imported, neither pyspark nor Arrow is, so that the import takes little time."""
    code = "import sys, pyspark_rocketmq.options; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert {"pyspark", "pyarrow", "numpy", "pandas", "grpc"} & set(loaded.stdout.split()) == set()
