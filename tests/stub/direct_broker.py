"""Provide one broker without sockets, on a clock that only `advance` moves, for tests of its handlers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker_stub.clock import Clock
from broker_stub.handlers import BROKER_HANDLERS
from broker_stub.releases import find_release
from broker_stub.requests import ClientRequest, Refusal
from broker_stub.settings import Settings
from broker_stub.state import Broker, Cluster
from broker_stub.store import InnerMessage, Stored
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.bodies import Body, encode_body
from pyspark_rocketmq.wire.commands import RequestHeader, to_fields
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import Record
from tests.stub.recording_channel import RecordingChannel

HANDLERS = BROKER_HANDLERS.handlers
VERSION = 479


class DirectBroker:
    """A broker whose handlers a test calls without a connection."""

    def __init__(self, release: str = "5.3.3", **settings: Any) -> None:
        self.clock = Clock(frozen=True)
        wanted = replace(Settings(release=find_release(release)), **settings)
        self.broker = Broker(Cluster(wanted, self.clock), "broker-a", 0, Address("127.0.0.1", 10911))
        self.channel = RecordingChannel()

    def make_slave(self) -> Broker:
        """Return a new slave that has this broker as its master."""
        return Broker(self.broker.cluster, "broker-a", 1, Address("127.0.0.1", 10921), master=self.broker)

    def ask(
        self,
        header: RequestHeader,
        body: Body | bytes = b"",
        *,
        channel: RecordingChannel | None = None,
        version: int = VERSION,
    ) -> Command:
        """Return the response of a request's handler.

        If there is no response (yet), return a command with code -1 and the remark "held".
        """
        data = encode_body(body) if isinstance(body, Body) else body
        return self.call(Command(header.code, fields=to_fields(header), body=data, version=version), channel)

    def call(self, command: Command, channel: RecordingChannel | None = None) -> Command:
        """Return the response of a command's handler, as `ask` does."""
        request = ClientRequest(command, channel or self.channel)
        try:
            result = HANDLERS[command.code](self.broker, request)
        except Refusal as refusal:
            return refusal.response
        return result if isinstance(result, Command) else Command(-1, remark="held")

    def put(self, topic: str = "T", body: bytes = b"x", **properties: str) -> Stored:
        """Store a message in queue 0 of a topic, as a send does."""
        message = InnerMessage(topic, 0, body, properties, born_timestamp=self.clock.now_ms())
        return self.broker.accept(message)

    def found(self, topic: str, queue_id: int = 0) -> list[Record]:
        """Return the stored messages of a queue."""
        store = self.broker.store
        records = [store.message_at(physical) for _, physical, _ in store.queue(topic, queue_id)]
        return [record for record in records if record]
