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

import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import OptionError

__all__ = ["DEFAULT_KEY", "default_profile", "find_profile", "profiles_path"]

DEFAULT_KEY = "default"
_OPTION = "--profile"
_OF_OTHERS = 0o077
_MOST_BYTES = 1024 * 1024


def profiles_path(env: Mapping[str, str]) -> Path:
    """Return the path of the file of profiles, which need not exist."""
    base = env.get("XDG_CONFIG_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".config") / "pyspark-rocketmq" / "config.toml"


def default_profile(env: Mapping[str, str]) -> str | None:
    """Return the name of the default profile, None if there is none; raise `OptionError` if the file has errors."""
    path = profiles_path(env)
    return _default(path, _read(path)) if path.exists() else None


def find_profile(
    name: str, env: Mapping[str, str], is_secret: Callable[[str], bool], warn: Callable[[str], None]
) -> dict[str, str]:
    """Return the options of a profile.

    Raise `OptionError` if the file has errors, or no profile of this name. Warn if a profile holds a secret and others
    may read the file.
    """
    path = profiles_path(env)
    if not path.exists():
        raise OptionError(_OPTION, name, f"there is no file {path}", advice="write it, or give --name-server")
    options = _options(path, _read(path), name)
    if any(map(is_secret, options)) and (mode := stat.S_IMODE(path.stat().st_mode)) & _OF_OTHERS:
        warn(f"{path}: other users may read the secrets (mode {mode:o}); run chmod 600 on it")
    return options


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        return tomllib.loads(data.decode("utf-8"))
    except (OSError, ValueError) as cause:
        shown = cause.strerror if isinstance(cause, OSError) else str(cause)
        raise OptionError(_OPTION, str(path), f"unreadable: {shown}", advice="correct the file") from None


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
    if isinstance(value, str | int):
        return str(value)
    what = f"{key} in profile {name} is neither text nor a number nor true or false"
    raise OptionError(_OPTION, str(path), what, advice="write the option's value as text")
