"""Find the handler of each request, call it, and send its response.

Each port of the stub has a `Dispatcher`. It applies a scripted fault, looks up the handler, and turns an exception into
a response. It depends neither on sockets nor on the meaning of requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark_rocketmq.errors import DecodeError, ProtocolError
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.header import Command, HeaderType

from .faults import FaultScript
from .registry import Registry
from .requests import HELD, Channel, ClientRequest, HandlerResult, Refusal, response
from .settings import Settings

S = TypeVar("S")
_log = logging.getLogger(__name__)


class Dispatcher(Generic[S]):
    """Finds and calls the handlers of all requests that arrive at one server."""

    def __init__(
        self, server_name: str, state: S, registry: Registry[S], settings: Settings, script: FaultScript
    ) -> None:
        self.server_name = server_name
        self.state = state
        self.settings = settings
        self.release = settings.release
        self.ignores_unknown_codes = False
        """Whether a request with an unknown code gets no response instead of a refusal."""
        self.authorize: Callable[[S, ClientRequest], None] | None = None
        """Raises a `Refusal` for a request that access control forbids; None: every request is allowed."""
        self.on_open: Callable[[Channel], None] = lambda channel: None
        self.on_close: Callable[[Channel], None] = lambda channel: None
        self._handlers = registry.handlers
        self._script = script

    def serve(self, command: Command, channel: Channel) -> None:
        """Carry out one request and send its response, with the scripted fault if there is one.

        If the fault itself is a response, send that one and do not call the handler. One-way requests get no faults.
        """
        fault = self._script.take(self.server_name, command.code) if self._script and not command.is_oneway else None
        command.fields = _as_java_writes(command.fields)
        request = ClientRequest(command, channel, fault.reply_fault if fault else None)
        result = fault.make_response() if fault and fault.make_response else self._handle(request)
        if result is not None and result is not HELD:
            if fault and fault.status is not None and result.code == ResponseCode.SUCCESS:
                result.code = fault.status
            request.reply(result)

    def header_type(self, request: Command) -> HeaderType:
        """Return whether the header of the response is JSON or binary.

        Release 4.9.7 answers as the request was written; in later ones a setting decides.
        """
        if self.release.is_5x:
            return HeaderType.ROCKETMQ if self.settings.binary_answers else HeaderType.JSON
        return request.header_type

    def _handle(self, request: ClientRequest) -> HandlerResult:
        code = request.command.code
        handler = self._handlers.get(code)
        if handler is None or code in self.release.unknown_codes:
            return self._refuse_unknown(code)
        try:
            if self.authorize is not None:
                self.authorize(self.state, request)
            return handler(self.state, request)
        except Refusal as refusal:
            return refusal.response
        except (ProtocolError, DecodeError) as error:
            return response(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except Exception as error:
            _log.exception("the stub failed on request %s", code)
            return response(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")

    def _refuse_unknown(self, code: int) -> HandlerResult:
        if self.ignores_unknown_codes:
            return None
        return response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {code} not supported")


def _as_java_writes(fields: dict[str, str] | None) -> dict[str, str] | None:
    """Return header fields in which a question mark replaces each character that UTF-8 cannot encode, as in Java."""
    if fields is None or all(map(str.isascii, fields.values())):
        return fields
    return {name: value.encode("utf-8", "replace").decode() for name, value in fields.items()}
