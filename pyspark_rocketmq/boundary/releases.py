"""Check the release of PySpark, which Spark itself does not compare with what the data source needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import SparkSetupError
from .calls import spark_call

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

__all__ = ["describe_old_pyspark", "find_refusing_source", "require_pyspark"]

_LEAST = (4, 1)


def describe_old_pyspark(release: str) -> str | None:
    """Return the sentence about a release of PySpark that is too old; None if it is new enough, or unreadable."""
    numbers = tuple(int(number) for number in release.split(".")[:2] if number.isdigit())
    if len(numbers) < len(_LEAST) or numbers >= _LEAST:
        return None
    return f"PySpark is {release}, and the format rocketmq needs PySpark 4.1 or later"


def require_pyspark() -> None:
    """Raise `SparkSetupError` if PySpark is not installed, or is too old."""
    if error := _refuse(_installed()):
        raise error


def find_refusing_source() -> type[DataSource] | None:
    """Return a source that refuses every use with one sentence, if PySpark is 4.0; None if PySpark is new enough.

    PySpark 4.0 looks for sources, but lacks classes that the real one needs. It passes over a package whose import
    fails, and then only says that there is no such format. For older releases raise `SparkSetupError`.
    """
    release = _installed()
    error = _refuse(release)
    if error and not release.startswith("4."):
        raise error
    return _make_refusing_source(error) if error else None


def _installed() -> str:
    """Return the release of PySpark; raise `SparkSetupError` if there is none."""
    try:
        import pyspark
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        what = f"PySpark is not installed for {sys.executable}"
        raise SparkSetupError(what, advice="run pip install 'pyspark-rocketmq[spark]'") from None
    return str(pyspark.__version__)


def _refuse(release: str) -> SparkSetupError | None:
    what = describe_old_pyspark(release)
    advice = "run pip install 'pyspark>=4.1,<5', and use a Spark of that release"
    return SparkSetupError(what, advice=advice) if what else None


def _make_refusing_source(error: SparkSetupError) -> type[DataSource]:
    from pyspark.sql.datasource import DataSource

    class RefusingSource(DataSource):
        """Stands in for the source where PySpark is too old."""

        @spark_call
        def __init__(self, options: Any) -> None:
            _raise(error)

        @classmethod
        def name(cls) -> str:
            """Return `rocketmq`."""
            return "rocketmq"

        def place(self) -> str:
            """Return the place of log lines."""
            return "options"

    return RefusingSource


def _raise(error: SparkSetupError) -> NoReturn:
    raise error
