"""Let the process of the tests pass for one of Spark's Python processes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest

from pyspark_rocketmq.boundary.lines import LEVEL_VARIABLE

LOGGER = logging.getLogger("pyspark_rocketmq")


@pytest.fixture
def spark_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Spark's daemon as the program of this process, without a log handler of the library at the beginning."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.delenv(LEVEL_VARIABLE, raising=False)
    handlers, level = list(LOGGER.handlers), LOGGER.level
    yield
    LOGGER.handlers[:] = handlers
    LOGGER.setLevel(level)
