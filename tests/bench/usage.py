"""Measure the processor time and memory of processes between two moments, from /proc.

A process's time includes that of child processes which it has waited for. Spark's Python daemon does not wait for its
workers. So a worker that has ended by the second moment counts as 0 s; the time that it had used by the first moment
must not be subtracted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"

Groups = Mapping[str, Callable[[], Iterable[int]]]
"""{label: function that returns the current process ids}; a function, because workers start and end."""


class Usage(NamedTuple):
    """The processor seconds and peak memory of a group of processes."""

    cpu_s: float
    peak_mib: float


class Meter:
    """Measures groups of processes from its creation until `read`."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._began = {pid: _cpu_seconds(pid) for pids in groups.values() for pid in pids()}
        for pids in groups.values():
            reset_peaks(pids())

    def read(self) -> dict[str, Usage]:
        """Return {label: processor time and peak memory since the creation of the meter}."""
        return {name: self._usage(list(pids())) for name, pids in self._groups.items()}

    def _usage(self, pids: Sequence[int]) -> Usage:
        return Usage(sum(map(self._used, pids)), sum(peaks_mib(pids)))

    def _used(self, pid: int) -> float:
        return max(0.0, _cpu_seconds(pid) - self._began.get(pid, 0.0))


def tree(root: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def named(pids: Iterable[int], name: str) -> list[int]:
    """Return those process ids whose program name begins with `name`."""
    return [pid for pid in pids if _text(pid, "comm").startswith(name)]


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process and of children it has waited for; 0 if it has ended."""
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def peaks_mib(pids: Iterable[int]) -> list[float]:
    """Return the peak memory of each process."""
    lines = (line for pid in pids for line in _text(pid, "status").splitlines() if line.startswith("VmHWM:"))
    return [int(line.split()[1]) / 1024 for line in lines]


def reset_peaks(pids: Iterable[int]) -> None:
    """Let the peak memory of processes be measured from now on."""
    for pid in pids:
        try:
            Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
        except OSError:
            continue


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the program name; an empty list if the process has ended."""
    return _text(pid, "stat").rpartition(")")[2].split()


def _text(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return ""
