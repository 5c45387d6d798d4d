"""Run the gRPC server, which passes calls to the proxy and returns the responses.

The server is asynchronous and runs in the stub's thread, where all state lives. So a call or stream that waits takes no
thread, and thousands of idle streams keep nobody else waiting. There are two limits: of open calls, and of Telemetry
streams among them. A call or stream beyond a limit ends with RESOURCE_EXHAUSTED.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from pyspark_rocketmq.errors import ConnectError, RemoteProtocolError
from pyspark_rocketmq.grpc_v2.enums import Code
from pyspark_rocketmq.grpc_v2.metadata import is_signed_by
from pyspark_rocketmq.grpc_v2.methods import METHODS, PULL_METHODS, SERVICE, Method
from pyspark_rocketmq.grpc_v2.schema import message_class
from pyspark_rocketmq.model import Address, parse_address

from ..faults import PROXY, Fault
from ..requests import Refusal, ReplyFault
from .calls import GrpcCall, PendingResponse, StatusError, error_response
from .clients import WriteCommand
from .proxy import HANDLERS, Proxy, status_error_of
from .telemetry import InvalidSettings, handle_command

_log = logging.getLogger(__name__)
_Command = message_class("TelemetryCommand")

Run = Callable[[Callable[[], Any]], Any]
"""Runs a function in the stub's thread and returns its result."""

MAX_CALLS = 4096
"""Maximum number of open calls, including waiting calls and streams."""
MAX_WAIT_S = 60.0
_RESPONSE_MARGIN_S = 0.5
"""Seconds before the caller's deadline at which the server stops waiting, so that its response arrives in time."""
_START_TIMEOUT_S = _STOP_TIMEOUT_S = 10.0
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
        self._proxy = proxy
        self._fault_injector = FaultInjector(proxy)
        self._stream_count = 0
        self._server: Any = None
        self._loop: asyncio.AbstractEventLoop = run(asyncio.get_running_loop)
        self.address = proxy.address = self._finish(self._open(address), _START_TIMEOUT_S)

    def __repr__(self) -> str:
        return f"<GrpcServer {self.address}>"

    def close(self) -> None:
        """End all calls, and release the port; after a timeout, leave calls that have not ended."""
        try:
            self._finish(self._server.stop(None), _STOP_TIMEOUT_S)
        except TimeoutError:
            _log.warning("gRPC calls at %s did not end within %g s; leaving them", self.address, _STOP_TIMEOUT_S)

    def _finish(self, work: Coroutine[Any, Any, Any], timeout_s: float) -> Any:
        """Run a coroutine in the stub's thread and return its result; must not be called in that thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    async def _open(self, address: Address) -> Address:
        """Start the server; return its address, which has the chosen port number if the given port is 0."""
        self._server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MAX_CALLS)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        try:
            port = self._add_port(str(address))
        except RuntimeError as cause:
            raise ConnectError(
                "cannot listen for gRPC", advice="choose another port, or 0 for a free one", address=str(address)
            ) from cause
        await self._server.start()
        return Address(address.host, port)

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
            _TELEMETRY: _handler(METHODS[_TELEMETRY], self._serve_telemetry),
            **{method.name: _handler(method, self._serve_method(method)) for method in served},
        }

    # --- unary calls and short streams -------------------------------------------------------------------------------

    def _serve_method(self, method: Method) -> Callable[[Any, Any], Any]:
        async def serve_unary(request: Any, context: Any) -> Any:
            fault = self._fault_injector.take(method.name)
            error = _scripted_error(fault) if fault else None
            call = _read_call(request, context)
            response = error_response(method, error) if error else await self._respond(method, call, context)
            if fault and fault.reply_fault:
                await self._fault_injector.inject(fault.reply_fault, context)
            return response

        async def serve_stream(request: Any, context: Any) -> None:
            for item in await serve_unary(request, context):
                await context.write(item)

        return serve_stream if method.is_response_stream else serve_unary

    async def _respond(self, method: Method, call: GrpcCall, context: Any) -> Any:
        response = self._call_handler(method, call)
        if not isinstance(response, PendingResponse):
            return response
        is_complete = asyncio.Event()
        response.notify(is_complete.set)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(is_complete.wait(), _max_wait_s(context))
        finally:  # also if the client left
            result = response.take()
        return result

    def _call_handler(self, method: Method, call: GrpcCall) -> Any:
        """Return the response of the function that serves a method, or an error response."""
        try:
            self._check(call)
            return HANDLERS[method.name](self._proxy, call)
        except StatusError as error:
            return error_response(method, error)
        except Refusal as refusal:
            return error_response(method, status_error_of(refusal.response))
        except RemoteProtocolError as error:
            return error_response(method, StatusError(Code.BAD_REQUEST, str(error)))
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

    async def _serve_telemetry(self, commands: AsyncIterator[Any], context: Any) -> None:
        """Exchange commands with a client until it leaves.

        Abort the stream if the client's settings are invalid, or if too many streams are open.
        """
        call = _read_call(None, context)
        try:
            self._check(call)
        except StatusError as error:
            await context.write(_Command(status=error.status))
            return
        if self._stream_count >= (limit := self._proxy.options.max_streams):
            what = f"{self._stream_count} Telemetry streams are open, the limit is {limit}"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, what)
        self._stream_count += 1
        try:
            await self._exchange_commands(commands, call, context)
        finally:
            self._stream_count -= 1

    async def _exchange_commands(self, commands: AsyncIterator[Any], call: GrpcCall, context: Any) -> None:
        outbox: asyncio.Queue[Any] = asyncio.Queue()
        put = outbox.put_nowait
        reader = self._loop.create_task(self._read_commands(commands, call, outbox, put))
        try:
            while (item := await outbox.get()) is not _END:
                if isinstance(item, InvalidSettings):
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(item))
                elif isinstance(item, Exception):
                    await context.abort(grpc.StatusCode.INTERNAL, str(item))
                await context.write(item)
                outbox.task_done()
        finally:
            reader.cancel()
            self._proxy.clients.stream_ended(call.client_id, put)

    async def _read_commands(
        self, commands: AsyncIterator[Any], call: GrpcCall, outbox: asyncio.Queue[Any], put: WriteCommand
    ) -> None:
        """Handle a client's commands; before the next one, wait until all commands to the client are written."""
        try:
            async for command in commands:
                handle_command(self._proxy, call, command, put)
                await outbox.join()
        except Exception as error:
            put(error)
        finally:
            put(_END)


class FaultInjector:
    """Injects scripted faults into gRPC calls.

    If the fault is a response code, the call is not carried out. With any other fault the call is carried out, and its
    response is sent late (by the stub's clock) or never, or the call ends as on a broken connection.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._script, self._clock = proxy.options.script, proxy.clock

    def take(self, method: str) -> Fault | None:
        """Return the fault that is scripted for a call of a method; None if there is none."""
        return self._script.take(PROXY, method) if self._script else None

    async def inject(self, reply_fault: ReplyFault, context: Any) -> None:
        """Delay the response to a gRPC call, or abort the call with UNAVAILABLE, as the fault says."""
        if not reply_fault.cut:
            is_over = asyncio.Event()
            if not reply_fault.drop:
                self._clock.call_later(reply_fault.delay_ms, is_over.set)
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), MAX_WAIT_S)
        if reply_fault.cut or reply_fault.drop:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "scripted fault")


def _scripted_error(fault: Fault) -> StatusError | None:
    """Return the scripted error code as a StatusError; None for a fault of another kind.

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
    metadata = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
    peer = context.peer().partition(":")[2].replace("%5B", "[").replace("%5D", "]")
    return GrpcCall(request, metadata, parse_address(peer))


def _max_wait_s(context: Any) -> float:
    left = context.time_remaining()
    return MAX_WAIT_S if left is None else min(MAX_WAIT_S, max(0.0, left - _RESPONSE_MARGIN_S))
