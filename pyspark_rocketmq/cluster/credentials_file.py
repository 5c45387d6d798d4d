"""Read credentials from a file that exists on each machine and may change at any time.

Settings hold only the path, so that no pickle holds a secret. Each signature checks whether the file has changed, so
that the next request after a change is signed with the new credentials.
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
    """A file that holds credentials."""

    path: str
    option: str = "credentialsFile"

    def current(self) -> Credentials:
        """Return the credentials that the file holds now."""
        with self.reading():
            version = os.stat(self.path)
        return _read(self, (version.st_mtime_ns, version.st_ino, version.st_size))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of the `with` block, which reads or parses the file, into an `OptionError` about the option."""
        try:
            yield
        except (OSError, ValueError) as cause:  # ValueError: a path that cannot be one, or text that is not UTF-8
            what = f"the file cannot be read ({cause})"
            raise OptionError(self.option, self.path, what, advice="give a readable file on every machine") from cause


@lru_cache(maxsize=16)
def _read(file: CredentialsFile, _version: tuple[int, int, int]) -> Credentials:
    """Return the credentials in the file; cached, so that each version of the file is read once."""
    with file.reading(), open(file.path, encoding="utf-8") as opened:
        text = opened.read()
    return parse_credentials(text, file)


def parse_credentials(text: str, file: CredentialsFile) -> Credentials:
    """Return the credentials in a file's text; errors name the file and the number of the line, never its text."""
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
