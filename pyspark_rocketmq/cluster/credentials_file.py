"""How do credentials reach us that change while we run, and that may not travel?

By a file that exists on each machine. Settings hold its path alone, so that secrets appear in no pickle. Each signature
looks whether the file has changed, so a rotation counts from the next request on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from ..errors import OptionError
from .signing import Credentials

__all__ = ["CredentialsFile", "parse_credentials"]

_LINE = re.compile(r"(\w+)\s*[=:]\s*(.*)")
_FIELDS = {"accesskey": "access_key", "secretkey": "secret_key", "securitytoken": "security_token"}
_ACCEPTED = "give lines accessKey=…, secretKey=… and, if there is one, securityToken=…"


@dataclass(frozen=True, slots=True)
class CredentialsFile:
    """Where credentials are read."""

    path: str
    option: str = "credentialsFile"

    def current(self) -> Credentials:
        """What the file says now."""
        with self.reading():
            found = os.stat(self.path)
        return _read(self, (found.st_mtime_ns, found.st_ino, found.st_size))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what may go wrong with a file into an error that names the option."""
        try:
            yield
        except (OSError, ValueError) as cause:  # ValueError: a path that cannot be one, or text that is not UTF-8
            what = f"the file cannot be read ({cause})"
            raise OptionError(self.option, self.path, what, advice="give a readable file on every machine") from cause


@lru_cache(maxsize=16)
def _read(file: CredentialsFile, _version: tuple[int, int, int]) -> Credentials:
    """The contents, once for each version of the file."""
    with file.reading(), open(file.path, encoding="utf-8") as opened:
        text = opened.read()
    return parse_credentials(text, file)


def parse_credentials(text: str, file: CredentialsFile) -> Credentials:
    """Read the lines of a file; errors name the file and the number of the line, never what stands in it."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        name = _FIELDS.get(match[1].lower()) if match else None
        if match is None or name is None or name in values or not match[2]:
            raise OptionError(file.option, file.path, f"line {number} is not understood", advice=_ACCEPTED)
        values[name] = match[2]
    if not {"access_key", "secret_key"} <= values.keys():
        raise OptionError(file.option, file.path, "accessKey or secretKey is missing in the file", advice=_ACCEPTED)
    return Credentials(**values)
