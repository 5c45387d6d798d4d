"""Check that the troubleshooting page explains every error code."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_rocketmq import broker_errors, errors

GUIDE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"


def every_code() -> list[str]:
    """Return the codes of all error classes of the library."""
    found: set[str] = set()
    waiting = list(errors.RocketMQError.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("pyspark_rocketmq"):
            found.add(cls.code)
    return sorted(found)


@pytest.mark.parametrize("code", every_code())
def test_every_code_is_explained(code: str) -> None:
    """The troubleshooting page contains every error code."""
    assert f"`{code}`" in GUIDE.read_text()


def test_the_table_of_answers_agrees_with_the_code() -> None:
    """The column *again* of the table of broker errors agrees with `retriable` of each error class."""
    rows = [line.split(" | ") for line in GUIDE.read_text().splitlines() if line.startswith("| `BROKER_")]
    shown = {row[0].split("`")[1]: row[2] == "yes" for row in rows}
    leaves = [cls for cls in vars(broker_errors).values() if isinstance(cls, type)]
    assert shown == {
        cls.code: cls.retriable for cls in leaves if issubclass(cls, errors.BrokerError) and cls.code != "BROKER"
    }
