"""List the methods of the gRPC service, with the message classes of their requests and responses."""

from __future__ import annotations

from typing import Any, NamedTuple

from .schema import PACKAGE, message_class

__all__ = ["METHODS", "PULL_METHODS", "SERVICE", "Method"]

SERVICE = f"{PACKAGE}.MessagingService"


class Method(NamedTuple):
    """One method of the gRPC service."""

    name: str
    request: Any
    """Class of the request messages."""
    response: Any
    """Class of the response messages."""
    is_request_stream: bool = False
    is_response_stream: bool = False

    @property
    def path(self) -> str:
        """The gRPC path of the method: `/service/method`."""
        return f"/{SERVICE}/{self.name}"


def _method(name: str, *, is_response_stream: bool = False) -> Method:
    request, response = message_class(f"{name}Request"), message_class(f"{name}Response")
    return Method(name, request, response, is_response_stream=is_response_stream)


PULL_METHODS = ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset")
"""Methods for reading a queue by offset; the proxy of Apache RocketMQ implements none of them."""

_PLAIN = (
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "QueryAssignment",
    "AckMessage",
    "ForwardMessageToDeadLetterQueue",
    "UpdateOffset",
    "GetOffset",
    "QueryOffset",
    "EndTransaction",
    "NotifyClientTermination",
    "ChangeInvisibleDuration",
    "RecallMessage",
    "SyncLiteSubscription",
)
_STREAMED = ("ReceiveMessage", "PullMessage")
_TELEMETRY = message_class("TelemetryCommand")

METHODS = {
    "Telemetry": Method("Telemetry", _TELEMETRY, _TELEMETRY, is_request_stream=True, is_response_stream=True),
    **{name: _method(name) for name in _PLAIN},
    **{name: _method(name, is_response_stream=True) for name in _STREAMED},
}
"""All methods of the service by name."""
