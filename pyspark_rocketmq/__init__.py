"""Apache RocketMQ for Spark.

Installing the package is enough for `spark.readStream.format("rocketmq")`: Spark imports this module whenever it looks
for a data source, and takes `DefaultSource`. So the module stays light; heavy modules are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import errors
from ._version import __version__

if TYPE_CHECKING:
    from .datasource import RocketMQDataSource as DefaultSource
    from .datasource import register

__all__ = ["DefaultSource", "__version__", "errors", "register"]


def __getattr__(name: str) -> Any:
    if name in ("DefaultSource", "register"):
        from . import datasource

        return datasource.RocketMQDataSource if name == "DefaultSource" else datasource.register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
