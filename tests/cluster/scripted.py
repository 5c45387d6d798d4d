"""Build a cluster for tests whose servers answer from a table of handlers, without network connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.links import Addressed, Result
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectError, RocketMQError
from pyspark_rocketmq.model import Address, parse_address
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import Command

SERVER_VERSION = 479
Server = Callable[[Command], Command]


def answer(
    code: int = 0, body: Any = None, remark: str | None = None, version: int = SERVER_VERSION, **fields: object
) -> Command:
    """Return a server's response; `body` is bytes, or an object to be encoded as JSON; `fields` are header fields."""
    texts = {name: str(value) for name, value in fields.items()}
    data = body if isinstance(body, bytes) else b"" if body is None else fastjson.write(body)
    return Command(code, fields=texts, body=data, remark=remark, version=version)


def unsupported() -> Command:
    """Return the response of a server to a request code that it does not know."""
    return answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="not supported")


def raising(error: RocketMQError) -> Server:
    """Return a request handler that raises this error, as a broken connection does."""

    def fail(request: Command) -> Command:
        raise error

    return fail


class ScriptedLinks:
    """Links to scripted servers, by address; they record all requests. Other addresses refuse connections."""

    def __init__(self) -> None:
        self.servers: dict[Address, dict[int, Server]] = {}
        self.calls: list[Addressed] = []
        self.bursts: list[int] = []

    def serve(self, address: str, **handlers: Server | Command) -> None:
        """Set how the server at an address answers; each keyword is the name of a request code."""
        table = self.servers.setdefault(parse_address(address), {})
        for name, handler in handlers.items():
            table[RequestCode[name]] = _always(handler) if isinstance(handler, Command) else handler

    def stop(self, address: str) -> None:
        """Remove the server at an address, so that connections to it are refused."""
        del self.servers[parse_address(address)]

    def asked(self, name: str) -> list[dict[str, str]]:
        """Return the header fields of all requests so far whose request code has this name."""
        return [request.fields or {} for _, request in self.calls if request.code == RequestCode[name]]

    def addresses(self, name: str | None = None) -> list[str]:
        """Return the address of each request so far; with `name`, only of requests with this request code."""
        return [str(address) for address, request in self.calls if name in (None, RequestCode(request.code).name)]

    def call(self, address: Address, request: Command, deadline: Deadline | None = None) -> Command:
        """Return the scripted server's response; raise `ConnectError` if there is no such server."""
        self.calls.append((address, request))
        if address not in self.servers:
            raise ConnectError("refused", address=str(address))
        server = self.servers[address].get(request.code)
        return server(request) if server else unsupported()

    def call_all(self, requests: Sequence[Addressed], deadline: Deadline | None = None) -> list[Result]:
        """Return the scripted responses, or for each failed request its error in place of a response."""
        self.bursts.append(len(requests))
        return [self._result(*request, deadline) for request in requests]

    def tell(self, address: Address, request: Command, deadline: Deadline | None = None) -> None:
        """Pass a one-way request to the scripted server, and ignore its response."""
        self.call(address, request, deadline)

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _result(self, address: Address, request: Command, deadline: Deadline | None) -> Result:
        try:
            return self.call(address, request, deadline)
        except RocketMQError as error:
            return error


def _always(command: Command) -> Server:
    return lambda _: replace(command)


def route_of(queue_count: int = 2, /, **masters: dict[int, str]) -> Command:
    """Return a name server's response with a route; each keyword is a broker's name, with {broker id: address}."""
    counts = {"perm": 6, "readQueueNums": queue_count, "writeQueueNums": queue_count}
    return answer(
        body={
            "queueDatas": [{"brokerName": name, **counts} for name in masters],
            "brokerDatas": [{"brokerName": name, "cluster": "C", "brokerAddrs": at} for name, at in masters.items()],
        }
    )


def cluster_of(links: ScriptedLinks, *name_servers: str, **settings: Any) -> Cluster:
    """Return a cluster with these name servers, over scripted links, that does not pause between attempts."""
    addresses = tuple(map(parse_address, name_servers or ("ns:1",)))
    return Cluster(ClusterSettings(addresses, pause=Backoff(0.0, 0.0), **settings), links)
