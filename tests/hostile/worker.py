"""Drive one face in a process of its own, and tell how it ended and how much memory it took."""

from __future__ import annotations

import os
import resource
from multiprocessing.connection import Connection

from .endings import ending_of, peak_mb
from .faces import FACES

_MOST_DATA_BYTES = 2 * 1024**3
"""Protects the machine; a process that gets there has failed anyway."""


def drive(result: Connection, face: str, name_server: str, options: dict[str, str], deadline_s: float) -> None:
    """Call a face, send its ending, and end this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_DATA_BYTES, _MOST_DATA_BYTES))
    ending = ending_of(lambda: FACES[face].call(name_server, **options), deadline_s)
    ending.peak_mb = peak_mb()
    result.send(ending)
    result.close()
    os._exit(0)  # Threads that still wait for a hostile server are of no interest.
