"""Play a queue at one broker process in memory; the queue can lose messages before its minimum offset rises."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pyspark_rocketmq.cluster.broker import Brokers
from pyspark_rocketmq.cluster.cluster import Cluster
from pyspark_rocketmq.cluster.routes import BrokerEndpoint, BrokerEndpoints, Route
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectionLost
from pyspark_rocketmq.model import Address, Block, MessageQueue, QueueRange
from pyspark_rocketmq.net.backoff import Backoff
from pyspark_rocketmq.pull.loss_policy import LossPolicy
from pyspark_rocketmq.pull.port import PullRequest
from pyspark_rocketmq.pull.reader import QueueReader
from pyspark_rocketmq.pull.recount import recount
from pyspark_rocketmq.pull.remoting import read_outcome
from pyspark_rocketmq.pull.replicas import Comparison
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.pull.witness import Probe, confirm_front
from pyspark_rocketmq.wire.header import RESPONSE_FLAG, Command
from pyspark_rocketmq.wire.record import Record, decode_records, encode_record
from tests.cluster.scripted import ScriptedLinks, answer

QUEUE = MessageQueue("orders", "broker-a", 0)
MASTER, REPLICA = BrokerEndpoint(0, Address("127.0.0.1", 1)), BrokerEndpoint(1, Address("127.0.0.1", 2))
ONE_FILTER = Subscription("TagA")
FOUND, NO_MATCH, OFFSET_MOVED = 0, 20, 21
_SCANNED = 12
"""The most offsets that the broker scans for one pull."""


class Told:
    """A loss policy that notes every report."""

    def __init__(self) -> None:
        self.losses: list[tuple[int, int]] = []
        self.resets: list[tuple[int, int]] = []

    def begins_later(self, queue: MessageQueue, planned: int, minimum: int) -> None:
        """Note that messages from `planned` to `minimum` are gone."""
        self.losses.append((planned, minimum))

    def ends_earlier(self, queue: MessageQueue, planned_end: int, maximum: int) -> None:
        """Fail, because no test expects this report."""
        raise AssertionError

    def vanished(self, rest: QueueRange) -> None:
        """Note that the queue has left the route."""
        self.losses.append((rest.start, rest.end))

    def was_reset(self, queue: MessageQueue, planned: int, reset_to: int) -> None:
        """Note that an administrator reset the group's offset."""
        self.resets.append((planned, reset_to))

    def lacks_messages(self, queue: MessageQueue, start: int, end: int, missing_count: int | None = None) -> None:
        """Note that messages within `[start, end)` are gone."""
        self.losses.append((start, end))


@dataclass
class ScriptedQueue:
    """The messages of one queue at one broker process, which answers pulls as RocketMQ does."""

    count: int
    is_wanted: Callable[[int], bool]
    """Returns whether the filter matches the message at an offset."""
    gone: int = 0
    """The log holds no message before this offset."""
    minimum: int = 0
    """The minimum offset that the broker reports."""
    removed: Collection[int] = ()
    """Offsets that compaction has removed."""
    shift: int = 0
    """The queue offset in each record minus its true offset."""
    log_start: int = 0
    """The offset in the commit log of the message at offset 0."""
    suggests: int = 0
    tells_head: bool = False
    """Whether an unfiltered pull from offset 0, whose message is gone, returns the first message that is left."""
    head_queue_id: int = 0
    """The queue id in the message that is returned then; if it is not 0, the message is one of another queue."""
    reset_to: int | None = None
    """The offset to which an administrator has reset the group; the next response reports it, later ones do not."""
    pull_count: int = 0
    probes: list[int] = field(default_factory=list)
    """The offsets of the probes among the pulls."""

    def answer(self, start: int, most: int, *, is_filtered: bool) -> Command:
        """Return the response to a pull of at most `most` messages, after scanning up to `_SCANNED` offsets."""
        self.pull_count += 1
        if self.reset_to is not None:
            reset_to, self.reset_to = self.reset_to, None
            return self._command(OFFSET_MOVED, reset_to, remark="OFFSET_RESET")
        if start < self.minimum:
            return self._command(OFFSET_MOVED, self.minimum)
        if self.tells_head and start == 0 < self.gone < self.count and not is_filtered:
            return self._command(FOUND, 1, [self._record(self.gone, self.head_queue_id)])
        found: list[int] = []
        at = start
        while at < min(self.count, start + _SCANNED) and len(found) < most:
            if at >= self.gone and at not in self.removed and not (is_filtered and not self.is_wanted(at)):
                found.append(at)
            at += 1
        return self._command(FOUND if found else NO_MATCH, at, [self._record(offset) for offset in found])

    def answer_alone(self, request: Command) -> Command:
        """Return the response to a pull of one message that does not belong to a reader's pulls in flight."""
        fields = request.fields or {}
        assert fields["subscription"] == "*"
        return self.answer(int(fields["queueOffset"]), int(fields["maxMsgNums"]), is_filtered=False)

    def tell_minimum(self, request: Command) -> Command:
        """Return the response to a request for the minimum offset."""
        return answer(offset=self.minimum)

    def _command(
        self, code: int, next_offset: int, records: Sequence[bytes] = (), remark: str | None = None
    ) -> Command:
        fields = {"nextBeginOffset": next_offset, "minOffset": self.minimum, "maxOffset": self.count}
        texts = {name: str(value) for name, value in {**fields, "suggestWhichBrokerId": self.suggests}.items()}
        return Command(code, fields=texts, body=b"".join(records), remark=remark, flag=RESPONSE_FLAG)

    def _record(self, offset: int, queue_id: int = 0) -> bytes:
        is_head = self.tells_head and offset == self.gone
        return record_at(offset + self.shift, 2**20 if is_head else self.log_start + 1000 * offset, queue_id)


def record_at(offset: int, physical_offset: int, queue_id: int = 0) -> bytes:
    """Return an encoded record with this queue offset, physical offset and queue id."""
    plain = Record(
        topic="orders",
        queue_id=queue_id,
        queue_offset=offset,
        physical_offset=physical_offset,
        born_timestamp=0,
        born_host=MASTER.address,
        store_timestamp=0,
        store_host=MASTER.address,
        body=b"x",
    )
    return encode_record(plain)


def brokers_of(queues: dict[BrokerEndpoint, ScriptedQueue], links: ScriptedLinks) -> Brokers:
    """Return brokers whose route names these processes; `links` answers all requests except a reader's pulls."""
    brokers = Cluster(ClusterSettings((MASTER.address,)), links).brokers
    for place, queue in queues.items():
        links.serve(str(place.address), GET_MIN_OFFSET=queue.tell_minimum, PULL_MESSAGE=queue.answer_alone)
    named = BrokerEndpoints("broker-a", "c", tuple(queues))
    route = Route("orders", (QUEUE,), (QUEUE,), {"broker-a": named})
    brokers.routes = FixedRoutes(route)  # type: ignore[assignment]  # it needs no name server
    return brokers


def topic_config(**attributes: str) -> Command:
    """Return a broker's response with these attributes of the topic's configuration."""
    return answer(
        body={
            "topicName": "orders",
            "attributes": {name.replace("_", "."): value for name, value in attributes.items()},
        }
    )


class FixedRoutes:
    """A route table with one fixed route."""

    def __init__(self, route: Route) -> None:
        self._whole = self._route = route

    def route(self, topic: str, deadline: object = None) -> Route:
        """Return the route."""
        return self._route

    def without(self, gone: BrokerEndpoint | None) -> None:
        """Remove one process from the route."""
        named = self._whole.brokers["broker-a"]
        left = tuple(place for place in named.endpoints if place != gone)
        self._route = replace(self._whole, brokers={"broker-a": replace(named, endpoints=left)})

    def expire(self, topic: str) -> None:
        """Do nothing: there is no newer route."""


class Reading:
    """A reader of one range, by default of the whole queue, whose pulls a test sends and answers one by one."""

    def __init__(
        self,
        queues: dict[BrokerEndpoint, ScriptedQueue],
        *,
        subscription: Subscription = ONE_FILTER,
        is_front_open: bool = False,
        config: Command | None = None,
        is_known: bool = True,
        policy: LossPolicy | None = None,
        wanted: range | None = None,
        max_retries: int = 1000,
    ) -> None:
        self.queues = queues
        self.told = Told()
        self._is_filtered = subscription != Subscription()
        self.now = 100.0
        self.rows: list[int] = []
        self.blocks: list[Block] = []
        self.claims: list[int] = []
        """`covered` of each block: the number of messages that it must hold; 0 if they are not counted."""
        self.in_flight: list[tuple[BrokerEndpoint, PullRequest, Command | None]] = []
        self.links = ScriptedLinks()
        self.brokers = brokers_of(queues, self.links)
        self.links.serve(str(MASTER.address), GET_TOPIC_CONFIG=config or topic_config())
        if is_known:
            self.learn_of_compaction()
        [end] = {queue.count for queue in queues.values()}
        wanted = wanted or range(end)
        self._settings = PullSettings(
            subscription=subscription, batch_size=8, failure_pause=Backoff(0.01, 0.01), max_retries=max_retries
        )
        self.policy = policy or self.told
        asked = QueueRange(QUEUE, wanted.start, wanted.stop, is_front_open)
        self.reader = QueueReader(asked, self.brokers, self._settings, self.policy)

    def learn_of_compaction(self) -> None:
        """Request from the broker whether the topic is compacted; the reader uses the result."""
        self.brokers.compacted.is_compacted("orders", "broker-a")

    def confirm_front(self, start: int, sleep: Callable[[float], object]) -> None:
        """Probe the range from `start` to the queue's end at the master, as `witness.confirm_front` does."""
        end = self.queues[MASTER].count
        confirm_front(QueueRange(QUEUE, start, end), self.brokers, self.told, self._settings, sleep)

    def send(self) -> None:
        """Send the pulls that are admitted now, probes first, as the window does."""
        if self.reader.may_probe(self.now) and (place := self.reader.choose_probed(self.now)):
            self.in_flight.append((place, self.reader.take_probe(place, self.now), None))
        for request in self.reader.take_requests(self.reader.admit(2, self.now)):
            self.in_flight.append((self.reader.choose_endpoint(), request, None))

    def serve(self, index: int) -> None:
        """Make the broker's response to a pull in flight, unless it is made; it is delivered later."""
        place, request, answer = self.in_flight[index]
        if answer is None:
            start, end = request
            queue = self.queues[place]
            queue.probes += [start] * isinstance(request, Probe)
            is_filtered = self._is_filtered and not isinstance(request, Probe | Comparison)
            made = queue.answer(start, min(8, end - start), is_filtered=is_filtered)
            self.in_flight[index] = place, request, made

    def deliver(self, index: int) -> None:
        """Deliver the response to a pull in flight to the reader; make it first if it is not made yet."""
        self.serve(index)
        place, request, answer = self.in_flight.pop(index)
        assert answer is not None
        self.reader.accept(request, place, read_outcome(answer), self.now)
        blocks = self.reader.take()
        self.blocks += blocks
        self.rows += [offset for block in blocks for offset in offsets_in(block)]
        self.claims += [block.covered for block in blocks]

    def lose(self, index: int) -> None:
        """Fail a pull in flight: its connection ends before the response arrives."""
        place, request, _ = self.in_flight.pop(index)
        self.reader.handle_failure(request, ConnectionLost("the connection ended"), self.now, place)

    def die(self, place: BrokerEndpoint) -> None:
        """Remove a broker process from the route for good, and fail the pulls that it has not answered yet."""
        self.routes.without(place)
        for index in reversed(range(len(self.in_flight))):
            if self.in_flight[index][0] == place and self.in_flight[index][2] is None:
                self.lose(index)

    @property
    def routes(self) -> FixedRoutes:
        """The route table of the brokers."""
        routes: FixedRoutes = self.brokers.routes  # type: ignore[assignment]  # as `brokers_of` made it
        return routes

    def recount(self, meanwhile: Callable[[Reading], object] = lambda _: None) -> None:
        """Recount the unconfirmed ranges, as `read_ranges` does at its end.

        `meanwhile` is called with each repeated reading before it is finished.
        """

        def again(ranges: Sequence[QueueRange], subscription: Subscription) -> Iterator[Block]:
            for each in ranges:
                wanted = range(each.start, each.end)
                reading = Reading(self.queues, subscription=subscription, policy=self.policy, wanted=wanted)
                reading.brokers.routes = self.routes  # type: ignore[assignment]  # a process that is gone is gone for all readers
                meanwhile(reading)
                reading.finish()
                yield from reading.blocks

        if unconfirmed := self.reader.unconfirmed:
            recount(unconfirmed, again, self._settings.subscription, self.policy)

    def answer_all(self) -> None:
        """Read the whole range without probes; the requests that compare replicas with the master are sent, too."""
        while not self.reader.cursor.is_finished:
            while due := self.reader.replicas.due:
                self.in_flight.append((due[0], self.reader.replicas.take_request(), None))
                self.deliver(len(self.in_flight) - 1)
            for request in self.reader.take_requests(self.reader.admit(2, self.now)):
                self.in_flight.append((self.reader.choose_endpoint(), request, None))
            self.deliver(0)

    def finish(self) -> None:
        """Read to the end of the range; every pull and probe is answered."""
        for queue in self.queues.values():
            queue.suggests = 0
        for _ in range(10_000):
            if self.reader.is_finished:
                return
            self.now += 0.05
            self.send()
            if self.in_flight:
                self.deliver(0)
        raise AssertionError(f"does not end: {self.reader}")


def offsets_in(block: Block) -> list[int]:
    """Return the queue offsets of a block's records that lie within its wanted range."""
    wanted = range(block.wanted.start, block.wanted.end)
    return [record.queue_offset for record in decode_records(block.data) if record.queue_offset in wanted]
