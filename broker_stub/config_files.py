"""Keep a broker's tables in files: as JSON at intervals, and each change at once.

A JSON file is written beside its place and then renamed, so it is never half-written; the version before is kept as
`.bak`. The journal lists the changes since the JSON files were written. Its lines are in the system's memory before
the request that made the change gets its response, so a killed process loses none of them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pyspark_rocketmq.errors import OptionError, RocketMQError

T = TypeVar("T")
_log = logging.getLogger(__name__)

_BACKUP = ".bak"
FAULTS = (OSError, ValueError, LookupError, TypeError, AttributeError, RocketMQError)
"""Exceptions that the content of a damaged file may cause."""


class DamagedData(OptionError):
    """Raised if a file of the data directory cannot be read or written."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__("data", str(path), what, advice="restore the file, or give another directory")


class ConfigFiles:
    """Small files in one directory; each is written only if its content changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._saved: dict[str, bytes] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            raise DamagedData(directory, f"not a directory to write to: {cause.strerror}") from cause

    def read(self, name: str, parse: Callable[[bytes], T], default: T) -> T:
        """Return the parsed content of a file, or of its backup (the version before) if the file is damaged or missing.

        Return the default if neither file exists; raise DamagedData if one exists but none can be parsed.
        """
        fault: Exception | None = None
        for path in (self.directory / name, self.directory / (name + _BACKUP)):
            try:
                content = parse(path.read_bytes())
            except FileNotFoundError:
                continue
            except FAULTS as cause:
                fault = fault or cause
            else:
                if fault is not None:
                    _log.warning("%s is damaged (%s); using the version before, %s", path.with_name(name), fault, path)
                return content
        if fault is not None:
            raise DamagedData(self.directory / name, f"damaged: {fault}") from fault
        return default

    def save(self, parts: dict[str, bytes]) -> None:
        """Write those files of `parts` (contents by file name) whose content differs from the last saved one."""
        for name, content in parts.items():
            if self._saved.get(name) != content:
                self._write(name, content)
        self._saved = parts

    def _write(self, name: str, content: bytes) -> None:
        path, new = self.directory / name, self.directory / (name + ".new")
        try:
            new.write_bytes(content)
            if path.exists():
                os.replace(path, self.directory / (name + _BACKUP))
            os.replace(new, path)
        except OSError as cause:
            raise DamagedData(path, f"cannot be written: {cause.strerror}") from cause


class Journal:
    """A file that lists changes of tables, each as a line with a JSON array of its kind and values."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[list[Any]]:
        """Return the changes in their order; cut an unfinished last line, whose change was not acknowledged."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        if end < len(data):
            _log.warning("%s: cut %d bytes at byte %d, an unfinished change", self.path, len(data) - end, end)
            os.truncate(self.path, end)
        return [self._parse(number, line) for number, line in enumerate(data[:end].splitlines(), 1)]

    def append(self, kind: str, *values: object) -> None:
        """Add a change; if it cannot be written, leave no part of it in the file, and raise DamagedData."""
        line = json.dumps([kind, *values]).encode() + b"\n"
        try:
            with self.path.open("ab", buffering=0) as file:
                start = file.tell()
                if file.write(line) != len(line):
                    file.truncate(start)
                    raise DamagedData(self.path, "cannot be written: the disk is full")
        except OSError as cause:
            raise DamagedData(self.path, f"cannot be written: {cause.strerror}") from cause

    def clear(self) -> None:
        """Delete the file, because the JSON files contain its changes now; raise DamagedData if that fails."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as cause:
            raise DamagedData(self.path, f"cannot be deleted: {cause.strerror}") from cause

    def _parse(self, number: int, line: bytes) -> list[Any]:
        try:
            change = json.loads(line)
        except ValueError as cause:
            raise DamagedData(self.path, f"damaged in line {number}: {cause}") from cause
        if not isinstance(change, list) or not change:
            raise DamagedData(self.path, f"damaged in line {number}: not a change")
        return change
