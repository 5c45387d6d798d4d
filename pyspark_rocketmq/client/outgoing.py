"""Turn messages into the bodies and properties of send requests.

Each message gets a unique id, and properties for its tags, keys and delay. A large body is compressed. A message that
brokers would refuse raises an error before anything is sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..errors import LocalProtocolError
from ..model import Message
from ..net.host import local_host
from ..wire.batch import BatchEntry, encode_batch
from ..wire.compression import Compression, compress
from ..wire.message_id import UniqueIdMaker
from ..wire.properties import MAX_BATCH_PROPERTIES_BYTES, encode_properties, is_reserved
from .checks import check_instance, check_message
from .clock import Clock
from .settings import ProducerSettings

__all__ = ["Packing", "Payload"]

_DELAY_NEEDS_SINGLE = "send delayed messages one by one"


class Payload(NamedTuple):
    """The fields of a send request that are made from its messages."""

    body: bytes
    properties: str
    sys_flag: int = 0
    flag: int = 0
    is_batch: bool = False
    unique_id: str = ""


class Packing:
    """Turns messages of one producer into the fields of send requests. Any thread may use it."""

    def __init__(self, settings: ProducerSettings, clock: Clock) -> None:
        self._settings = settings
        assert isinstance(settings.compression, Compression), "settings convert a compression's name"
        self._compression = settings.compression
        self._ids = UniqueIdMaker(local_host(), os.getpid(), id(self), clock.wall_ms)

    def pack(self, message: Message, more: Mapping[str, str] | None = None) -> Payload:
        """Return the payload of one message; `more` are reserved properties that the producer adds.

        Raise if the message is invalid.
        """
        check_message(message)
        self._check_size(len(message.body))
        properties = {**self._properties(message), **(more or {})}
        text = encode_properties(properties).decode()
        body, sys_flag = self._pack_body(message.body)
        return Payload(body, text, sys_flag, message.flag, unique_id=properties["UNIQ_KEY"])

    def pack_batch(self, messages: Sequence[Message]) -> Payload:
        """Return one payload for several messages of one topic, uncompressed. Raise if they cannot be sent together."""
        check_instance("messages", messages, Sequence, "a list of messages")
        for message in messages:
            check_message(message)
        if not messages or len({message.topic for message in messages}) > 1:
            raise LocalProtocolError("a batch needs messages, all of one topic", advice="send a batch per topic")
        if any(message.delay_level or message.deliver_at_ms for message in messages):
            raise LocalProtocolError("a batch cannot be delayed", advice=_DELAY_NEEDS_SINGLE)
        body = encode_batch(map(self._entry, messages))
        self._check_size(len(body))
        return Payload(body, encode_properties({"WAIT": "true"}).decode(), is_batch=True)

    def _entry(self, message: Message) -> BatchEntry:
        text = encode_properties(self._properties(message))
        if len(text) > MAX_BATCH_PROPERTIES_BYTES:
            raise LocalProtocolError(
                f"properties of {len(text)} bytes in a batch, the limit is {MAX_BATCH_PROPERTIES_BYTES}",
                advice="send this message by itself, or move data into the body",
            )
        return BatchEntry(message.body, text, message.flag)

    def _properties(self, message: Message) -> dict[str, str]:
        for name in message.properties:
            if is_reserved(name) and name != "UNIQ_KEY":
                raise LocalProtocolError(f"property {name} is RocketMQ's own", advice="choose another name")
        named = {
            "TAGS": message.tags,
            "KEYS": message.keys,
            "DELAY": str(message.delay_level or ""),
            "TIMER_DELIVER_MS": str(message.deliver_at_ms or ""),
        }
        given = {name: value for name, value in named.items() if value}
        return {"UNIQ_KEY": self._ids.make(), "WAIT": "true", **message.properties, **given}

    def _pack_body(self, body: bytes) -> tuple[bytes, int]:
        if len(body) < self._settings.compress_over_bytes:
            return body, 0
        return compress(body, self._compression), self._compression.sys_flag

    def _check_size(self, size: int) -> None:
        if size > (limit := self._settings.max_message_bytes):
            raise LocalProtocolError(
                f"a body has {size} bytes, the limit is {limit}",
                advice="send less at once, or raise max_message_bytes here and maxMessageSize at the brokers",
            )
