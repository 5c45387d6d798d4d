"""Run the gRPC server, which passes calls to the proxy and returns the responses.

gRPC runs each call in a thread of its own. The server runs the proxy's functions in the stub's thread, where all state
lives; only waiting happens in the call's own thread. A Telemetry stream takes two threads, one for each direction.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from pyspark_rocketmq.errors import ConnectError, LocalProtocolError
from pyspark_rocketmq.grpc_v2.enums import Code
from pyspark_rocketmq.grpc_v2.metadata import is_signed_by
from pyspark_rocketmq.grpc_v2.methods import METHODS, PULL_METHODS, SERVICE, Method
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.model import Address, parse_address

from ..faults import PROXY, Fault
from ..requests import Refusal, ReplyFault
from .calls import GrpcCall, PendingResponse, StatusError, error_response
from .proxy import HANDLERS, Proxy, status_error_of
from .telemetry import InvalidSettings, handle_command

_log = logging.getLogger(__name__)
_Command = message_class("TelemetryCommand")

Run = Callable[[Callable[[], Any]], Any]
"""Runs a function in the stub's thread and returns its result."""

MAX_CALLS = 512
"""Maximum number of open calls, including calls that wait and streams."""
MAX_WAIT_S = 60.0
_RESPONSE_MARGIN_S = 0.5
"""Seconds before the caller's deadline at which the server stops waiting, so that its response arrives in time."""
_STOP_TIMEOUT_S = 10.0
_MAX_MESSAGE_BYTES = 130 * 1024 * 1024
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
)
_TELEMETRY = "Telemetry"
_END = None


class GrpcServer:
    """The gRPC server of a stub."""

    def __init__(self, proxy: Proxy, run: Run, address: Address) -> None:
        self._proxy, self._run = proxy, run
        self._fault_injector = FaultInjector(proxy, run)
        self._pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="broker-stub-grpc")
        self._server = grpc.server(self._pool, options=_OPTIONS)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        self.address = Address(address.host, self._bind(address))
        proxy.address = self.address
        self._server.start()

    def __repr__(self) -> str:
        return f"<GrpcServer {self.address}>"

    def close(self) -> None:
        """End all calls, and release the port."""
        self._server.stop(None).wait(_STOP_TIMEOUT_S)
        self._pool.shutdown()

    def _bind(self, address: Address) -> int:
        try:
            return self._add_port(str(address))
        except RuntimeError as cause:
            self._pool.shutdown()
            raise ConnectError(
                "cannot listen for gRPC", advice="choose another port, or 0 for a free one", address=str(address)
            ) from cause

    def _add_port(self, address: str) -> int:
        files = self._proxy.options.tls
        if files is None:
            return int(self._server.add_insecure_port(address))
        certificate, key = (Path(name).read_bytes() for name in files)
        return int(self._server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)])))

    def _handlers(self) -> dict[str, Any]:
        """Return gRPC's handlers of the methods that the proxy serves; gRPC responds UNIMPLEMENTED to all others."""
        hidden = PULL_METHODS if self._proxy.options.like_apache else ()
        served = [METHODS[name] for name in HANDLERS if name not in hidden]
        return {
            _TELEMETRY: _handler(METHODS[_TELEMETRY], self._telemetry),
            **{method.name: _handler(method, self._serve_method(method)) for method in served},
        }

    # --- unary calls and short streams -------------------------------------------------------------------------------

    def _serve_method(self, method: Method) -> Callable[[Any, Any], Any]:
        def serve_method(request: Any, context: Any) -> Any:
            with self._fault_injector.around(method.name, context) as error:
                call = _read_call(request, context)
                response = error_response(method, error) if error else self._respond(method, call, context)
            return iter(response) if method.is_response_stream else response

        return serve_method

    def _respond(self, method: Method, call: GrpcCall, context: Any) -> Any:
        response = self._run(lambda: self._call_handler(method, call))
        if not isinstance(response, PendingResponse):
            return response
        if not context.add_callback(response.wake):
            response.wake()
        response.wait(_max_wait_s(context))
        return self._run(response.take)

    def _call_handler(self, method: Method, call: GrpcCall) -> Any:
        """Return the response of the function that serves a method, or an error response; runs in the stub's thread."""
        try:
            self._check(call)
            return HANDLERS[method.name](self._proxy, call)
        except StatusError as error:
            return error_response(method, error)
        except Refusal as refusal:
            return error_response(method, status_error_of(refusal.response))
        except Exception as error:
            _log.exception("the stub failed on %s", method.name)
            return error_response(method, StatusError(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"))

    def _check(self, call: GrpcCall) -> None:
        if not call.client_id:
            raise StatusError(Code.CLIENT_ID_REQUIRED, "x-mq-client-id is missing")
        secrets = self._proxy.options.secrets
        if secrets and not is_signed_by(secrets, call.metadata):
            raise StatusError(Code.UNAUTHORIZED, "the call has no valid signature")

    # --- the Telemetry stream ----------------------------------------------------------------------------------------

    def _telemetry(self, commands: Iterator[Any], context: Any) -> Iterator[Any]:
        """Yield the commands for a client until it leaves; abort the stream if its settings are invalid."""
        outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = _read_call(None, context)
        if not context.add_callback(lambda: outbox.put(_END)):
            return
        try:
            self._run(lambda: self._check(call))
        except StatusError as error:
            yield _Command(status=error.status)
            return
        reader = threading.Thread(target=self._read_telemetry, args=(commands, call, outbox.put), daemon=True)
        reader.start()
        yield from self._write_telemetry(outbox, context)

    def _write_telemetry(self, outbox: queue.SimpleQueue[Any], context: Any) -> Iterator[Any]:
        while (item := outbox.get()) is not _END:  # gRPC's callback puts it at the end of every stream
            if isinstance(item, InvalidSettings):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(item))
            elif isinstance(item, Exception):
                context.abort(grpc.StatusCode.INTERNAL, str(item))
            yield item

    def _read_telemetry(self, commands: Iterator[Any], call: GrpcCall, put: Callable[[Any], None]) -> None:
        try:
            for command in commands:
                self._run(partial(handle_command, self._proxy, call, command, put))
        except grpc.RpcError:  # the client closed the stream
            pass
        except Exception as error:
            put(error)
        finally:
            put(_END)
            self._stream_ended(call, put)

    def _stream_ended(self, call: GrpcCall, put: Callable[[Any], None]) -> None:
        try:
            self._run(lambda: self._proxy.clients.stream_ended(call.client_id, put))
        except LocalProtocolError:  # the stub is closed
            pass


class FaultInjector:
    """Injects scripted faults into gRPC calls.

    If the fault is a response code, the call is not carried out. Otherwise it is, and the fault acts on the response:
    it is late by the stub's clock, is never sent, or the call ends as on a broken connection.
    """

    def __init__(self, proxy: Proxy, run: Run) -> None:
        self._script, self._clock, self._run = proxy.options.script, proxy.clock, run

    @contextmanager
    def around(self, method: str, context: Any) -> Iterator[StatusError | None]:
        """Wrap a call: yield the scripted error or None, and at the end delay or abort the response as scripted."""
        fault = self._run(lambda: self._script.take(PROXY, method)) if self._script else None
        yield _scripted_error(fault) if fault else None
        if fault and fault.reply_fault:
            self._inject(fault.reply_fault, context)

    def _inject(self, reply_fault: ReplyFault, context: Any) -> None:
        if not reply_fault.cut:
            is_over = threading.Event()
            if context.add_callback(is_over.set) and not reply_fault.drop:
                self._run(lambda: self._clock.call_later(reply_fault.delay_ms, is_over.set))
            is_over.wait(MAX_WAIT_S)
        if reply_fault.cut or reply_fault.drop:
            context.abort(grpc.StatusCode.UNAVAILABLE, "scripted fault")


def _scripted_error(fault: Fault) -> StatusError | None:
    """Return the scripted error code as a StatusError; None if the fault is no code.

    A gRPC code stays as it is; a broker's code is translated as the proxy translates it.
    """
    if fault.make_response is None:
        return None
    response = fault.make_response()
    known = Code.__members__.values()
    return (
        StatusError(Code(response.code), response.remark or "") if response.code in known else status_error_of(response)
    )


def _handler(method: Method, serve_method: Callable[[Any, Any], Any]) -> Any:
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[method.is_request_stream, method.is_response_stream]
    return make(serve_method, method.request.FromString, method.response.SerializeToString)


def _read_call(request: Any, context: Any) -> GrpcCall:
    metadata = {item.key: item.value for item in context.invocation_metadata() if isinstance(item.value, str)}
    peer = context.peer().partition(":")[2].replace("%5B", "[").replace("%5D", "]")
    return GrpcCall(request, metadata, parse_address(peer))


def _max_wait_s(context: Any) -> float:
    left = context.time_remaining()
    return MAX_WAIT_S if left is None else min(MAX_WAIT_S, max(0.0, left - _RESPONSE_MARGIN_S))
