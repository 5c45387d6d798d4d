"""Find the folder of the files that commands keep for later commands."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["state_folder"]


def state_folder(name: str) -> Path:
    """Return the folder of this name below `~/.local/state/pyspark-rocketmq`, or below XDG_STATE_HOME.

    It need not exist. Raise `RuntimeError` if the user has no home directory.
    """
    base = os.environ.get("XDG_STATE_HOME", "").strip()
    return ((Path(base) if base else Path.home() / ".local" / "state") / "pyspark-rocketmq" / name).absolute()
