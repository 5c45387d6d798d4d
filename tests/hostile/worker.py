"""Drive one face in a process of its own, and write down how it ended and how much memory it took."""

from __future__ import annotations

import os
import pickle
import resource
import sys
from pathlib import Path

from .endings import ending_of, peak_mb
from .faces import FACES

_MOST_DATA_BYTES = 2 * 1024**3
"""Protects the machine; a process that gets there has failed anyway."""


def main() -> None:
    """Run the task that standard input describes."""
    face, name_server, options, deadline_s = pickle.loads(sys.stdin.buffer.read())
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_DATA_BYTES, _MOST_DATA_BYTES))
    ending = ending_of(lambda: FACES[face].call(name_server, **options), deadline_s)
    ending.peak_mb = peak_mb()
    written = Path(sys.argv[1] + ".part")
    written.write_bytes(pickle.dumps(ending))
    written.rename(sys.argv[1])
    os._exit(0)  # Threads that still wait for a hostile server are of no interest.


if __name__ == "__main__":
    main()
