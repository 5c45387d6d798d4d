"""Where do contenders meet? One real broker as users run it, with topics that the official producer fills."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import to_fields
from pyspark_rocketmq.wire.scan import record_starts
from tests.bench.partners import java_partner
from tests.bench.plan import Shape
from tests.bench.usage import Groups, tree
from tests.flows.world import pull_request
from tests.real.servers import RealCluster, Site, wait_until

AS_SHIPPED = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
"""Undoes what makes the servers of other tests start quickly and run slowly: the last of equal switches counts."""
HEAP_MB = 2048
BROKER_OPTIONS = {"mappedFileSizeCommitLog": str(2**30), "mappedFileSizeConsumeQueue": "6000000"}
IN_MEMORY, FROM_DISK = 40, 0
"""How many percent of memory are taken to be cached; 40 is a broker's default."""
MEMORY_ANSWER, DISK_ANSWER = 32, 8
"""How many messages a broker sends at once; with too many messages for its memory it would answer from disk."""


class FullSpeedSite(Site):
    """Servers whose JVMs compile as well as they can."""

    def java_arguments(self, home: Path, heap_mb: int) -> list[str]:
        """Those of every server, and what lets it run at full speed."""
        return [*AS_SHIPPED, *super().java_arguments(home, heap_mb)]


class Stage:
    """The broker and its topics; a topic is filled when it is first asked for."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self._topics: dict[Shape, str] = {}

    @property
    def name_server(self) -> str:
        """Where to find it."""
        return self.cluster.name_server

    @property
    def processes(self) -> Groups:
        """The broker."""
        process = self.cluster.broker.process
        assert process is not None, "the broker does not run"
        return {"broker": lambda: tree(process.pid)}

    def topic(self, shape: Shape) -> str:
        """The topic of a shape, full."""
        if shape not in self._topics:
            self._topics[shape] = self._fill(shape)
        return self._topics[shape]

    def empty_topic(self, name: str, queues: int = 8) -> str:
        """A topic without messages."""
        self.cluster.create_topic(name, queues=queues)
        return name

    def answer_size(self, shape: Shape) -> int:
        """How many messages one pull of 32 gets."""
        queue = MessageQueue(self.topic(shape), self.cluster.broker.broker_name, 0)
        answer = self.cluster.broker.ask(RequestCode.PULL_MESSAGE, to_fields(pull_request(queue, 0).header))
        return len(record_starts(answer.body))

    @contextmanager
    def answering_from_disk(self) -> Iterator[None]:
        """In this block the broker takes nothing to be cached, so it answers with 8 messages at most."""
        self._take_as_cached(FROM_DISK)
        try:
            yield
        finally:
            self._take_as_cached(IN_MEMORY)

    def _fill(self, shape: Shape) -> str:
        kind = "alike" if shape.alike else "mixed"
        topic = self.empty_topic(f"bench_{shape.queues}x{shape.size}_{shape.messages}_{kind}", shape.queues)
        with java_partner(self.name_server) as producer:
            run = producer.drain("fill", topic=topic, count=shape.messages, size=shape.size, alike=shape.alike)
        broker, share = self.cluster.broker, shape.messages // shape.queues
        queues = range(shape.queues)
        wait_until(lambda: all(broker.max_offset(topic, n) == share for n in queues), f"{topic} is full")
        print(f"filled {topic}: {run.messages:,} messages in {run.seconds:.1f} s", flush=True)
        return topic

    def _take_as_cached(self, percent: int) -> None:
        line = f"accessMessageInMemoryMaxRatio={percent}"
        answer = self.cluster.broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line.encode())
        assert answer.code == ResponseCode.SUCCESS, f"{line}: {answer.remark}"


@contextmanager
def open_stage(version: str) -> Iterator[Stage]:
    """One name server and one broker at full speed, gone after the block."""
    cluster = RealCluster(version, options=BROKER_OPTIONS)
    site = FullSpeedSite(**{each.name: getattr(cluster.site, each.name) for each in fields(cluster.site)})
    for server in cluster.servers:
        server.site = site
    cluster.broker.heap_mb = HEAP_MB
    with cluster:
        yield Stage(cluster)
