"""Show the library's log lines in Spark's Python processes.

Spark starts Python processes for planners and workers, and no code of the user runs when they start. Python's root
logger has no handler there, so INFO is lost, and a warning is bare text without time or level. So a handler of this
package writes lines to stderr, which Spark puts into the log of the driver or the executor:

    2026-11-20 14:40:00,123 INFO rocketmq [driver, orders, group etl]: reads 4 queues of orders ...

If the root logger has a handler, this handler is silent: the user, or Spark's own capture of worker logs, has decided
where lines go. In the user's own program nothing is installed.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import cast

__all__ = ["LEVEL_VARIABLE", "LineHandler", "show_lines"]

LEVEL_VARIABLE = "PYSPARK_ROCKETMQ_LOG_LEVEL"
"""The environment variable with the lowest level that is shown, for example DEBUG."""
_HANDLER = "pyspark_rocketmq"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_logger = logging.getLogger("pyspark_rocketmq")


class LineHandler(logging.Handler):
    """Writes lines to stderr with time, level and place; silent where the root logger has a handler."""

    def __init__(self) -> None:
        super().__init__()
        self.name = _HANDLER
        self.place = "?"
        """The process and the topics that it works for, for example `driver, orders, group etl`."""
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s rocketmq [%(place)s]: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, with the traceback if the record has one."""
        if logging.getLogger().handlers:
            return
        record.place = self.place
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def show_lines(place: str) -> None:
    """Show this process's lines from now on, as lines of `place`."""
    handler = next((each for each in _logger.handlers if each.name == _HANDLER), None) or _install()
    cast(LineHandler, handler).place = place


def _install() -> LineHandler:
    handler = LineHandler()
    _logger.addHandler(handler)
    if _logger.level == logging.NOTSET:
        level = os.environ.get(LEVEL_VARIABLE, "").strip().upper()
        _logger.setLevel(level if level in _LEVELS else logging.INFO)
    return handler
