"""Open the directory for temporary files that belongs to this user alone.

Processes of the same user and host with the same directory for temporary files share it. A directory that is a link,
belongs to another user, or is open to others is refused: another user could have put something else there.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

__all__ = ["open_private_directory", "private_path"]


def private_path() -> Path:
    """Return the path of the user's private directory, which need not exist."""
    return Path(tempfile.gettempdir()) / f"pyspark_rocketmq-{os.geteuid()}"


def open_private_directory() -> int:
    """Open the user's private directory and return its descriptor; create it if it is missing.

    Raise an `OSError` if the directory belongs to another user, or if others may use it.
    """
    path = private_path()
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass  # Below, the open directory must prove to be private.
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(directory)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(directory)
        raise PermissionError(f"it is not private to user {os.geteuid()}")
    fcntl.flock(directory, fcntl.LOCK_SH)  # systemd does not clean up below a locked directory.
    return directory
