"""Read credentials from a file that exists on each machine and may change at any time.

Settings hold only the path, so that no pickle holds a secret. Before each signature, the file is read again if it has
changed, so that requests after a change are signed with the new credentials.

Few writers replace a file at once: most empty it and write it again, or delete it and create it. So a process that has
read good credentials keeps them while the file changes, and for `GRACE_S` while it cannot be read.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ..errors import OptionError
from .regular_file import open_regular_file
from .signing import Credentials

__all__ = ["GRACE_S", "CredentialsFile", "WatchedFile", "parse_credentials"]

GRACE_S = 60.0
"""Seconds from the first failed read for which the last good credentials are used."""
SETTLING_S = 1.0
"""Seconds after a change for which the file is not read again, because its writer may not have finished."""
MOST_BYTES = 64 * 1024
"""Size limit of the file; a larger one holds no credentials."""

_LINE = re.compile(r"(\w+)\s*[=:]\s*(.*)")
_FIELDS = {"accesskey": "access_key", "secretkey": "secret_key", "securitytoken": "security_token"}
_ADVICE = (
    "give a readable file on every machine, with lines accessKey=…, secretKey=… and, if there is one, securityToken=…"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CredentialsFile:
    """A file that holds credentials."""

    path: str
    option: str = "credentialsFile"

    def current(self) -> Credentials:
        """Return the credentials in the file, or the last good ones while it is rewritten; see `WatchedFile`."""
        return _watched(self).current()

    def check(self) -> None:
        """Raise `OptionError` unless the file holds credentials now; good ones from before do not count.

        Good ones are kept, so that a request has them even if the file is rewritten just after the check.
        """
        WatchedFile(self).current()
        _watched(self).current()

    def refuse(self, what: str) -> OptionError:
        """Return an error that names the file and the option that gives it; `what` is the problem with the file."""
        return OptionError(self.option, self.path, what, advice=_ADVICE)


class _Seen(NamedTuple):
    """The result of reading one version of a credentials file."""

    version: tuple[int, ...] = ()
    """Numbers that identify the version."""
    found: Credentials | str = ""
    """The credentials in it, or what is wrong with it."""


class _Failure(NamedTuple):
    """The time since which a credentials file has been unusable, by the monotonic clock and by the wall clock."""

    began_s: float
    """A moment of the monotonic clock."""
    began_wall_s: float


class WatchedFile:
    """The credentials that this process read from a file, and the reason if the file could not be read since.

    Any thread may use it. It has no lock, because a forked child could inherit the lock while it is held. So if two
    threads notice a change at the same time, both read the file.
    """

    def __init__(
        self,
        file: CredentialsFile,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._clock = clock
        self._wall_clock = wall_clock
        self._seen = _Seen()
        """The version that was read last."""
        self._good: Credentials | None = None
        self._failure: _Failure | None = None

    def __repr__(self) -> str:
        return f"<WatchedFile {self._file.path}>"

    def current(self) -> Credentials:
        """Return the credentials in the file, or the last good ones for `GRACE_S` after the first failed read.

        Raise `OptionError` after that time, or at once if the file was never good.
        """
        found = self._look()
        if isinstance(found, str):
            return self._outlast(found)
        self._good, self._failure = found, None
        return found

    def _look(self) -> Credentials | str:
        """Return the credentials in the file, or what is wrong with it; read it only if it has changed.

        If good credentials are known, a changed file is read only when its writer has probably finished. If the
        operating system cannot read it, the next call tries again, because the reason may be gone by then.
        """
        try:
            status = os.stat(self._file.path)
            version = status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev
            seen = self._seen
            if version == seen.version:
                return seen.found
            if self._good and self._is_settling(status):
                return "it is being written" if self._failure else self._good
            seen = self._seen = _Seen(version, _read(self._file))
            return seen.found
        except (OSError, ValueError) as cause:  # ValueError: a path that cannot be one.
            return str(cause)

    def _is_settling(self, status: os.stat_result) -> bool:
        """Return whether the file changed less than `SETTLING_S` ago.

        If its writer has not finished, the file may hold only the beginning of a secret. Servers would refuse requests
        signed with that.
        """
        return 0 <= self._wall_clock() - status.st_mtime < SETTLING_S

    def _outlast(self, wrong: str) -> Credentials:
        """Return the last good credentials within the grace time; raise `OptionError` if it is over or none are known.

        The grace time begins with the first failed read after a good one.
        """
        what = f"the file cannot be read ({wrong})"
        failure = self._failure  # Another thread may set it to None meanwhile.
        if self._good is None:
            raise self._file.refuse(what)
        if failure is None:
            failure = self._failure = _Failure(self._clock(), self._wall_clock())
            _log.warning("using the last good credentials for up to %g s: %s", GRACE_S, self._file.refuse(what))
        if self._clock() - failure.began_s >= GRACE_S:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(failure.began_wall_s))
            raise self._file.refuse(f"{what} since {since}, and the last good credentials are too old")
        return self._good


@cache
def _watched(file: CredentialsFile) -> WatchedFile:
    """Return the process's one `WatchedFile` for a file of credentials; it is cached with the credentials it read."""
    return WatchedFile(file)


# --- the file --------------------------------------------------------------------------------------------------------


def _read(file: CredentialsFile) -> Credentials | str:
    """Return the credentials in a file, or what is wrong with it or its content; raise OSError if it cannot be read."""
    try:
        with open_regular_file(file.path) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            content = opened.read(MOST_BYTES + 1)
        if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
            _warn_of_writers(file, stat.S_IMODE(mode))
        return parse_credentials(content)
    except ValueError as cause:
        return str(cause)


@cache
def _warn_of_writers(file: CredentialsFile, mode: int) -> None:
    """Warn that other users may write a file; cached, so that a process warns once."""
    text = "%s = %s: other users may write it (mode %04o) and so choose the keys to sign with; run chmod go-w"
    _log.warning(text, file.option, file.path, mode)


def parse_credentials(content: bytes) -> Credentials:
    """Return the credentials in a file's content; raise ValueError, which quotes no secret, if it is not understood."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    values: dict[str, str] = {}
    for number, line in enumerate(_decode(content).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        name = _FIELDS.get(match[1].lower()) if match else None
        if match is None or name is None or name in values or not match[2]:
            raise ValueError(f"line {number} is not understood")
        values[name] = match[2]
    if not {"access_key", "secret_key"} <= values.keys():
        raise ValueError("accessKey or secretKey is missing")
    return Credentials(**values)


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None  # The error of Python quotes a byte of the file.
