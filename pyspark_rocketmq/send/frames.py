"""Write the frames of sends, and read receipts from the responses.

The sends of a topic to one broker differ in a few header fields: queue, flags, time and properties. All other fields
are written once, in a `SendTemplate`. A frame is written in two parts, its head and its body, so that a body is copied
only once, into the bytes that are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..broker_errors import error_for
from ..cluster.messages import STORED, Receipt, Sending, send_header
from ..cluster.servers import signed, unsigned_fields
from ..cluster.settings import ClusterSettings
from ..errors import LocalProtocolError, MalformedFrame
from ..model import MessageQueue, SendRequest
from ..wire.codes import ResponseCode
from ..wire.commands import SendHeaderV2, SendMessageResponseHeader, from_fields
from ..wire.header import Command, HeaderType, PreparedRequest, SendResponse, encode_head, json_text
from ..wire.value_classes import wire_name
from .schedule import QueuedSend

__all__ = ["SendTemplate", "encode_text", "read_receipt", "read_response"]

_CHANGING = tuple(wire_name(SendHeaderV2, name) for name in ("queue_id", "sys_flag", "born_timestamp", "flag"))
_PROPERTIES = wire_name(SendHeaderV2, "properties")
_STORED = frozenset(map(int, STORED))
_SUCCESS = ResponseCode.SUCCESS


# --- requests --------------------------------------------------------------------------------------------------------


def encode_text(text: str) -> bytes:
    """Return a text as a JSON string in UTF-8; raise `LocalProtocolError` if it has lone surrogates."""
    try:
        return json_text(text).encode()
    except UnicodeEncodeError as cause:
        what = f"the properties are no UTF-8 text: {cause}"
        raise LocalProtocolError(what, advice="send valid Unicode") from cause


class SendTemplate:
    """The common header fields of all sends of one topic to one broker, single ones or batches."""

    def __init__(self, cluster: ClusterSettings, group: str, topic: str, broker_name: str, *, is_batch: bool) -> None:
        queue = MessageQueue(topic, broker_name, 0)
        header = send_header(
            Sending(producer_group=group, queue=queue, body=b"", born_timestamp_ms=0, is_batch=is_batch)
        )
        self._cluster = cluster
        self._code = header.code
        self._fields = unsigned_fields(cluster, header, broker_name)
        self._prepared: PreparedRequest | None = None
        if not cluster.credentials and cluster.net.header_type is HeaderType.JSON:
            # Only in an unsigned JSON header can fields be replaced in bytes that were encoded before.
            self._prepared = PreparedRequest(self._code, self._fields, _CHANGING, _PROPERTIES)

    def write(
        self, sends: Sequence[QueuedSend], born_ms: Callable[[], int], opaques: Sequence[int]
    ) -> list[bytes | memoryview]:
        """Return the frames of sends, each as its head and its body."""
        parts, now_ms, prepared = list[bytes | memoryview](), born_ms(), self._prepared
        for send, opaque in zip(sends, opaques, strict=True):
            request, queue = send.request, send.queue
            assert queue is not None
            body, numbers = request.body, (queue.queue_id, request.sys_flag, now_ms, request.flag)
            if prepared:
                parts.append(prepared.head((*numbers, send.properties, opaque), len(body)))
            else:
                parts.append(self._head(numbers, request.properties, opaque, body))
            parts.append(body)
        return parts

    def _head(self, numbers: Sequence[int], properties: str, opaque: int, body: bytes | memoryview) -> bytes:
        changing = dict(zip(_CHANGING, map(str, numbers), strict=True))
        fields = signed(self._cluster, self._code, {**self._fields, **changing, _PROPERTIES: properties}, body)
        return encode_head(Command(self._code, opaque, fields, body, header_type=self._cluster.net.header_type))


# --- responses -------------------------------------------------------------------------------------------------------


def read_response(response: Command) -> Command:
    """Return the response to a send that was stored; raise the broker's error if it was not."""
    if response.code not in _STORED:
        raise error_for(response.code, response.remark)
    return response


def read_receipt(response: Command, queue: MessageQueue, request: SendRequest) -> Receipt:
    """Return where a request to a queue was stored; raise `MalformedFrame` if the response does not say that.

    A response for another queue, without a position, or for fewer messages than were sent is no receipt.
    """
    if isinstance(response, SendResponse) and response.stored[2]:
        queue_id, offset, message_id, transaction_id = response.stored
        # This costs half as much as calling `Receipt`.
        receipt: Receipt = tuple.__new__(Receipt, (_SUCCESS, message_id, queue, offset, transaction_id, None, False))
    else:
        stored = from_fields(SendMessageResponseHeader, response.fields)
        status, queue_id, offset = ResponseCode(response.code), stored.queue_id, stored.queue_offset
        receipt = Receipt(status, stored.msg_id, queue, offset, stored.transaction_id, stored.recall_handle)
    if queue_id != queue.queue_id or offset < 0:
        raise _no_receipt(f"queue {queue_id}, offset {offset} for a send to queue {queue.queue_id}")
    if request.is_batch and (count := receipt.message_id.count(",") + 1) < len(request.rows):
        raise _no_receipt(f"{count} message ids for {len(request.rows)} messages")
    return receipt


def _no_receipt(what: str) -> MalformedFrame:
    what = f"a receipt with {what}, which is therefore not taken for one"
    return MalformedFrame(what, advice="it may be stored; check which server responds")
