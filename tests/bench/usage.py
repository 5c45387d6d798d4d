"""What did processes use between two moments? Read from /proc.

A process's time includes that of children it has waited for. Spark's Python daemon waits for none: what a worker of
its used that ended meanwhile is lost, and so nothing of it may be subtracted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"

Groups = Mapping[str, Callable[[], Iterable[int]]]
"""Process ids by what to call them; asked anew each time, since workers come and go."""


class Usage(NamedTuple):
    """Of one group of processes."""

    cpu_s: float
    peak_mib: float


class Meter:
    """Measures groups of processes from its making until `read`."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._began = {pid: _cpu_seconds(pid) for pids in groups.values() for pid in pids()}
        for pids in groups.values():
            _reset_peaks(pids())

    def read(self) -> dict[str, Usage]:
        """What each group used since."""
        return {name: Usage(sum(map(self._used, pids())), _peak_mib(pids())) for name, pids in self._groups.items()}

    def _used(self, pid: int) -> float:
        return max(0.0, _cpu_seconds(pid) - self._began.get(pid, 0.0))


def tree(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def named(pids: Iterable[int], name: str) -> list[int]:
    """Those whose program's name begins so."""
    return [pid for pid in pids if _text(pid, "comm").startswith(name)]


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _cpu_seconds(pid: int) -> float:
    """User and system time, own and of children waited for; none if it has ended."""
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def _peak_mib(pids: Iterable[int]) -> float:
    lines = (line for pid in pids for line in _text(pid, "status").splitlines() if line.startswith("VmHWM:"))
    return sum(int(line.split()[1]) for line in lines) / 1024


def _reset_peaks(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
        except OSError:
            continue


def _stat(pid: int) -> list[str]:
    """The fields behind the name; none if it has ended."""
    return _text(pid, "stat").rpartition(")")[2].split()


def _text(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return ""
