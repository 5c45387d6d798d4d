"""Test that headers and bodies are frozen values, and that no method is compiled before their first use."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from pyspark_rocketmq.wire.value_classes import Members, members

IMPORT_COUNTING = """
import builtins
import dataclasses  # Compiles nothing by itself.

run, compiled = exec, []

def count(code, *places, **names):
    compiled.extend([code] if isinstance(code, str) else [])
    run(code, *places, **names)

builtins.exec = count
import pyspark_rocketmq.wire.value_classes, pyspark_rocketmq.wire.fastjson
before = len(compiled)
import pyspark_rocketmq.wire.bodies, pyspark_rocketmq.wire.commands
print(len(compiled) - before)
"""


@members
class Point(Members):
    """A value class with two members, one of which has a default."""

    x: int
    y: int = 0


@members
class TaggedPoint(Point):
    """A value class that adds members to those of its base class."""

    tags: dict[str, str] = field(default_factory=dict)


def test_values_are_equal_when_their_members_are() -> None:
    """Two values are equal if they have the same class and equal members."""
    point = Point(x=1)
    assert point == Point(x=1, y=0) != Point(x=2)
    assert point != TaggedPoint(x=1) and repr(point) == "Point(x=1, y=0)"


def test_values_are_frozen() -> None:
    """Setting or deleting an attribute of a value raises an error."""
    point = Point(x=1)
    for name in ("x", "z"):
        with pytest.raises(FrozenInstanceError):
            setattr(point, name, 2)
    with pytest.raises(FrozenInstanceError):
        del point.x


def test_values_can_be_keys() -> None:
    """Equal values are the same key of a dict."""
    assert len({Point(x=1), Point(x=1, y=0), Point(x=2)}) == 2


def test_each_value_has_its_own_mutable_default() -> None:
    """If a default is mutable, each value gets an object of its own."""
    assert TaggedPoint(x=1).tags is not TaggedPoint(x=1).tags


@pytest.mark.parametrize("given", [{}, {"x": 1, "z": 2}])
def test_wrong_members_are_refused(given: dict[str, Any]) -> None:
    """A missing or unknown member raises an error, for the first value of a class and for later ones."""
    for _ in range(2):
        with pytest.raises(TypeError, match=r"'[xz]'"):
            Point(**given)


def test_members_of_a_base_come_first() -> None:
    """The base class's members come first, whether the base or the derived class is used first."""
    assert Point(x=1).y == 0
    place = replace(TaggedPoint(x=1, tags={"a": "b"}), y=5)
    assert [each.name for each in fields(place)] == ["x", "y", "tags"]
    assert place == TaggedPoint(x=1, y=5, tags={"a": "b"})


def test_importing_headers_and_bodies_compiles_no_methods() -> None:
    """Importing the modules of headers and bodies compiles no methods."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_COUNTING], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) == 0
