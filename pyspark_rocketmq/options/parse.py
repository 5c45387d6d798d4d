"""Turn Spark's strings into settings.

Keys become options and texts become values in `GivenOptions`; then `conflicts` checks what goes together, and `build`
makes settings. Spark creates the data source before it says whether to read a stream, read a batch or write. At that
moment names, values and contradictions between options are checked. Options that do not apply, and missing options
that a read requires, are checked once that is known.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from ..cluster.settings import ClusterSettings
from ..errors import OptionError
from .build import build_helper, build_reader, build_writer
from .conflicts import check_rules
from .given import GivenOptions
from .keys import KeyMatch, complain, describe_foreign, find_option
from .reader_options import HelperOptions, ReaderOptions
from .refused import find_refusal
from .table.addressing import NAME_SERVER
from .table.security import STRICT_OPTIONS
from .writer_options import GivenBatch, WriterOptions

__all__ = [
    "batch_keys",
    "condition_key",
    "parse_helper_options",
    "parse_reader_options",
    "parse_writer_options",
    "require_topics",
]

_USES = {True: "S", False: "B", None: ""}
_QUERY_KEY, _BATCH_KEY = "__rocketmqquery", "__rocketmqbatch"
"""Keys under which `writing.send` passes on which batch of which query is written."""
_CONDITION_KEY = "__rocketmqcondition"
"""Key under which `read_where` passes on its condition."""
_IGNORED = {"checkpointlocation", _QUERY_KEY, _BATCH_KEY, _CONDITION_KEY}
"""Keys that Spark, `writing.send` or `read_where` adds to the options."""
_ENVIRONMENT = {NAME_SERVER: "NAMESRV_ADDR"}
_log = logging.getLogger(__name__)


def parse_reader_options(
    raw: Mapping[str, str],
    *,
    stream: bool | None,
    env: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> ReaderOptions:
    """Return the settings of a streaming read (`stream=True`) or a batch read (`stream=False`).

    None means that it is not known yet whether the options are for a read or a write; checks that need it are left out.
    """
    given = _read_options(raw, _USES[stream], env, now_ms=int(clock() * 1000))
    if stream is not None:
        given.check_scope()
    check_rules(given)
    options = build_reader(given)
    if stream is not None:
        require_topics(options)
        _warn_of_open_token(options.cluster)
    condition = next((text for key, text in raw.items() if key.lower() == _CONDITION_KEY), "")
    return replace(options, condition=condition)


def parse_writer_options(
    raw: Mapping[str, str], *, env: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.time
) -> WriterOptions:
    """Return the settings of a write, of a stream or of a batch."""
    given = _read_options(raw, "W", env, now_ms=int(clock() * 1000))
    given.check_scope()
    check_rules(given)
    options = build_writer(given)
    _warn_of_open_token(options.cluster)
    return replace(options, batch=_read_batch(raw))


def batch_keys(query_id: str, batch_id: int) -> dict[str, str]:
    """Return the keys that tell a writer which batch of which query it writes; users do not give them."""
    return {_QUERY_KEY: query_id, _BATCH_KEY: str(batch_id)}


def condition_key(condition: str) -> dict[str, str]:
    """Return the key that tells a reader which rows Spark keeps of its read; users do not give it."""
    return {_CONDITION_KEY: condition}


def _read_batch(raw: Mapping[str, str]) -> GivenBatch | None:
    keys = {key.lower(): text for key, text in raw.items()}
    return GivenBatch(keys[_QUERY_KEY], int(keys[_BATCH_KEY])) if _QUERY_KEY in keys else None


def parse_helper_options(
    raw: Mapping[str, str], *, env: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.time
) -> HelperOptions:
    """Return the settings of a helper function from a reader's options; options that only readers have are ignored."""
    given = _read_options(raw, "H", env, now_ms=int(clock() * 1000))
    given.drop_other_uses()
    check_rules(given)
    return build_helper(given)


def require_topics(options: ReaderOptions) -> None:
    """Raise `OptionError` if the options select no topics, no pattern of topics and no queues."""
    selection = options.selection
    if not selection.topics and selection.pattern is None and selection.assignment is None:
        advice = "give exactly one of subscribe, subscribePattern and assign"
        raise OptionError("subscribe", None, "not given", advice=advice, code="OPTION_MISSING")


def _warn_of_open_token(cluster: ClusterSettings) -> None:
    """Warn if a security token would be sent unencrypted."""
    credentials = cluster.credentials.current() if cluster.credentials else None
    if credentials and credentials.security_token and cluster.net.tls is None:
        text = "requests are signed but not encrypted: the network can read their securityToken; set useTLS=true"
        _log.warning(text)


def _read_options(raw: Mapping[str, str], use: str, env: Mapping[str, str], now_ms: int) -> GivenOptions:
    """Return the options that the user gave, and those from environment variables that the user did not give."""
    given = GivenOptions(use, now_ms)
    strangers: dict[str, str] = {}
    for key, text in raw.items():
        match = find_option(key, use)
        if match is None:
            strangers[key] = text
        elif use or not match.depends_on_use:
            given.take(match, text)
        else:
            # Reads and writes have different options of this name, so errors wait until the use is known.
            with suppress(OptionError):
                given.take(match, text)
    _check_strangers(strangers, given)
    for option, name in _ENVIRONMENT.items():
        if not given.gave(option) and env.get(name, "").strip():
            given.take(KeyMatch(name, option), env[name])
    return given


def _check_strangers(strangers: Mapping[str, str], given: GivenOptions) -> None:
    """Check `strangers`, the keys that name no option, with their values.

    Raise for a key that `refused` lists or `strictOptions` forbids. Log any other key, but only when it is known
    whether the options are for a read or a write.
    """
    strictness = given.get(STRICT_OPTIONS)
    for key, text in strangers.items():
        if key.lower() in _IGNORED:
            continue
        if refusal := find_refusal(key, text):
            raise refusal
        error = complain(key, text)
        if strictness == "all" or (error and strictness == "error"):
            raise error or describe_foreign(key)
        if given.use:
            _log.warning("option %s is not known here and has no effect", key)
