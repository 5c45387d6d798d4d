"""Play the brokers of one pull service in memory: a test answers each pull, and runs each planned step, by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from pyspark_rocketmq.client.assignment import Assigned
from pyspark_rocketmq.client.loop import Command as Step
from pyspark_rocketmq.client.loop import Loop
from pyspark_rocketmq.client.message import MessageBatch, ReceivedMessage
from pyspark_rocketmq.client.pull_service import PullRequests, PullService
from pyspark_rocketmq.client.running import MemberState
from pyspark_rocketmq.client.settings import ConsumerSettings
from pyspark_rocketmq.client.statistics import Statistics
from pyspark_rocketmq.client.stores import Progress
from pyspark_rocketmq.cluster.routes import BrokerEndpoints
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.model import Address, MessageQueue
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.wire.bodies import SubscriptionData, build_subscription
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command
from tests.client.fixtures import ManualClock
from tests.pull.scripted_queue import MASTER, QUEUE, REPLICA, record_at

FIRST_OFFSET = 5
"""The offset of the first pull, unless the service finds another one."""


class Steps(Loop):
    """A loop without a thread: it notes commands with their delays, and a test runs them."""

    def __init__(self) -> None:
        super().__init__("steps", ManualClock())
        self.planned: list[tuple[float, Step]] = []

    def call_later(self, delay_s: float, command: Step) -> None:
        """Note the command."""
        self.planned.append((delay_s, command))

    def run(self) -> float:
        """Run the only planned command, and return its delay."""
        [(delay_s, command)] = self.planned
        self.planned.clear()
        command()
        return delay_s


class Sent(NamedTuple):
    """One pull that the service has sent."""

    address: Address
    fields: dict[str, str]
    timeout_s: float
    response: Future[Command]


class NotedSink:
    """A consumer of messages that notes them."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.skipped: list[int] = []
        self.moved: list[int] = []

    def cut(self, messages: MessageBatch) -> Sequence[MessageBatch]:
        """Return batches of one message each."""
        return messages.pieces(1)

    def submit(self, assigned: Assigned, batches: Sequence[MessageBatch], starts: bool) -> None:
        """Note the offsets of the messages."""
        self.offsets += [batch.offset for batch in batches]

    def skip(self, assigned: Assigned, offset: int) -> None:
        """Note the offset before which a filter left out all messages."""
        self.skipped.append(offset)

    def correct(self, assigned: Assigned, offset: int) -> None:
        """Note the offset to which a broker moves the queue."""
        self.moved.append(offset)


class ScriptedPulls:
    """A pull service that holds one queue, and the processes of its broker: a master and a replica."""

    def __init__(self, *, needs_locks: bool = False, position: int | None = None, **given: Any) -> None:
        self.sent: list[Sent] = []
        self.steps, self.sink, self.clock = Steps(), NotedSink(), ManualClock()
        self.expired: list[str] = []
        self.searches: list[MessageQueue] = []
        self.search: Callable[[MessageQueue], int] = lambda _: FIRST_OFFSET
        """Returns the offset at which pulling of a queue begins; a test may replace this function."""
        self.subscription: SubscriptionData | None = build_subscription("orders", sub_version=7)
        settings = ConsumerSettings(group="readers", subscriptions="orders", **given)
        self.state = MemberState(settings.limits)
        self.state.is_running = True
        progress = Progress()
        if position is not None:
            progress.update(QUEUE, position, only_forward=True)
        self.assigned = Assigned(QUEUE, FIRST_OFFSET, orderly=needs_locks, clock=self.clock.now_s)
        self.assigned.process_queue.locked = True
        cluster = ClusterSettings((MASTER.address,))
        self.service = PullService(
            cluster=cast(Any, SimpleNamespace(routes=self, settings=cluster)),
            settings=settings,
            subscription_of=lambda _: self.subscription,
            needs_locks=needs_locks,
            state=self.state,
            requests=PullRequests(cluster, settings, progress),
            connections=cast(Any, self),
            first_offsets=cast(Any, SimpleNamespace(find=self._search)),
            sink=cast(Any, self.sink),
            corrections=cast(Any, self.sink),
            statistics=Statistics(self.clock.now_s),
            loop=self.steps,
            clock=self.clock,
        )

    def start(self) -> None:
        """Begin to pull the queue."""
        self.service.begin(self.assigned, 0.0)
        self.steps.run()

    @property
    def last(self) -> Sent:
        """The pull that was sent last."""
        return self.sent[-1]

    def answer(self, code: int, next_offset: int, offsets: Sequence[int] = (), *, suggests: int = 0) -> None:
        """Answer the last pull with messages at these offsets."""
        numbers = {"nextBeginOffset": next_offset, "minOffset": 0, "maxOffset": 1000, "suggestWhichBrokerId": suggests}
        body = b"".join(record_at(offset, physical_offset=1000 * offset) for offset in offsets)
        fields = {name: str(value) for name, value in numbers.items()}
        self.last.response.set_result(Command(code, fields=fields, body=body, flag=RESPONSE_FLAG))

    def refuse(self, code: int, remark: str = "scripted") -> None:
        """Answer the last pull with an error."""
        self.last.response.set_result(Command(code, remark=remark, flag=RESPONSE_FLAG))

    def fail(self, error: RocketMQError) -> None:
        """End the last pull without an answer."""
        self.last.response.set_exception(error)

    def put(self, *offsets: int, body_bytes: int = 1) -> None:
        """Cache messages at these offsets, which no listener has consumed."""
        batches = [MessageBatch.of([cast(ReceivedMessage, _Message(offset, body_bytes))]) for offset in offsets]
        self.assigned.process_queue.put(batches)

    def _search(self, queue: MessageQueue) -> int:
        self.searches.append(queue)
        return self.search(queue)

    # --- routes and connections --------------------------------------------------------------------------------------

    def known_brokers(self) -> dict[str, BrokerEndpoints]:
        """Return the only broker."""
        return {"broker-a": BrokerEndpoints("broker-a", "c", (MASTER, REPLICA))}

    def expire(self, topic: str) -> None:
        """Note that the service found the topic's route stale."""
        self.expired.append(topic)

    def find(self, address: Address) -> Any:
        """Return a connection to the address."""

        def submit(code: int, fields: dict[str, str], body: bytes, deadline: Deadline) -> Future[Command]:
            self.sent.append(Sent(address, fields, deadline.seconds, Future()))
            return self.last.response

        return SimpleNamespace(submit=submit)


class _Message(NamedTuple):
    offset: int
    body_bytes: int
