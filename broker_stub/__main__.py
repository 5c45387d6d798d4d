"""Run the stub as a program, in the foreground.

The first line on stdout says that the stub is ready, and at which addresses: `nameServer=HOST:PORT
endpoints=HOST:PORT`. SIGTERM and SIGINT end the program.
"""

from __future__ import annotations

import argparse
import base64
import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark_rocketmq.errors import OptionError, RocketMQError

from .releases import RELEASES
from .server import TlsFiles
from .stub import LOOPBACK, Options, StubBroker

NAME_SERVER_PORT, GRPC_PORT = 9876, 8081
NO_ENDPOINTS = "-"
_FAILED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a stub until SIGTERM or SIGINT, and return the exit code."""
    given = _parser().parse_args(arguments)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        with StubBroker(dict(map(parse_topic, given.topic)), **_options(given)) as stub:
            for row in read_seeds(Path(given.seed)) if given.seed else ():
                stub.put(**row)
            print(f"nameServer={stub.name_server} endpoints={stub.endpoints or NO_ENDPOINTS}", flush=True)
            ended.wait()
    except RocketMQError as error:
        print(error, file=sys.stderr)
        return _FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rocketmq-stub", description="An Apache RocketMQ name server and broker for tests."
    )
    add = parser.add_argument
    add("--host", default=LOOPBACK, help="where to listen (default: %(default)s)")
    add("--port", type=int, default=NAME_SERVER_PORT, help="name server (default: %(default)s, 0: a free one)")
    add("--grpc-port", type=int, default=GRPC_PORT, help="gRPC proxy (default: %(default)s, 0: a free one)")
    add("--topic", action="append", default=[], metavar="NAME:QUEUES", help="topic to create; repeatable")
    add("--seed", metavar="FILE", help="messages to store at the start, as JSON lines")
    add("--data", metavar="DIR", help="directory that keeps the state across restarts")
    add("--acl", metavar="KEY:SECRET", help="serve only requests signed with this key")
    add("--tls", metavar="CERT:KEY", help="PEM files; the ports then serve TLS and plain clients, gRPC TLS only")
    add(
        "--emulate", choices=RELEASES, default="5.3.3", help="release whose behaviour to emulate (default: %(default)s)"
    )
    return parser


def _options(given: argparse.Namespace) -> Options:
    options = Options(
        host=given.host, port=given.port, grpc_port=given.grpc_port, data=given.data, emulate=given.emulate
    )
    if given.acl:
        options["acl"] = dict([_pair("--acl", given.acl, "KEY:SECRET")])
    if given.tls:
        options["tls"] = TlsFiles(*_pair("--tls", given.tls, "CERT:KEY"))
    return options


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    first, colon, second = text.partition(":")
    if not (first and colon and second):
        raise OptionError(option, text, f"not of the form {form}", advice=f"give {form}")
    return first, second


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
