"""Run the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..command import Command, Parameter
from ..views import Text, View

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["COMMANDS"]


@dataclass(frozen=True, slots=True)
class Ready:
    """The addresses of a stub that is ready."""

    name_server: str
    endpoints: str | None
    """The gRPC proxy; null if grpcio is not installed."""
    topics: dict[str, int]
    """The number of queues of each topic."""


def _run(session: Session, **values: Any) -> Iterator[Ready]:
    from broker_stub.__main__ import catch_signals, open_stub

    words = [word for parameter in PARAMETERS for word in _words(parameter, values[parameter.key])]
    with catch_signals() as ended, open_stub(words) as stub:
        yield Ready(stub.name_server, stub.endpoints, stub.topics())
        ended.wait()


def _words(parameter: Parameter, value: Any) -> list[str]:
    """Return the words by which the stub's own command line gets a value, even one that begins with a dash."""
    given = value if parameter.is_repeatable else [] if value is None else [value]
    return [f"{parameter.name}={each}" for each in given]


def _show(ready: Ready) -> list[View]:
    from broker_stub.__main__ import describe

    first = f"nameServer={ready.name_server} endpoints={ready.endpoints or '-'}"
    return [Text(line) for line in (first, *describe(ready.name_server, ready.topics))]


PARAMETERS = (
    Parameter("--host", "where to listen (default: loopback)", metavar="HOST"),
    Parameter("--port", "name server (default: 9876, 0: a free one)", int, metavar="PORT"),
    Parameter("--grpc-port", "gRPC proxy (default: 8081, 0: a free one)", int, metavar="PORT"),
    Parameter("--topic", "topic to create", is_repeatable=True, metavar="NAME:QUEUES"),
    Parameter("--seed", "messages to store at the start, as JSON lines", metavar="FILE"),
    Parameter("--data", "directory that keeps the state across restarts", metavar="DIR"),
    Parameter("--broker", "name of a broker (default: broker-a)", is_repeatable=True, metavar="NAME"),
    Parameter(
        "--acl-file", "serve only signed requests of users in this file, one KEY:SECRET per line", metavar="FILE"
    ),
    Parameter("--tls", "PEM files; the ports then serve TLS and plain clients, gRPC TLS only", metavar="CERT:KEY"),
    Parameter("--emulate", "release whose behaviour to emulate (default: 5.3.3)", choices=("5.3.3", "4.9.7")),
)

COMMANDS = (
    Command(
        "stub",
        Ready,
        _run,
        _show,
        parameters=PARAMETERS,
        details="A RocketMQ name server and broker in this process, for tests and trials; rocketmq-stub is the same. "
        "The first line says that it is ready, and at which addresses; the next ones say what it serves and how Spark "
        "reads it. Ctrl-C or SIGTERM ends it.",
        examples=("pyspark-rocketmq stub --port 0 --grpc-port 0 --topic orders:4",),
        connects=False,
        is_stream=True,
    ),
)
