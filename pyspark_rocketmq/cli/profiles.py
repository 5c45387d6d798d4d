"""Read the file of profiles: the options of clusters, under names.

    default = "dev"

    [dev]
    nameServer = "localhost:9876"

    [prod]
    nameServer = "ns-1:9876;ns-2:9876"
    useTLS = true
    credentialsFile = "/etc/rocketmq/reader.credentials"

The file is `config.toml` in `~/.config/pyspark-rocketmq`, or below XDG_CONFIG_HOME. Each profile has names and values
of options, as `format("rocketmq")` takes them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import OptionError

__all__ = ["DEFAULT_KEY", "default_profile", "find_profile", "profiles_path", "warn_of_readers"]

DEFAULT_KEY = "default"
_OPTION = "--profile"
_OF_OTHERS = 0o077
_MOST_BYTES = 1024 * 1024
_MOST_NUMBER = 2**63 - 1


def profiles_path(env: Mapping[str, str]) -> Path:
    """Return the path of the file of profiles, which need not exist; raise `OptionError` if the user has no home."""
    base = env.get("XDG_CONFIG_HOME", "").strip()
    try:
        return (Path(base) if base else Path.home() / ".config") / "pyspark-rocketmq" / "config.toml"
    except RuntimeError:
        advice = "set HOME or XDG_CONFIG_HOME, or give --name-server"
        raise OptionError(_OPTION, None, "this user has no home directory", advice=advice) from None


def default_profile(env: Mapping[str, str]) -> str | None:
    """Return the name of the default profile, None if there is none; raise `OptionError` if the file has errors."""
    try:
        path = profiles_path(env)
    except OptionError:
        return None
    content = _read(path)
    return None if content is None else _default(path, content)


def find_profile(
    name: str, env: Mapping[str, str], is_secret: Callable[[str], bool], warn: Callable[[str], None]
) -> dict[str, str]:
    """Return the options of a profile.

    Raise `OptionError` if the file has errors, or no profile of this name. Warn if a profile holds a secret and others
    may read the file.
    """
    path = profiles_path(env)
    content = _read(path)
    if content is None:
        raise OptionError(_OPTION, name, f"there is no file {path}", advice="write it, or give --name-server")
    options = _options(path, content, name)
    if any(map(is_secret, options)):
        warn_of_readers(path, warn)
    return options


def warn_of_readers(path: str | Path, warn: Callable[[str], None]) -> None:
    """Warn if users other than its owner may read or write a file, which holds secrets."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except (OSError, ValueError):  # The reader of the file will complain.
        return
    if os.name == "posix" and mode & _OF_OTHERS:
        warn(f"{path}: other users may read the secrets (mode {mode:o}); run chmod 600 on it")


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of the file, None if there is no file; raise `OptionError` if it cannot be read."""
    import tomllib

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        content = tomllib.loads(data.decode("utf-8-sig"))  # Editors on Windows write a mark at the beginning.
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as cause:
        what = cause.strerror if isinstance(cause, OSError) else _describe(cause)
        raise OptionError(_OPTION, str(path), f"unreadable: {what}", advice="correct the file") from None
    _check(path, content)
    return content


def _describe(cause: ValueError | RecursionError) -> str:
    """Return what is wrong with a file's content, without a part of it, which may be a secret."""
    return "it is not UTF-8 text" if isinstance(cause, UnicodeDecodeError) else str(cause)


def _check(path: Path, content: Mapping[str, Any]) -> None:
    """Raise `OptionError` if an option stands outside of the profiles, or a profile has the name of the default."""
    if isinstance(content.get(DEFAULT_KEY), dict):
        what = f"[{DEFAULT_KEY}] cannot be a profile: {DEFAULT_KEY} names one"
        raise OptionError(_OPTION, str(path), what, advice=f'call it [main], and write {DEFAULT_KEY} = "main" above it')
    for name, value in content.items():
        if name != DEFAULT_KEY and not isinstance(value, dict):
            what = f"{name} stands outside of the profiles"
            raise OptionError(_OPTION, str(path), what, advice="write it below a line such as [dev]")


def _default(path: Path, content: Mapping[str, Any]) -> str | None:
    name = content.get(DEFAULT_KEY)
    if name is not None and not isinstance(name, str):
        raise OptionError(_OPTION, str(path), f"{DEFAULT_KEY} is not text", advice='write default = "name"')
    return name


def _options(path: Path, content: Mapping[str, Any], name: str) -> dict[str, str]:
    options = content.get(name)
    if not isinstance(options, dict):
        known = ", ".join(each for each, value in content.items() if isinstance(value, dict)) or "none"
        raise OptionError(_OPTION, name, f"{path} has no such profile", advice=f"known are: {known}")
    return {key: _text(path, name, key, value) for key, value in options.items()}


def _text(path: Path, name: str, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) or (isinstance(value, int) and abs(value) <= _MOST_NUMBER):
        return str(value)
    what = f"{key} in profile {name} is neither text nor a number nor true or false"
    raise OptionError(_OPTION, str(path), what, advice="write the option's value as text")
