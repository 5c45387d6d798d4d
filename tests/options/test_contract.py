"""The options in the code equal those in the options' contract."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from pyspark_rocketmq.options.option import Option
from pyspark_rocketmq.options.refused import find_refusal
from pyspark_rocketmq.options.table import OPTIONS
from tests.options.contract import Row, option_rows, plain, table

ROWS = {(row.name, "W" if row.use == "W" else "read"): row for row in option_rows()}
OURS = {(option.name, "W" if option.use == "W" else "read"): option for option in OPTIONS}
PAIRS = [pytest.param(OURS[key], ROWS[key], id="-".join(key)) for key in sorted(OURS.keys() & ROWS.keys())]
BUILT = [pair for pair in PAIRS if not cast(Option[Any], pair.values[0]).is_planned]
"""Options that are implemented; planned ones have neither default nor range yet."""


def test_neither_has_more_options() -> None:
    """The code and the contract have the same options."""
    assert OURS.keys() == ROWS.keys() and len(OURS) > 90


@pytest.mark.parametrize(("option", "row"), PAIRS)
def test_names_and_use(option: Option[Any], row: Row) -> None:
    """For each option, names, aliases and use (streaming read, batch read, ...) are the same as in the contract."""
    assert (frozenset(option.spellings), option.use) == (row.spellings, row.use)


@pytest.mark.parametrize(("option", "row"), BUILT)
def test_defaults(option: Option[Any], row: Row) -> None:
    """For each implemented option, the default is the same as in the contract, as a value or in words."""
    assert plain(option.default or option.otherwise) == row.default


@pytest.mark.parametrize(("option", "row"), BUILT)
def test_ranges(option: Option[Any], row: Row) -> None:
    """For each implemented option, errors quote the same range as the contract, with four exceptions."""
    bounds = r"\d+[kmg]?\.\.\d+[kmg]?|≥ \d+"
    exceptions = {"consumerGroup", "subscribe", "instanceName", "unitName"}

    if option.name not in exceptions:
        assert re.findall(bounds, option.kind.accepts) == re.findall(bounds, row.range)


def test_refused_names() -> None:
    """Each name that section 18 of the contract refuses is refused, also with `rocketmq.` before it."""
    cells = " ".join(row[0] for row in table("18. "))
    names = [name.replace("*", "x").replace("pop…", "popBatchNums") for name in re.findall(r"`([^`]+)`", cells)]

    assert len(names) > 45
    for name in names:
        assert find_refusal(name, "x") and find_refusal(f"rocketmq.{name.removeprefix('rocketmq.')}".upper(), "x")
