"""Test that the functions named in profiles exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pyspark_rocketmq
from tests.bench.profiles import DECODING, PULLING, READING, Parts

PACKAGE = Path(pyspark_rocketmq.__file__).parent


def defined() -> set[str]:
    """Return the names of all functions of the library as `file:function`."""
    return {
        f"{path.name}:{node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("parts", [PULLING, DECODING, READING], ids=["pulling", "decoding", "reading"])
def test_profiled_functions_exist(parts: Parts) -> None:
    """Each function that a profile names exists; a renamed one would be missing from the profile unnoticed."""
    assert {name for names in parts.values() for name in names} <= defined()
