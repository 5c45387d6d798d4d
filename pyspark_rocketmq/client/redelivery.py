"""Return messages that a listener could not consume to their brokers, for later delivery.

In concurrent consumption messages are *sent back*: the broker stores the message again for the group, after a delay
that grows with every failure, and finally among the dead letters. If the broker refuses or does not respond, a copy is
sent to the group's retry topic, at any broker that takes it. In orderly consumption only such copies are sent, and only
when a message has no retries left; brokers then store the copy as a dead letter at once.
"""

from __future__ import annotations

import itertools
import logging

from ..cluster.cluster import Cluster
from ..cluster.messages import Sending
from ..errors import NoBrokerAvailable, RocketMQError
from ..model import MessageQueue, retry_topic
from ..net.deadline import Deadline
from ..wire.compression import compression_of
from ..wire.properties import join_properties
from .clock import Clock
from .message import ReceivedMessage

__all__ = ["CONCURRENT_RETRIES", "ORDERLY_RETRIES", "Redelivery"]

CONCURRENT_RETRIES = 16
ORDERLY_RETRIES = 2**31 - 1
FIRST_DELAY_LEVEL = 3
CLEANED_DELAY_LEVEL = 3
SEND_BACK_TIMEOUT_S = 5.0
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"

_SEND_ATTEMPTS = 3
_NOT_COPIED = frozenset({"TRAN_MSG"})
_log = logging.getLogger(__name__)


class Redelivery:
    """Returns messages of one group to brokers for later delivery. Any thread may call it."""

    def __init__(self, cluster: Cluster, group: str, most_retries: int, clock: Clock) -> None:
        self._cluster = cluster
        self._group = group
        self.most_retries = most_retries
        self._clock = clock
        self._turns = itertools.count()

    def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Send a message back to its broker, or else send a copy to the retry topic. Raise if both fail.

        If a response is lost, the message may be delivered twice.
        """
        try:
            self._cluster.messages.send_back(
                self._group,
                message.queue,
                message.record.physical_offset,
                delay_level=delay_level,
                origin_message_id=message.message_id,
                max_reconsume_times=self.most_retries,
                deadline=Deadline.after(SEND_BACK_TIMEOUT_S),
            )
        except RocketMQError as error:
            _log.warning("could not send %s back, sending a copy: %s", message, error)
            self.send_copy(message)

    def send_copy(self, message: ReceivedMessage) -> None:
        """Send a copy of a message to the group's retry topic.

        At most three queues are tried; if all fail, raise the last error.
        """
        queues = self._cluster.routes.route(retry_topic(self._group)).writable
        if not queues:
            raise NoBrokerAvailable("the retry topic takes no messages now", topic=retry_topic(self._group))
        first = next(self._turns)
        for attempt in range(_SEND_ATTEMPTS):
            queue = queues[(first + attempt) % len(queues)]
            try:
                self._cluster.messages.send(self._copy(message, queue), Deadline.after(SEND_BACK_TIMEOUT_S))
                return
            except RocketMQError as error:
                if attempt == _SEND_ATTEMPTS - 1:
                    raise
                _log.warning("could not send a copy of %s, trying the next queue: %s", message, error)

    def _copy(self, message: ReceivedMessage, queue: MessageQueue) -> Sending:
        record = message.record
        kept = {name: value for name, value in message.properties.items() if name not in _NOT_COPIED}
        kept["RETRY_TOPIC"] = self._cluster.settings.namespace.wrap(message.topic)
        kept.setdefault("ORIGIN_MESSAGE_ID", message.message_id)
        kept["DELAY"] = str(FIRST_DELAY_LEVEL + message.reconsume_times)
        # Brokers read both values from header fields; the Java client keeps them as properties as well.
        kept["RECONSUME_TIME"] = str(message.reconsume_times + 1)
        kept["MAX_RECONSUME_TIMES"] = str(self.most_retries)
        packed = compression_of(record.sys_flag)
        return Sending(
            producer_group=INNER_PRODUCER,
            queue=queue,
            body=record.body,
            properties=join_properties(kept),
            born_timestamp_ms=self._clock.wall_ms(),
            sys_flag=packed.sys_flag if packed else 0,
            flag=record.flag,
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=self.most_retries,
        )
