"""Run the stub as a program, in the foreground.

The first line on stdout says that the stub is ready, and at which addresses: `nameServer=HOST:PORT
endpoints=HOST:PORT`. The next lines are for people. SIGTERM and SIGINT end the program.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pyspark_rocketmq.errors import OptionError, RocketMQError

from .arguments import LAST_PORT
from .releases import RELEASES
from .server import TlsFiles
from .stub import LOOPBACK, Options, StubCluster

NAME_SERVER_PORT, GRPC_PORT = 9876, 8081
NO_ENDPOINTS = "-"
STDIN = "-"
_USERS_FORM = "give a UTF-8 file with one KEY:SECRET per line, or - for the standard input"
_MOST_USERS_CHARACTERS = 1024 * 1024
_MODE_OF_OTHERS = 0o077
_FAILED = 2
_MOST_TOPICS = 8
"""The most topics that are named when the stub is ready."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a stub until SIGTERM or SIGINT, and return the exit code."""
    try:
        with catch_signals() as ended, open_stub(arguments) as stub:
            print(f"nameServer={stub.name_server} endpoints={stub.endpoints or NO_ENDPOINTS}")
            print("\n".join(describe(stub.name_server, stub.topics())), flush=True)
            ended.wait()
    except RocketMQError as error:
        print(error, file=sys.stderr)
        return _FAILED
    return 0


def describe(name_server: str, topics: Mapping[str, int]) -> list[str]:
    """Return lines that say what a stub serves, how Spark reads it, and how to end it."""
    named = [f"{topic} ({count} queue{'s' * (count != 1)})" for topic, count in topics.items()]
    more = f" and {len(named) - _MOST_TOPICS} more" * (len(named) > _MOST_TOPICS)
    place = f'.option("nameServer", "{name_server}").option("subscribe", "{next(iter(topics), "orders")}")'
    return [
        f"topics: {', '.join(named[:_MOST_TOPICS]) or 'none; the first message to a topic makes it'}{more}",
        f'in Spark: spark.read.format("rocketmq"){place}.load()',
        "Ctrl-C ends it; without --data DIR its messages are gone then",
    ]


@contextmanager
def catch_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and SIGINT set, instead of ending the process, during the `with` block."""
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def open_stub(arguments: Sequence[str] | None = None) -> Iterator[StubCluster]:
    """Yield a running stub with the options and seeds of a command line; None means that of the process."""
    given = _parser().parse_args(arguments)
    topics = dict(map(parse_topic, given.topic))
    with StubCluster(given.broker or 1, topics=topics, **_options(given)) as stub:
        for row in read_seeds(Path(given.seed)) if given.seed else ():
            stub.put(**row)
        yield stub


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rocketmq-stub", description="An Apache RocketMQ name server and broker for tests.", allow_abbrev=False
    )
    add = parser.add_argument
    add("--host", default=LOOPBACK, help="where to listen (default: %(default)s)")
    add("--port", type=int, default=NAME_SERVER_PORT, help="name server (default: %(default)s, 0: a free one)")
    add("--grpc-port", type=int, default=GRPC_PORT, help="gRPC proxy (default: %(default)s, 0: a free one)")
    add("--topic", action="append", default=[], metavar="NAME:QUEUES", help="topic to create; repeatable")
    add("--seed", metavar="FILE", help="messages to store at the start, as JSON lines")
    add("--data", metavar="DIR", help="directory that keeps the state across restarts")
    add("--broker", action="append", metavar="NAME", help="name of a broker; repeatable (default: broker-a)")
    add(
        "--acl-file",
        metavar="FILE",
        help="serve only signed requests of the users in this file, one KEY:SECRET per line",
    )
    add("--tls", metavar="CERT:KEY", help="PEM files; the ports then serve TLS and plain clients, gRPC TLS only")
    add(
        "--emulate", choices=RELEASES, default="5.3.3", help="release whose behaviour to emulate (default: %(default)s)"
    )
    return parser


def _options(given: argparse.Namespace) -> Options:
    for option, port in (("--port", given.port), ("--grpc-port", given.grpc_port)):
        if not 0 <= port <= LAST_PORT:
            raise OptionError(option, str(port), "not a port", advice=f"give 1 to {LAST_PORT}, or 0 for a free one")
    options = Options(
        host=given.host, port=given.port, grpc_port=given.grpc_port, data=given.data, emulate=given.emulate
    )
    if given.acl_file:
        options["acl"] = read_users(given.acl_file)
    if given.tls:
        options["tls"] = TlsFiles(*_pair("--tls", given.tls, "CERT:KEY"))
    return options


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    first, colon, second = text.partition(":")
    if not (first and colon and second):
        raise OptionError(option, text, f"not of the form {form}", advice=f"give {form}")
    return first, second


# --- users -----------------------------------------------------------------------------------------------------------


def read_users(name: str) -> dict[str, str]:
    """Return each user's secret, by access key, from a file, or from the standard input if `name` is `-`.

    Error texts contain no secret. Warn if other users of this machine may read the file.
    """
    lines = _read_users_text(name).splitlines()
    users = dict(_parse_user(name, number, line) for number, line in enumerate(lines, 1) if line.strip())
    if not users:
        raise OptionError("--acl-file", name, "no users", advice=_USERS_FORM)
    return users


def _read_users_text(name: str) -> str:
    try:
        text = _read_limited(sys.stdin) if name == STDIN else _read_private(Path(name))
    except (OSError, UnicodeDecodeError) as cause:
        raise OptionError("--acl-file", name, f"unreadable: {type(cause).__name__}", advice=_USERS_FORM) from cause
    if len(text) > _MOST_USERS_CHARACTERS:
        what = f"more than {_MOST_USERS_CHARACTERS} characters"
        raise OptionError("--acl-file", name, what, advice="give fewer users")
    return text


def _read_private(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        if (mode := stat.S_IMODE(os.fstat(file.fileno()).st_mode)) & _MODE_OF_OTHERS:
            print(f"{path}: other users may read the secrets (mode {mode:o}); run chmod 600 on it", file=sys.stderr)
        return _read_limited(file)


def _read_limited(file: TextIO) -> str:
    """Return a users file's text, cut at one character more than allowed, which shows that the file is too long."""
    return file.read(_MOST_USERS_CHARACTERS + 1)


def _parse_user(name: str, number: int, line: str) -> tuple[str, str]:
    key, _, secret = line.strip().partition(":")
    if not (key and secret):
        raise OptionError("--acl-file", f"{name}, line {number}", "not of the form KEY:SECRET", advice=_USERS_FORM)
    return key, secret


# --- topics ----------------------------------------------------------------------------------------------------------


def parse_topic(text: str) -> tuple[str, int]:
    """Return the topic's name and number of queues from text of the form `NAME:QUEUES`."""
    name, _, queues = text.rpartition(":")
    if not (name and queues.isdecimal() and int(queues)):
        raise OptionError("--topic", text, "not a topic", advice="give NAME:QUEUES, for example orders:8")
    return name, int(queues)


# --- seeds -----------------------------------------------------------------------------------------------------------


def read_seeds(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the keyword arguments of `StubBroker.put` for each line of a file with one JSON object per message."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as cause:
        raise OptionError("--seed", str(path), f"unreadable: {cause}", advice="give a file of JSON lines") from cause
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _parse_seed(json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError) as cause:
                where = f"{path}, line {number}"
                raise OptionError("--seed", where, f"not a message: {cause!r}", advice=_SEED_FORM) from cause


_SEED_FORM = "give {topic, queueId?, tags?, keys?, properties?, body or bodyBase64, storeTimestamp?}"
_SEED_MEMBERS = {"queueId": "queue_id", "tags": "tags", "keys": "keys", "storeTimestamp": "store_timestamp"}


def _parse_seed(row: dict[str, Any]) -> dict[str, Any]:
    encoded = row.get("bodyBase64")
    body = row["body"].encode() if encoded is None else base64.b64decode(encoded, validate=True)
    properties = {str(name): str(value) for name, value in (row.get("properties") or {}).items()}
    optional = {ours: row[theirs] for theirs, ours in _SEED_MEMBERS.items() if theirs in row}
    return {"topic": row["topic"], "body": body, "properties": properties, **optional}


if __name__ == "__main__":
    sys.exit(main())
