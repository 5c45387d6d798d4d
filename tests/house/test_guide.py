"""Check that the troubleshooting page explains every error code, each under a heading of its own."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark_rocketmq import broker_errors, errors
from tools.generate_explanations import SOURCE, explanations

PAGE = SOURCE.read_text(encoding="utf-8")
ENTRIES: list[dict[str, Any]] = list(explanations(PAGE))
OF_OPTIONS = {"OPTION_VALUE", "OPTION_MISSING", "OPTION_CONFLICT", "OPTION_SCOPE", "OPTION_UNKNOWN", "OPTION_REFUSED"}
OF_COMMANDS = {"NOT_FOUND", "WRONG_SERVER", "EXTRA_MISSING", "INTERRUPTED", "USAGE"}
"""Codes of the command line, whose classes are not imported here; the last two have none."""


def every_code() -> set[str]:
    """Return the codes of all error classes of the library."""
    found: set[str] = set()
    waiting = list(errors.RocketMQError.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("pyspark_rocketmq"):
            found.add(cls.code)
    return found


def test_every_code_has_one_heading_and_no_other_has() -> None:
    """Each code of the library has exactly one heading, whose anchor is the code in lower case."""
    shown = Counter(entry["code"] for entry in ENTRIES)

    assert set(shown) == every_code() | OF_OPTIONS | OF_COMMANDS
    assert set(shown.values()) == {1}
    assert all(f"\n### `{entry['code']}`\n" in PAGE for entry in ENTRIES)


def test_every_entry_is_complete() -> None:
    """Each entry says what the code means, what to look at and what to do, in sentences, and where it stands."""
    for entry in ENTRIES:
        for part in ("means", "look_at", "do"):
            assert entry[part].endswith((".", "?", ")")) and len(entry[part]) > 6, (entry["code"], part)
        assert entry["page"] == f"docs/troubleshooting.md#{entry['code'].lower()}"


def test_the_response_codes_agree_with_the_code() -> None:
    """Each response code, and whether its requests are repeated, agrees with its error class."""
    shown = {each["code"]: (each["response_code"], each["is_retried"]) for each in ENTRIES if each["response_code"]}
    leaves = [cls for cls in vars(broker_errors).values() if isinstance(cls, type)]
    assert shown == {
        cls.code: (cls.response_code, cls.retriable)
        for cls in leaves
        if issubclass(cls, errors.BrokerError) and cls.code != "BROKER"
    }
