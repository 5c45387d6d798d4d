"""Send orders of four shops to a topic, at an even pace, in a thread."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING

from ...client import Message, Producer, ProducerSettings
from ...errors import RocketMQError
from .state import SHOPS

if TYPE_CHECKING:
    from ...cluster.settings import ClusterSettings

__all__ = ["ORDERS_PER_SECOND", "OrderFlow"]

ORDERS_PER_SECOND = 200
_PAUSE_S = 0.5
"""The pause after an order that no broker took."""


class OrderFlow:
    """Sends orders while its `with` block runs; an order that no broker takes is sent again."""

    def __init__(self, cluster: ClusterSettings, topic: str) -> None:
        self._producer = Producer(cluster, ProducerSettings(group="pyspark-rocketmq-demo"))
        self._topic = topic
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)
        self.between_sends = threading.Lock()
        """Held while an order is on its way."""
        self.sent = 0
        """The number of orders whose receipt has come."""
        self.trouble: str | None = None
        """The reason why the last attempt failed; None if it did not."""

    def __repr__(self) -> str:
        return f"<OrderFlow {self.sent} sent>"

    def __enter__(self) -> OrderFlow:
        self._producer.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._producer.close()

    def stop(self) -> None:
        """Send no more orders, and wait for the last one."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        begun = time.monotonic()
        while not self._closing.wait(max(0.0, begun + self.sent / ORDERS_PER_SECOND - time.monotonic())):
            try:
                with self.between_sends:
                    self._producer.send(_make_order(self._topic, self.sent + 1))
            except RocketMQError as error:
                self.trouble = str(error)
                self._closing.wait(_PAUSE_S)
            else:
                self.trouble = None
                self.sent += 1


def _make_order(topic: str, number: int) -> Message:
    shop = random.choice(SHOPS)
    order = {"order": number, "shop": shop, "cents": random.randint(500, 20_000)}
    return Message(topic, json.dumps(order, ensure_ascii=False).encode(), tags=shop, keys=f"order-{number}")
