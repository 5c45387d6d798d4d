"""Run one entry point in a process of its own, and send its outcome and peak of memory to the parent."""

from __future__ import annotations

import os
import resource
from multiprocessing.connection import Connection

from .call_outcome import peak_mb, run_call
from .entry_points import ENTRY_POINTS

_MAX_DATA_BYTES = 2 * 1024**3
"""Limit of the process's memory, which protects the machine; a process that reaches it fails its scenario anyway."""


def drive(result: Connection, entry_point: str, name_server: str, options: dict[str, str], deadline_s: float) -> None:
    """Call an entry point, send its outcome through `result`, and end this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MAX_DATA_BYTES, _MAX_DATA_BYTES))
    outcome = run_call(lambda: ENTRY_POINTS[entry_point].call(name_server, **options), deadline_s)
    outcome.peak_mb = peak_mb()
    result.send(outcome)
    result.close()
    os._exit(0)  # Do not wait for threads that still wait for a server.
