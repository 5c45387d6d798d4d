"""Open a file whose path others may control, without waiting and without reading a device."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_regular_file"]


def open_regular_file(path: Path | str) -> BinaryIO:
    """Open a regular file, or a link to one, for reading; raise ValueError for anything else, OSError if that fails.

    A named pipe (FIFO) would wait for a writer, and a device such as `/dev/zero` has no end. A regular file may still
    be of any size, so the caller limits what it reads.
    """
    file = open(path, "rb", opener=_open_at_once)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError("it is not a regular file")
    return file


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, and without making a terminal the process's own."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
