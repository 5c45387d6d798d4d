"""Apache RocketMQ for Spark.

Spark imports this package whenever it looks for a data source, so it stays light: what is heavy is imported
where it is used.
"""

from __future__ import annotations

from . import errors
from ._version import __version__

__all__ = ["__version__", "errors"]
