"""Find the cluster that a command talks to, from the command line, the environment and the file of profiles.

A profile is used as a whole or not at all, so that the credentials of one cluster never go to another: the first of
these decides.

1. `--name-server` or an address in `-o`, with the options of `--profile` if that is given, too
2. `--profile`
3. the environment's NAMESRV_ADDR
4. the environment's PYSPARK_ROCKETMQ_PROFILE
5. the default profile of the file

Options of `-o` are added to each, and outrank a profile's. The environment's credentials are used together, and only
if neither `-o` nor the profile names any. A name that is no option is refused: a misspelt `useTLS` would leave the
connection unencrypted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from .profiles import default_profile, find_profile, warn_of_readers

if TYPE_CHECKING:
    from ..cluster.settings import ClusterSettings
    from ..options import HelperOptions
    from ..options.option import Option

__all__ = ["Wanted", "find_options", "find_raw_options", "is_public", "is_secret", "name_connection", "raw_options"]

ADDRESS_VARIABLE, PROFILE_VARIABLE = "NAMESRV_ADDR", "PYSPARK_ROCKETMQ_PROFILE"
SECRET_VARIABLES = {
    "accessKey": "PYSPARK_ROCKETMQ_ACCESS_KEY",
    "secretKey": "PYSPARK_ROCKETMQ_SECRET_KEY",
    "securityToken": "PYSPARK_ROCKETMQ_SECURITY_TOKEN",
}
"""Environment variables of secrets, by option."""
PROMPT = "-"
"""The value of a secret for which the user is asked."""
BETTER = "use credentialsFile, a profile, or -o NAME=- to be asked for it"
"""Advice to somebody who gives a secret on the command line."""
_RETRIES, _PAUSE_S = 1, 0.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values of the command line that say which cluster is meant."""

    name_server: str | None = None
    profile: str | None = None
    options: Sequence[str] = ()


def find_options(
    wanted: Wanted,
    *,
    env: Mapping[str, str] = os.environ,
    warn: Callable[[str], None] = lambda _: None,
    ask: Callable[[str], str] | None = None,
) -> HelperOptions:
    """Return the options with which a command runs; raise `OptionError` if they name no cluster.

    `warn` gets a line to show; `ask` gets an option's name and returns the secret that the user types, None if nobody
    can be asked.
    """
    from ..options import parse_helper_options

    raw = find_raw_options(wanted, env=env, warn=warn, ask=ask)
    # The variable counts only where no profile was chosen, which `raw_options` has settled.
    options = parse_helper_options(raw, env={})
    return replace(options, cluster=_with_repetitions(options.cluster, raw))


def find_raw_options(
    wanted: Wanted,
    *,
    env: Mapping[str, str] = os.environ,
    warn: Callable[[str], None] = lambda _: None,
    ask: Callable[[str], str] | None = None,
) -> dict[str, str]:
    """Return names and values of the options with which a command runs, secrets included; see `find_options`."""
    raw = raw_options(wanted, env, warn)
    _check_names(raw)
    _check_credentials_file(raw, warn)
    return _with_secrets(raw, env, ask)


def _with_repetitions(cluster: ClusterSettings, raw: Mapping[str, str]) -> ClusterSettings:
    """Return the settings with the repetitions that the options ask for, or else with few: somebody is waiting."""
    from ..net.backoff import Backoff
    from ..options.table.start_and_stop import RETRIES, RETRY_PAUSE
    from ..options.values import OptionText

    given = {option: OptionText(name, raw[name]) for name in raw if (option := _find_option(name))}
    retries = RETRIES.kind.read(given[RETRIES]) if RETRIES in given else _RETRIES
    pause_s = RETRY_PAUSE.kind.read(given[RETRY_PAUSE]) if RETRY_PAUSE in given else _PAUSE_S
    return replace(cluster, retries=retries, pause=Backoff(first_s=pause_s, longest_s=pause_s))


def raw_options(wanted: Wanted, env: Mapping[str, str], warn: Callable[[str], None]) -> dict[str, str]:
    """Return names and values of all options, from the command line, the environment and a profile."""
    given = dict(map(_split, wanted.options))
    for name in filter(is_secret, given):
        if given[name] != PROMPT:
            warn(f"{name} on the command line can be read by other users of this machine; {BETTER}")
    address = _address(wanted, given)
    base = _base(wanted, env, warn, bool(address))
    if address:
        base, given = _without_address(base), _without_address(given)
    raw = {**_without(base, given), **given, **address}
    if not any(map(_is_address, raw)):
        raise _no_cluster()
    return raw


def _address(wanted: Wanted, given: Mapping[str, str]) -> dict[str, str]:
    """Return the address that the command line names, by `--name-server` or else by `-o`."""
    if wanted.name_server is not None:
        return {"nameServer": wanted.name_server}
    return {name: text for name, text in given.items() if _is_address(name)}


def _without(options: Mapping[str, str], others: Iterable[str]) -> dict[str, str]:
    """Return options without those that others name, too, perhaps by another name of the same option."""
    named = set(map(_find_option, others))
    return {name: text for name, text in options.items() if (_find_option(name) or name) not in named}


def _without_address(options: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in options.items() if not _is_address(name)}


def name_connection(
    wanted: Wanted, name_servers: Iterable[object], env: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return words that lead another command to the same cluster, whatever its environment; they hold no secret."""
    given = dict(map(_split, wanted.options))
    address = _address(wanted, given)
    profile = _profile_name(wanted, env, bool(address))
    # A secret is asked for again; a name that is no option may have one as its value, and has no effect.
    known = {name: text for name, text in _without_address(given).items() if _find_option(name)}
    options = {name: PROMPT if is_secret(name) else text for name, text in known.items()}
    return (
        *(("--profile", profile) if profile is not None else ()),
        *("--name-server", ";".join(map(str, name_servers))),
        *(word for name, text in options.items() for word in ("-o", f"{name}={text}")),
    )


def _base(wanted: Wanted, env: Mapping[str, str], warn: Callable[[str], None], has_address: bool) -> dict[str, str]:
    """Return the options of the profile that is to be used, or the address in the environment."""
    profile = _profile_name(wanted, env, has_address)
    found = find_profile(profile, env, is_secret, warn) if profile is not None else {}
    address = env.get(ADDRESS_VARIABLE, "").strip()
    if has_address or not address or any(map(_is_address, found)):
        return found
    return {**found, "nameServer": address}


def _profile_name(wanted: Wanted, env: Mapping[str, str], has_address: bool) -> str | None:
    """Return the name of the profile that is to be used, None if there is none.

    With `has_address`, the command line names the cluster: no profile counts that was not asked for.
    """
    if wanted.profile is not None:
        return wanted.profile
    if has_address or env.get(ADDRESS_VARIABLE, "").strip():
        return None
    return env.get(PROFILE_VARIABLE, "").strip() or default_profile(env)


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        # The text is not shown: it may be a secret.
        raise OptionError("-o", None, "not of the form NAME=VALUE", advice="for example -o useTLS=true")
    return name.strip(), value


def _check_names(raw: Mapping[str, str]) -> None:
    """Raise `OptionError` for a name that is no option, unless the options themselves say how strict to be."""
    from ..options.keys import complain
    from ..options.refused import find_refusal
    from ..options.table.security import STRICT_OPTIONS

    if STRICT_OPTIONS in map(_find_option, raw):
        return
    for name, text in raw.items():
        if _find_option(name) is None:
            raise find_refusal(name, text) or complain(name, text) or _unknown(name)


def _unknown(name: str) -> OptionError:
    advice = "pyspark-rocketmq options lists all"
    return OptionError(name, "***", "is not an option", advice=advice, code="OPTION_UNKNOWN")


def _with_secrets(raw: Mapping[str, str], env: Mapping[str, str], ask: Callable[[str], str] | None) -> dict[str, str]:
    """Return the options with secrets from the environment and from the user."""
    complete = dict(raw)
    if not any(map(_is_credential, raw)):
        complete |= {option: env[variable] for option, variable in SECRET_VARIABLES.items() if env.get(variable)}
    for name in filter(is_secret, raw):
        if raw[name] == PROMPT:
            if ask is None:
                raise OptionError(name, None, "asked for, but there is no terminal", advice=BETTER)
            complete[name] = ask(name)
    return complete


def _check_credentials_file(raw: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Warn if other users may read the file of credentials that the options name."""
    from ..options.table.security import CREDENTIALS_FILE

    for name, text in raw.items():
        if _find_option(name) is CREDENTIALS_FILE:
            warn_of_readers(text, warn)


def _find_option(name: str) -> Option[Any] | None:
    from ..options.keys import find_option

    found = find_option(name)
    return found.option if found else None


def is_public(name: str) -> bool:
    """Return whether a name is that of an option whose value may be shown."""
    option = _find_option(name)
    return option is not None and not option.secret


def _is_credential(name: str) -> bool:
    from ..options.table.security import ACCESS_KEY, CREDENTIALS_FILE, SECRET_KEY, SECURITY_TOKEN

    return _find_option(name) in (ACCESS_KEY, SECRET_KEY, SECURITY_TOKEN, CREDENTIALS_FILE)


def is_secret(name: str) -> bool:
    """Return whether a name is that of an option whose value is a secret."""
    option = _find_option(name)
    return option is not None and option.secret


def _is_address(name: str) -> bool:
    from ..options.table.addressing import NAME_SERVER

    return _find_option(name) is NAME_SERVER


def _no_cluster() -> OptionError:
    advice = f"give --name-server host:9876, set {ADDRESS_VARIABLE}, or write a profile (pyspark-rocketmq --help)"
    return OptionError("--name-server", None, "not given", advice=advice, code="OPTION_MISSING")
