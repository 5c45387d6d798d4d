"""Define a gRPC call and the ways in which a function responds to it.

A method of the service is a function of the proxy's state and a `GrpcCall`. It returns the response, a list of
responses for a stream, or a `PendingResponse` that is completed later. A `StatusError` that it raises becomes a
response with its status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_rocketmq.grpc_v2.enums import Code
from pyspark_rocketmq.grpc_v2.metadata import CLIENT_ID, LANGUAGE
from pyspark_rocketmq.grpc_v2.methods import Method
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.grpc_v2.translation import StoredMessage
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import LanguageCode, SysFlag
from pyspark_rocketmq.wire.record import Record

OK = message_class("Status")(code=Code.OK, message=Code.OK.name)
_Status = message_class("Status")
_LANGUAGES = {"DOT_NET": LanguageCode.DOTNET, "GOLANG": LanguageCode.GO}


@dataclass(frozen=True, slots=True)
class GrpcCall:
    """One call of a gRPC method: the request, and the client's metadata and address."""

    request: Any
    metadata: Mapping[str, str]
    remote: Address

    @property
    def client_id(self) -> str:
        """Client id from the call's metadata; empty if there is none."""
        return self.metadata.get(CLIENT_ID, "").strip()

    @property
    def language(self) -> LanguageCode:
        """Programming language of the client, as the remoting protocol's language code."""
        name = self.metadata.get(LANGUAGE, "").upper()
        return _LANGUAGES.get(name) or LanguageCode.__members__.get(name, LanguageCode.OTHER)


class StatusError(Exception):
    """An error whose code and message become the status of the gRPC response."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = _Status(code=code, message=message)


class PendingResponse:
    """A response that is completed later, or replaced by a timeout response at the call's deadline."""

    def __init__(self, on_timeout: Callable[[], Any]) -> None:
        self._on_timeout = on_timeout
        self._response: Any = None
        self._on_complete: Callable[[], None] = lambda: None

    def complete(self, response: Any) -> None:
        """Set the response, and end the wait for it."""
        self._response = response
        self._on_complete()

    def notify(self, on_complete: Callable[[], None]) -> None:
        """Call a function when the response is set; at once if it is set already."""
        self._on_complete = on_complete
        if self._response is not None:
            on_complete()

    def take(self) -> Any:
        """Return the response if it is set, else the timeout response."""
        return self._on_timeout() if self._response is None else self._response


def error_response(method: Method, error: StatusError) -> Any:
    """Return the method's response with an error's status; a list of one item for a stream."""
    response = method.response(status=error.status)
    return [response] if method.is_response_stream else response


def stored_message(record: Record) -> StoredMessage:
    """Return a stored record as a `StoredMessage`, from which gRPC messages are built."""
    return StoredMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        body=record.body,
        is_packed=bool(record.sys_flag & SysFlag.COMPRESSED),
        properties=record.properties,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host.host,
        store_timestamp=record.store_timestamp,
        store_host=str(record.store_host),
        reconsume_times=record.reconsume_times,
        message_id=record.offset_message_id,
    )
