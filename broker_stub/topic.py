"""Act on one topic of a stub, and give Spark the options to read and write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_rocketmq.wire.record import Record

    from .stub import PutResult, StubCluster

__all__ = ["StubTopic"]


class StubTopic:
    """A topic of a stub cluster."""

    def __init__(self, stub: StubCluster, name: str) -> None:
        self.stub = stub
        self.name = name

    def __repr__(self) -> str:
        return f"<StubTopic {self.name} of {self.stub!r}>"

    @property
    def read_options(self) -> dict[str, str]:
        """The options with which Spark reads the topic."""
        return {"nameServer": self.stub.name_server, "subscribe": self.name}

    @property
    def write_options(self) -> dict[str, str]:
        """The options with which Spark writes to the topic."""
        return {"nameServer": self.stub.name_server, "topic": self.name}

    def put(
        self,
        body: bytes,
        *,
        tags: str = "",
        keys: str = "",
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
        store_timestamp: int | None = None,
    ) -> PutResult:
        """Store a message without a client; without `queue_id` the queues take turns."""
        return self.stub.put(
            self.name,
            body,
            tags=tags,
            keys=keys,
            properties=properties,
            queue_id=queue_id,
            store_timestamp=store_timestamp,
        )

    def messages(self) -> list[Record]:
        """Return the stored messages, ordered by broker, queue and offset."""
        return self.stub.messages(self.name)

    def bodies(self) -> list[bytes]:
        """Return the bodies of the stored messages, unpacked, ordered by broker, queue and offset."""
        return [message.unpacked_body() for message in self.messages()]
