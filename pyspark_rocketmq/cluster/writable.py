"""Find the queues to which messages of a topic may be sent, also for a topic that its first message will create.

A broker creates an unknown topic from a template, if it is configured to do so: then it has the template topic, whose
route thus names all brokers that may create topics. A new topic has at each broker as many queues as the request asks
for, but at most as many as the template.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UNKNOWN_TOPIC, NoBrokerAvailable, QueueMoved, RouteError
from ..model import Address, MessageQueue
from ..net.deadline import Deadline
from .route_table import RouteTable
from .routes import Route

__all__ = ["MOST_NEW_QUEUES", "TEMPLATE_TOPIC", "WritableQueues"]

TEMPLATE_TOPIC = "TBW102"
"""The topic whose configuration brokers copy when they create an unknown topic."""
MOST_NEW_QUEUES = 4
"""The most queues at each broker for a topic that its first message creates, as in Java's producer."""


class WritableQueues:
    """The queues and masters of topics to send to."""

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes
        self._new_topics: set[str] = set()
        """Topics that do not exist yet: their first message creates them."""

    def queues(self, topic: str, deadline: Deadline | None = None) -> Sequence[MessageQueue]:
        """Return a topic's writable queues; for a missing topic, the queues that its first message creates.

        A topic counts as missing although name servers that do not reply may know it, since others could not create
        topics while one of them is away. Raise `TopicNotFound` or `TopicUnconfirmed` if the topic is missing and no
        broker creates topics, and `NoBrokerAvailable` if no queue may be written.
        """
        try:
            queues = self._routes.route(topic, deadline).writable
            self._new_topics.discard(topic)
        except UNKNOWN_TOPIC as error:
            queues = _new_queues(topic, self._template(error, deadline))
            self._new_topics.add(topic)
        if not queues:
            advice = "give the topic write permission, or bring its brokers back"
            raise NoBrokerAvailable("no queue of the topic may be written now", advice=advice, topic=topic)
        return queues

    def is_new(self, topic: str) -> bool:
        """Return whether a topic did not exist when `queues` returned its queues last."""
        return topic in self._new_topics

    def route_topic(self, topic: str) -> str:
        """Return the topic whose route names the brokers of a topic's queues, as `queues` returned them last."""
        return TEMPLATE_TOPIC if self.is_new(topic) else topic

    def master(self, queue: MessageQueue, deadline: Deadline | None = None, *, once: bool = False) -> Address:
        """Return the address of the master to which messages for a queue are sent.

        With `once`, every name server is asked at most once.
        """
        name = queue.broker_name
        try:
            return self._routes.route(queue.topic, deadline, once=once).broker(name).master()
        except (*UNKNOWN_TOPIC, QueueMoved) as error:
            # A broker that creates topics gets into the route of a new topic with the first message that it stores.
            template = self._template(error, deadline, once=once)
            if name not in template.brokers:
                raise
            return template.broker(name).master()

    def _template(self, absent: RouteError, deadline: Deadline | None, *, once: bool = False) -> Route:
        """Return the route of the template topic; raise `absent` if no broker has it."""
        try:
            return self._routes.route(TEMPLATE_TOPIC, deadline, once=once)
        except UNKNOWN_TOPIC:
            raise absent from None


def _new_queues(topic: str, template: Route) -> tuple[MessageQueue, ...]:
    """Return the queues that a new topic will have, derived from those of the template topic."""
    return tuple(queue._replace(topic=topic) for queue in template.writable if queue.queue_id < MOST_NEW_QUEUES)
