"""Send pulls over RocketMQ's remoting protocol, and read their outcomes from the responses.

The pulls of a queue differ only in a few numbers. So all other header fields are written once, in a `PullTemplate`.
Four response codes are results of a pull (`PullStatus`); every other code is raised as a broker's error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ..broker_errors import error_for
from ..cluster.broker import Brokers
from ..cluster.routes import BrokerEndpoint
from ..cluster.servers import ServerRequest, signed, unsigned_fields
from ..cluster.settings import ClusterSettings
from ..errors import MalformedFrame
from ..model import MessageQueue
from ..net.pipeline import Pipeline, RequestKind
from ..net.pool import ConnectionPool
from ..wire.codes import RequestCode
from ..wire.commands import PullMessageRequestHeader
from ..wire.header import Command, HeaderType, PreparedRequest, PullResponse, encode_command
from .port import PullGroup, PullOutcome, PullRequest, PullStatus
from .settings import PullSettings, Subscription

__all__ = ["PullTemplate", "RemotingPort", "pull_header", "pull_one", "read_outcome"]

RESET_REMARK = "OFFSET_RESET"
"""The remark of a response whose next offset is the one to which an administrator has reset the group."""
_PULL_CODES = frozenset(int(status) for status in PullStatus)
_SUBSCRIPTION_FLAG = 4
"""The system flag of a pull whose header carries the subscription; without it the broker needs a heartbeat."""
_CHANGING = ("queueOffset", "maxMsgNums")
_LARGEST = 2**63 - 1
_NUMBER = re.compile("-?[0-9]{1,19}")
_FOUND = PullStatus.FOUND
_STATUSES = {int(status): status for status in PullStatus}
R = TypeVar("R")


class RemotingPort(Pipeline[PullGroup[R], PullRequest, PullOutcome]):
    """The pull port of the remoting protocol: one pipelined connection per broker process."""

    def __init__(
        self,
        cluster: ClusterSettings,
        pool: ConnectionPool,
        settings: PullSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        kind = RequestKind(
            RequestCode.PULL_MESSAGE,
            "a pull",
            settings.pull_timeout_s,
            "raise pullTimeoutMs, or check the broker's load",
            read_outcome,
        )
        super().__init__(pool, kind, clock)
        self._cluster = cluster
        self._settings = settings
        self._templates: dict[tuple[MessageQueue, bool], PullTemplate] = {}

    def submit(self, group: PullGroup[R]) -> None:
        """Add pulls to be sent; each requests at most `batch_size` messages, even if it spans more offsets."""
        _, queue, endpoint, requests, is_filtered = group
        template = self._templates.get((queue, is_filtered)) or self._make_template(queue, is_filtered)
        self.enqueue(endpoint.address, group, requests, partial(self._write, template, requests))

    def _make_template(self, queue: MessageQueue, is_filtered: bool) -> PullTemplate:
        subscription = self._settings.subscription if is_filtered else Subscription()
        header = pull_header(queue, self._settings.group, subscription)
        template = PullTemplate(self._cluster, header, queue.broker_name, _CHANGING)
        self._templates[queue, is_filtered] = template
        return template

    def _write(self, template: PullTemplate, requests: Sequence[PullRequest], opaques: Sequence[int]) -> list[bytes]:
        most = self._settings.batch_size
        return template.frames(
            [
                (start, end - start if end - start < most else most, opaque)
                for (start, end), opaque in zip(requests, opaques, strict=True)
            ]
        )


# --- requests --------------------------------------------------------------------------------------------------------


class PullTemplate:
    """The common header fields of all pulls of one queue; only the numbers of the `changing` fields differ."""

    def __init__(
        self, cluster: ClusterSettings, header: PullMessageRequestHeader, broker_name: str, changing: Sequence[str]
    ) -> None:
        self._cluster = cluster
        self._changing = changing
        self._fields = unsigned_fields(cluster, header, broker_name)
        self.frames: Callable[[Sequence[tuple[int, ...]]], list[bytes]] = self._encode_all
        """A function that returns one frame for each tuple of the changing fields' values and the opaque."""
        if not cluster.credentials and cluster.net.header_type is HeaderType.JSON:
            # Only in an unsigned JSON header can the numbers be replaced in bytes that were encoded before.
            self.frames = PreparedRequest(RequestCode.PULL_MESSAGE, self._fields, changing).frames

    def fields(self, numbers: Sequence[int]) -> dict[str, str]:
        """Return the header fields of one pull, signed if the settings have credentials.

        `numbers` are the values of the changing fields.
        """
        fields = {**self._fields, **dict(zip(self._changing, map(str, numbers), strict=True))}
        return signed(self._cluster, RequestCode.PULL_MESSAGE, fields)

    def _encode_all(self, rows: Sequence[tuple[int, ...]]) -> list[bytes]:
        return [self._encode(self.fields(row[:-1]), row[-1]) for row in rows]

    def _encode(self, fields: dict[str, str], opaque: int) -> bytes:
        header_type = self._cluster.net.header_type
        return encode_command(Command(RequestCode.PULL_MESSAGE, opaque, fields, header_type=header_type))


def pull_header(
    queue: MessageQueue, group: str, subscription: Subscription, offset: int = 0, count: int = 0
) -> PullMessageRequestHeader:
    """Return the header of a pull that the broker answers at once, even if no messages are there (no long polling)."""
    subscription = subscription.for_topic(queue.topic)
    return PullMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=_SUBSCRIPTION_FLAG,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=subscription.expression,
        sub_version=0,
        expression_type=subscription.expression_type,
    )


def pull_one(brokers: Brokers, endpoint: BrokerEndpoint, queue: MessageQueue, group: str, offset: int) -> PullOutcome:
    """Pull one message without a filter from a broker process, without a `PullPort`, and wait for the outcome."""
    header = pull_header(queue, group, Subscription(), offset, 1)
    request = ServerRequest(endpoint.address, header, b"", queue.broker_name, endpoint.broker_id)
    return read_outcome(brokers.servers.ask(request, welcome=_PULL_CODES).command)


# --- responses -------------------------------------------------------------------------------------------------------


def read_outcome(response: Command) -> PullOutcome:
    """Return the outcome of a pull; raise the broker's error if the response code is none of `PullStatus`.

    The error names neither queue nor address; the caller adds these.
    """
    if isinstance(response, PullResponse):
        # This costs half as much as calling `PullOutcome`.
        return tuple.__new__(PullOutcome, (_FOUND, *response.numbers, response.body, False))
    status = _STATUSES.get(response.code)
    if status is None:
        raise error_for(response.code, response.remark)
    fields = response.fields or {}
    return PullOutcome(
        status,
        _read_number(fields, "nextBeginOffset", 0),
        _read_number(fields, "minOffset", -1),
        _read_number(fields, "maxOffset", -1),
        _read_number({"suggestWhichBrokerId": "0", **fields}, "suggestWhichBrokerId", 0),
        memoryview(response.body),
        response.remark == RESET_REMARK and status is PullStatus.OFFSET_MOVED,
    )


def _read_number(fields: Mapping[str, str], name: str, smallest: int) -> int:
    """Return the header field `name` as an integer; raise MalformedFrame unless it is between `smallest` and 2**63 - 1.

    `smallest` is -1 for a queue's minimum and maximum offset: brokers report -1 if the queue never held a message.
    """
    text = fields.get(name, "")
    if _NUMBER.fullmatch(text) and smallest <= int(text) <= _LARGEST:
        return int(text)
    raise MalformedFrame(f"a pull's response without usable offsets: {name} is {text!r:.60}")
