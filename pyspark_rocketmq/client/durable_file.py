"""Replace a file so that a crash leaves a complete version of it, the old one or the new one.

The new version is written beside the file and synced before it takes the file's name. Until then it has a random name.
So no link that another user prepared is written through. If two processes write at once, the file is one of their
versions.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

__all__ = ["replace_file"]


def replace_file(path: Path, content: bytes, backup: Path) -> None:
    """Replace a file; its old version becomes the backup. If that fails, raise OSError; no temporary file is left."""
    fresh = path.with_name(f"{path.name}.{token_hex(8)}.tmp")
    try:
        _write_new(fresh, content)
        with suppress(FileNotFoundError):  # There is no old version, or another process has just moved it.
            path.replace(backup)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _write_new(path: Path, content: bytes) -> None:
    """Create a file and sync it to disk; raise FileExistsError if the name is taken, even by a link."""
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    """Sync the names in a directory to disk; do nothing if the file system cannot do that."""
    with suppress(OSError):
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
