"""A gRPC client of the stub's door that says exactly what a test wants said."""

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
    """One channel."""

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
        """The answer to a call; a list where the answer is a stream."""
        return self.start(name, timeout_s, **fields)()

    def start(self, name: str, timeout_s: float = TIMEOUT_S, **fields: Any) -> Callable[[], Any]:
        """Begin a call; what is returned waits for the answer."""
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
        """A Telemetry stream."""
        method = METHODS["Telemetry"]
        make = self._channel.stream_stream(method.path, method.request.SerializeToString, method.response.FromString)
        return Telemetry(lambda commands: make(commands, timeout=TIMEOUT_S, metadata=self._metadata))


class Telemetry:
    """One Telemetry stream."""

    def __init__(self, open_stream: Callable[[Iterator[Any]], Any]) -> None:
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers = open_stream(iter(self._outbox.get, None))

    def settle(self, **settings: Any) -> Any:
        """Write settings; the answer to them."""
        self._outbox.put(METHODS["Telemetry"].request(settings=settings))
        return self.read()

    def read(self) -> Any:
        """The next command of the server."""
        return next(self._answers)

    def close(self) -> None:
        """Say nothing more."""
        self._outbox.put(None)


def resource(name: str) -> dict[str, str]:
    """A name of a topic or group."""
    return {"name": name}


def queue_of(queue_id: int = 0, topic: str = "T", broker: str = "broker-a") -> dict[str, Any]:
    """A queue, as a client names it."""
    return {"topic": resource(topic), "id": queue_id, "broker": {"name": broker}}


def threads() -> list[str]:
    """The threads of stubs."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("broker-stub")]
