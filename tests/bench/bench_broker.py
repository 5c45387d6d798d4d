"""Start real brokers with the JVM settings of production, fill topics with the official producer, and empty them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import to_fields
from pyspark_rocketmq.wire.scan import record_starts
from tests.bench.bench_settings import Shape
from tests.bench.usage import Groups, tree
from tests.bench.worker_processes import start_java_worker
from tests.flows.world import pull_request
from tests.real.servers import RealCluster, Site, wait_until

AS_SHIPPED = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
"""JVM switches of production. They override those of other tests, which start servers faster but make them slower."""
HEAP_MB = 2048
BROKER_OPTIONS = {"mappedFileSizeCommitLog": str(2**30), "mappedFileSizeConsumeQueue": "6000000"}
NO_RETENTION = {"fileReservedTime": "0", "deleteWhen": "25"}
"""The broker options with which `empty_log` works: every message has expired, but no hour is that of deletion."""
ALL_HOURS, NO_HOUR = ";".join(f"{hour:02}" for hour in range(24)), "25"
IN_MEMORY, FROM_DISK = 40, 0
"""The percentage of memory that a broker takes for page cache: by default, and when it shall answer as if from disk."""
MEMORY_ANSWER, DISK_ANSWER = 32, 8
"""The number of messages that a response has at most, from memory and from disk."""
_REMAINING_FILES = 3
"""Files of the log that a broker keeps at most: the newest one, the one that it writes, and one made in advance."""
_EMPTY_S = 180


class FullSpeedSite(Site):
    """The settings of servers whose JVMs compile with all optimizations."""

    def java_arguments(self, home: Path, heap_mb: int) -> list[str]:
        """Return the JVM arguments of a server, preceded by the JVM switches of production."""
        return [*AS_SHIPPED, *super().java_arguments(home, heap_mb)]


class BenchBroker:
    """A real broker and its topics; each topic is made and filled when it is first requested."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self._topics: dict[Shape, str] = {}

    @property
    def name_server(self) -> str:
        """The address of the broker's name server."""
        return self.cluster.name_server

    @property
    def processes(self) -> Groups:
        """The broker's processes under the label `broker`, for a `Meter`."""
        process = self.cluster.broker.process
        assert process is not None, "the broker does not run"
        return {"broker": lambda: tree(process.pid)}

    def topic(self, shape: Shape) -> str:
        """Return the name of a topic of this shape, filled with its messages."""
        if shape not in self._topics:
            self._topics[shape] = self._fill(shape)
        return self._topics[shape]

    def empty_topic(self, name: str, queues: int = 8) -> str:
        """Make a topic without messages; return its name."""
        self.cluster.create_topic(name, queues=queues)
        return name

    def readable(self, topic: str, queues: int = 8) -> int:
        """Return how many messages have entered the topic's queues so far, deleted ones included."""
        return sum(self.cluster.broker.max_offset(topic, queue_id) for queue_id in range(queues))

    def empty_log(self) -> None:
        """Delete the log's files but the newest ones, and wait until what remains is on disk.

        The broker must have been started with the options `NO_RETENTION`.
        """
        files = self.cluster.broker.home / "store" / "commitlog"
        self._set(f"deleteWhen={ALL_HOURS}")
        wait_until(lambda: len(list(files.iterdir())) <= _REMAINING_FILES, "the log is emptied", _EMPTY_S)
        self._set(f"deleteWhen={NO_HOUR}")
        os.sync()

    def answer_size(self, shape: Shape) -> int:
        """Return the number of messages in the response to a pull that requests 32 of them."""
        queue = MessageQueue(self.topic(shape), self.cluster.broker.broker_name, 0)
        answer = self.cluster.broker.ask(RequestCode.PULL_MESSAGE, to_fields(pull_request(queue, 0).header))
        return len(record_starts(answer.body))

    @contextmanager
    def answering_from_disk(self) -> Iterator[None]:
        """Make the broker return 8 messages at most per pull during the `with` block, as if it read from disk."""
        self._take_as_cached(FROM_DISK)
        try:
            yield
        finally:
            self._take_as_cached(IN_MEMORY)

    def _fill(self, shape: Shape) -> str:
        kind = "alike" if shape.alike else "mixed"
        topic = self.empty_topic(f"bench_{shape.queues}x{shape.size}_{shape.messages}_{kind}", shape.queues)
        with start_java_worker(self.name_server) as producer:
            run = producer.drain("fill", topic=topic, count=shape.messages, size=shape.size, alike=shape.alike)
        broker, share = self.cluster.broker, shape.messages // shape.queues
        queues = range(shape.queues)
        wait_until(lambda: all(broker.max_offset(topic, n) == share for n in queues), f"{topic} is full")
        print(f"filled {topic}: {run.messages:,} messages in {run.seconds:.1f} s", flush=True)
        return topic

    def _take_as_cached(self, percent: int) -> None:
        self._set(f"accessMessageInMemoryMaxRatio={percent}")

    def _set(self, line: str) -> None:
        answer = self.cluster.broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line.encode())
        assert answer.code == ResponseCode.SUCCESS, f"{line}: {answer.remark}"


@contextmanager
def open_bench_broker(version: str, **options: str) -> Iterator[BenchBroker]:
    """Start a name server and a `BenchBroker` of this release; stop and remove them after the `with` block.

    `options` are further lines of broker.conf.
    """
    cluster = RealCluster(version, options={**BROKER_OPTIONS, **options})
    site = FullSpeedSite(**{each.name: getattr(cluster.site, each.name) for each in fields(cluster.site)})
    for server in cluster.servers:
        server.site = site
    cluster.broker.heap_mb = HEAP_MB
    with cluster:
        yield BenchBroker(cluster)
