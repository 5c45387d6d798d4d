"""Show the library's log lines in Spark's Python processes.

Spark starts Python processes for planners and workers, and no code of the user runs when they start. Python's root
logger has no handler there, so INFO is lost, and a warning is bare text without time or level. So a handler of this
package writes lines to stderr, which Spark puts into the log of the driver or the executor:

    2026-11-20 14:40:00,123 INFO rocketmq [driver, orders, group etl]: reads 4 queues of orders ...

If the root logger, or the package's, has another handler, this handler is silent: the user, or Spark's own capture of
worker logs, has decided where lines go. In the user's own program nothing is installed.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import cast

from ..errors import shown

__all__ = ["LEVEL_VARIABLE", "LineHandler", "show_lines"]

LEVEL_VARIABLE = "PYSPARK_ROCKETMQ_LOG_LEVEL"
"""The environment variable with the lowest level that is shown, for example DEBUG."""
_HANDLER = "pyspark_rocketmq"
_logger = logging.getLogger("pyspark_rocketmq")


class LineHandler(logging.Handler):
    """Writes lines to stderr with time, level and place; silent where another handler gets them."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.name = _HANDLER
        self.place = place
        """The process and the topics that it works for, for example `driver, orders, group etl`."""
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s rocketmq [%(place)s]: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, with the traceback if the record has one."""
        handlers = [*_logger.handlers, *(logging.getLogger().handlers if _logger.propagate else ())]
        if handlers != [self]:
            return
        record.place = self.place
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def show_lines(place: str) -> None:
    """Show this process's lines from now on, as lines of `place`."""
    handler = next((each for each in _logger.handlers if each.name == _HANDLER), None)
    if handler:
        cast(LineHandler, handler).place = place
    else:
        _install(place)


def _install(place: str) -> None:
    handler = LineHandler(place)
    _logger.addHandler(handler)
    if _logger.level == logging.NOTSET:
        _set_level(os.environ.get(LEVEL_VARIABLE, "").strip())


def _set_level(word: str) -> None:
    """Set the level that a word names; without a word INFO, unless the user has given the root logger a level."""
    if not word and logging.getLogger().level != logging.WARNING:  # Python's default
        return
    level = logging.getLevelNamesMapping().get(word.upper(), logging.NOTSET)
    _logger.setLevel(level or logging.INFO)
    if word and not level:
        text = "%s = '%s' is no level, showing INFO; use DEBUG, INFO, WARNING or ERROR"
        _logger.warning(text, LEVEL_VARIABLE, shown(word))
