"""Remember with which WHEREs Spark has planned a loaded DataFrame.

PySpark 4.1 to 4.3 keeps one plan of the read for each loaded DataFrame, with all DataFrames that are made from it. If
one query reads it with two different WHEREs, for example in a join, Spark plans each of them, and then reads both by
the plan that it made last. So a plan may leave out rows only if every plan of the DataFrame leaves out the same.

Each plan is made by a process of its own, but all of them on the driver's host. So each notes its WHERE as an empty
file in the user's private directory. Files are removed after a day, long after the query for which they were made was
planned.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from hashlib import sha256

from .private_directory import open_private_directory, private_path

__all__ = ["note_where"]

_PREFIX = "where-"
_KEPT_S = 24 * 3600
_log = logging.getLogger(__name__)


def note_where(load_id: str, conditions: Iterable[object]) -> bool:
    """Note that a loaded DataFrame is planned with these conditions; return whether it was with no others before.

    If nothing can be noted, log a warning and return False.
    """
    where = sha256("\n".join(sorted(map(repr, conditions))).encode()).hexdigest()[:32]
    prefix = f"{_PREFIX}{load_id}-"
    try:
        directory = open_private_directory()
        try:
            os.close(os.open(prefix + where, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=directory))
            os.utime(prefix + where, dir_fd=directory)
            _remove_old(directory)
            noted = [name for name in os.listdir(directory) if name.startswith(prefix)]
        finally:
            os.close(directory)
    except OSError as cause:
        _log.warning("the WHERE does not narrow the read: cannot note it in %s: %s", private_path(), cause)
        return False
    return noted == [prefix + where]


def _remove_old(directory: int) -> None:
    """Remove notes that are older than a day, if no other process was quicker."""
    for name in os.listdir(directory):
        if not name.startswith(_PREFIX):
            continue
        try:
            if os.stat(name, dir_fd=directory).st_mtime < time.time() - _KEPT_S:
                os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            continue
