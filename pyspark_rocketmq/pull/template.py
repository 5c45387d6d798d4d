"""Write the pulls of a queue, of which only offset and count change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ..cluster.servers import signed, unsigned_fields
from ..cluster.settings import ClusterSettings
from ..model import MessageQueue
from ..wire.codes import RequestCode
from ..wire.commands import PullMessageRequestHeader
from ..wire.header import Command, HeaderType, PreparedRequest, encode_command
from .cursor import Request
from .settings import PullSettings

__all__ = ["PullTemplate", "pull_header"]

_SUBSCRIPTION_FLAG = 4
"""The pull carries its own subscription, so that no heartbeat is needed."""
_CHANGING = ("queueOffset", "maxMsgNums")


class PullTemplate:
    """A queue's pulls; only offset and count change."""

    def __init__(self, cluster: ClusterSettings, queue: MessageQueue, settings: PullSettings) -> None:
        self._cluster = cluster
        self._queue = queue
        self._settings = settings

    def frames(self, requests: Sequence[Request], opaques: Sequence[int]) -> list[bytes]:
        """Pulls of these requests; a request may span more offsets than one answer may bring messages."""
        most = self._settings.batch_size
        pulls = [
            (start, end - start if end - start < most else most, opaque)
            for (start, end), opaque in zip(requests, opaques, strict=True)
        ]
        return self._prepared.frames(pulls) if self._prepared else [self._frame(*pull) for pull in pulls]

    def _frame(self, offset: int, count: int, opaque: int) -> bytes:
        fields = {**self._fields, "queueOffset": str(offset), "maxMsgNums": str(count)}
        fields = signed(self._cluster, RequestCode.PULL_MESSAGE, fields)
        header_type = self._cluster.net.header_type
        return encode_command(Command(RequestCode.PULL_MESSAGE, opaque, fields, header_type=header_type))

    @cached_property
    def _fields(self) -> dict[str, str]:
        header = pull_header(self._queue, self._settings)
        return unsigned_fields(self._cluster, header, self._queue.broker_name)

    @cached_property
    def _prepared(self) -> PreparedRequest | None:
        """The pull written but for what changes; a signature or a binary header depends on everything."""
        if self._cluster.credentials or self._cluster.net.header_type is not HeaderType.JSON:
            return None
        return PreparedRequest(RequestCode.PULL_MESSAGE, self._fields, _CHANGING)


def pull_header(
    queue: MessageQueue, settings: PullSettings, offset: int = 0, count: int = 0
) -> PullMessageRequestHeader:
    """Return the header of a pull that does not wait for messages."""
    subscription = settings.subscription.for_topic(queue.topic)
    return PullMessageRequestHeader(
        consumer_group=settings.group,
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
