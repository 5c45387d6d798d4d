"""Who speaks to the brokers when a gRPC client calls?

Brokers know connections. A `Line` stands for one: it takes their answers, and what they tell by themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import Header
from pyspark_rocketmq.wire.header import Command

from ..registry import Manner, OnReply

OnTold = Callable[[RequestCode, Header | None, bytes], None]


class Line:
    """One gRPC client, or one call of it, as a broker sees it."""

    def __init__(
        self,
        remote: Address,
        on_answer: Callable[[Command], None] = lambda answer: None,
        on_told: OnTold = lambda code, header, body: None,
    ) -> None:
        self.remote = remote
        self._on_answer = on_answer
        self._on_told = on_told

    def reply(self, request: Command, answer: Command, manner: Manner | None = None) -> None:
        """Take an answer; there is no way between us on which it could go wrong."""
        self._on_answer(answer)

    def tell(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> None:
        """Take what a broker tells."""
        self._on_told(code, header, body)

    def ask(self, code: RequestCode, header: Header | None, body: bytes, on_reply: OnReply, timeout_ms: int) -> None:
        """Say nothing: gRPC clients cannot answer what administrators ask."""
        on_reply(None)

    def close(self) -> None:
        """Nothing to close: the client comes back with its next call."""
