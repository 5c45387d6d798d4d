"""Apache RocketMQ for Spark.

Installing the package is enough for `spark.readStream.format("rocketmq")`: Spark imports this module whenever it looks
for a data source, and takes `DefaultSource`. So the module stays light; heavy modules are imported where they are used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import errors
from ._version import __version__

if TYPE_CHECKING:
    from .datasource import RocketMQDataSource as DefaultSource
    from .datasource import read_where, register

__all__ = ["DefaultSource", "__version__", "errors", "read_where", "register"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        return _find_source()
    if name in ("read_where", "register"):
        _require_pyspark()
        from . import datasource

        return getattr(datasource, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _find_source() -> Any:
    """Return the data source; for PySpark 4.0, one that refuses every use."""
    from .boundary.releases import find_refusing_source

    if refusing := find_refusing_source():
        return refusing
    from . import datasource

    return datasource.RocketMQDataSource


def _require_pyspark() -> None:
    from .boundary.releases import require_pyspark

    require_pyspark()


def _warn_of_old_pyspark(release: str) -> None:
    """Warn if the program has imported a PySpark that is too old; clients without Spark work with it all the same."""
    from .boundary.releases import describe_old_pyspark

    if what := describe_old_pyspark(release):
        import warnings

        warnings.warn(what, RuntimeWarning, stacklevel=3)


if "pyspark" in sys.modules:
    _warn_of_old_pyspark(str(getattr(sys.modules["pyspark"], "__version__", "")))
