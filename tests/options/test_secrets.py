"""Values of secret options are in no text: neither of settings nor of errors."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rocketmq.cluster.signing import Credentials
from pyspark_rocketmq.options.option import Option
from pyspark_rocketmq.options.parse import parse_helper_options
from pyspark_rocketmq.options.table import OPTIONS
from tests.options.samples import LEAST, SAMPLES, error_of, raw_with, read

HUSH = "hush-7f3a"
SECRET = [option for option in OPTIONS if option.secret]


def every_text(thing: object) -> str:
    """Return the texts that Python makes of an object: for logs, for formatting, for debugging."""
    return f"{thing} {thing!r} {[thing]}"


def test_which_options_are_secret() -> None:
    """Keys, tokens and passwords are secret."""
    names = {option.name for option in SECRET}
    assert names == {"accessKey", "secretKey", "securityToken", "tlsClientKeyPassword"}
    assert names == {name for name in SAMPLES if name.endswith(("Key", "Token", "Password", "secret"))}


@pytest.mark.parametrize("option", SECRET, ids=lambda option: option.name)
def test_settings_do_not_show_it(option: Option[Any]) -> None:
    """The settings of reads and helper functions do not show the value of a secret option in any text."""
    raw = raw_with(option.name, HUSH)
    reader, helper = read(raw), parse_helper_options(raw, env={})

    cluster = reader.cluster
    every: list[object] = [reader, helper, cluster, reader.planning_cluster, cluster.net, cluster.net.tls]
    assert not any(HUSH in every_text(settings) for settings in (*every, cluster.credentials))


@pytest.mark.parametrize("option", SECRET, ids=lambda option: option.name)
def test_errors_do_not_show_it(option: Option[Any]) -> None:
    """Errors about a secret option, misspelt, doubled, alone or of another use, do not show its value."""
    name = option.name
    misspelt = f"{name[:-2]}{name[-1]}{name[-2]}"
    other_name = next(iter(option.aliases), name.upper())
    wrongs = [
        LEAST | {name: HUSH},
        raw_with(name, HUSH) | {other_name: f"{HUSH}2"},
        raw_with(name, SAMPLES[name][0]) | {misspelt: HUSH},
        LEAST | {f"kafka.{name}": HUSH},
        raw_with(name, HUSH) | {"endingOffsets": "latest"},
    ]
    for wrong in wrongs:
        assert HUSH not in every_text(error_of(wrong))


def test_credentials_do_not_show_themselves() -> None:
    """Neither of the texts of credentials has any part of them."""
    assert HUSH not in every_text(Credentials(HUSH, HUSH, HUSH))


@pytest.mark.parametrize(
    ("more", "warns"),
    [({}, False), ({"securityToken": HUSH}, True), ({"securityToken": HUSH, "useTLS": "true"}, False)],
)
def test_a_token_without_encryption_is_warned_about(
    more: dict[str, str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If a security token would be sent unencrypted, that is logged when a read begins, without the token."""
    raw = LEAST | {"accessKey": HUSH, "secretKey": HUSH} | more
    read(raw, stream=None)
    assert not caplog.messages
    read(raw)
    assert ["set useTLS=true" in text for text in caplog.messages] == [True] * warns
    assert HUSH not in caplog.text
