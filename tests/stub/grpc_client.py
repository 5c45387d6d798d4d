"""Provide a gRPC client of the stub's proxy that sends exactly the fields that a test gives it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import grpc

from pyspark_rocketmq.grpc_v2.metadata import CLIENT_ID, LANGUAGE
from pyspark_rocketmq.grpc_v2.methods import METHODS

TIMEOUT_S = 30.0
IDENTITY = {CLIENT_ID: "tester", LANGUAGE: "PYTHON"}


class GrpcClient:
    """A gRPC client with one channel."""

    def __init__(
        self, endpoints: str | None, metadata: Mapping[str, str] = IDENTITY, *, authority: bytes | None = None
    ) -> None:
        options = [("grpc.enable_http_proxy", 0)]
        if authority is None:
            self._channel = grpc.insecure_channel(endpoints, options)
        else:
            self._channel = grpc.secure_channel(endpoints, grpc.ssl_channel_credentials(authority), options)
        self._metadata = list(metadata.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def ask(self, name: str, timeout_s: float = TIMEOUT_S, **fields: Any) -> Any:
        """Return the response to a call of the method `name`; for a stream, the list of its items."""
        return self.start(name, timeout_s, **fields)()

    def start(self, name: str, timeout_s: float = TIMEOUT_S, **fields: Any) -> Callable[[], Any]:
        """Start a call of the method `name`, and return a function that waits for its response."""
        method = METHODS[name]
        make = self._channel.unary_stream if method.is_response_stream else self._channel.unary_unary
        call = make(method.path, method.request.SerializeToString, method.response.FromString)
        request = method.request(**fields)
        if method.is_response_stream:
            items = call(request, timeout=timeout_s, metadata=self._metadata)
            return lambda: list(items)
        future = call.future(request, timeout=timeout_s, metadata=self._metadata)
        return lambda: future.result(timeout_s + TIMEOUT_S)

    def telemetry(self) -> Telemetry:
        """Open a Telemetry stream and return it."""
        method = METHODS["Telemetry"]
        make = self._channel.stream_stream(method.path, method.request.SerializeToString, method.response.FromString)
        return Telemetry(lambda commands: make(commands, timeout=TIMEOUT_S, metadata=self._metadata))


class Telemetry:
    """One open Telemetry stream of a client."""

    def __init__(self, open_stream: Callable[[Iterator[Any]], Any]) -> None:
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers = open_stream(iter(self._outbox.get, None))

    def settle(self, **settings: Any) -> Any:
        """Write settings with these fields to the stream, and return the server's next command."""
        self._outbox.put(METHODS["Telemetry"].request(settings=settings))
        return self.read()

    def read(self) -> Any:
        """Wait for the server's next command on the stream and return it."""
        return next(self._answers)

    def close(self) -> None:
        """End the client's side of the stream."""
        self._outbox.put(None)


def resource(name: str) -> dict[str, str]:
    """Return a `Resource` message, which names a topic or a group."""
    return {"name": name}


def queue_of(queue_id: int = 0, topic: str = "T", broker: str = "broker-a") -> dict[str, Any]:
    """Return a `MessageQueue` message that names a queue of a topic at a broker."""
    return {"topic": resource(topic), "id": queue_id, "broker": {"name": broker}}


def threads() -> list[str]:
    """Return the names of the running threads that belong to stubs."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("broker-stub")]
