"""The guide names what the code can say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_rocketmq import broker_errors, errors

GUIDE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"


def every_code() -> list[str]:
    """Codes of all errors of the library; the stub has some of its own."""
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
    """A user who searches for a code finds what it means and what to do."""
    assert f"`{code}`" in GUIDE.read_text()


def test_the_table_of_answers_agrees_with_the_code() -> None:
    """Which answers are tried again by themselves is said as the code does it."""
    rows = [line.split(" | ") for line in GUIDE.read_text().splitlines() if line.startswith("| `BROKER_")]
    told = {row[0].split("`")[1]: row[2] == "yes" for row in rows}
    leaves = [cls for cls in vars(broker_errors).values() if isinstance(cls, type)]
    assert told == {
        cls.code: cls.retriable for cls in leaves if issubclass(cls, errors.BrokerError) and cls.code != "BROKER"
    }
