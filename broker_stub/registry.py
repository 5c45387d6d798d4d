"""Register request handlers by request code.

    @handles(RequestCode.GET_MAX_OFFSET)
    def get_max_offset(broker: Broker, request: ClientRequest) -> HandlerResult: ...

Handlers do not depend on sockets; they run one at a time, in one thread. Importing `handlers` registers all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark_rocketmq.wire.codes import RequestCode

from .admin_codes import AdminCode
from .requests import ClientRequest, HandlerResult
from .state import Broker, Cluster

S = TypeVar("S")

Handler = Callable[[S, ClientRequest], HandlerResult]


class Registry(Generic[S]):
    """The handlers of one role (broker or name server), by request code."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.handlers: dict[int, Handler[S]] = {}

    def handles(
        self, *codes: RequestCode | AdminCode
    ) -> Callable[[Callable[[S, ClientRequest], HandlerResult]], Callable[[S, ClientRequest], HandlerResult]]:
        """Return a decorator that registers a handler for these codes; it raises ValueError for a code that has one."""

        def register(handler: Handler[S]) -> Handler[S]:
            for code in codes:
                if code in self.handlers:
                    raise ValueError(f"{code.name} has a handler already: {self.handlers[code].__qualname__}")
                self.handlers[code] = handler
            return handler

        return register


BROKER_HANDLERS: Registry[Broker] = Registry("broker")
NAME_SERVER_HANDLERS: Registry[Cluster] = Registry("name server")
handles = BROKER_HANDLERS.handles
handles_as_name_server = NAME_SERVER_HANDLERS.handles
