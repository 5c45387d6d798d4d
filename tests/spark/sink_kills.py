"""Schedules of kills for a query that writes to a topic, for every cluster; each can be replayed by its seed.

A schedule kills up to three times, in different batches, and starts the query again whenever it has ended with an
error. Then nothing is missing, a repeated row has the message id of its first copy, and different rows have different
ids.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from broker_stub import StubCluster
from pyspark_rocketmq.model import QueueRange
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.record import decode_records
from tests.flows.reading import read_all
from tests.flows.world import World
from tests.real.servers import RealCluster
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.killed_writer import DRIVER_POINTS, TASK_POINTS, Job, Kill
from tests.spark.queries import Sink, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, FILES, ROWS = 3, 2, 120
"""Batches of a query, files of a batch, rows of a file."""
RUN_S = 240.0
BUSY_S = 10.0
DOWN_S = 1.0
QUICK_GIVE_UP = {"spark.executor.heartbeatInterval": "1s", "spark.network.timeout": "8s"}
"""Spark settings with which a silent executor is given up after eight seconds."""

LOCAL, EXECUTORS = "local[2,4]", "local-cluster[2,1,1024]"
VICTIMS: Mapping[str, tuple[str, ...]] = {
    "driver": (*TASK_POINTS, *DRIVER_POINTS),
    "committer": DRIVER_POINTS,
    "worker": TASK_POINTS,
    "executor": TASK_POINTS,
    "broker": (*TASK_POINTS, *DRIVER_POINTS),
    "replies": TASK_POINTS[:2],
    "busy": TASK_POINTS[:2],
    "stopped": TASK_POINTS,
}
"""The points at which each victim can be killed."""


class Disturbance(NamedTuple):
    """An outage of a broker: how it begins, how long it lasts, and how it ends."""

    begin: Callable[[], object]
    lasts_s: float
    end: Callable[[], object]


Disturbances = Mapping[str, Disturbance]
"""The outages of brokers, by victim."""


class Shape(NamedTuple):
    """The way in which rows get ids: by their place in a file, or in a partition of a shuffle, or by `rowId`."""

    name: str
    expressions: tuple[str, ...]
    partitions: tuple[int | None, ...]
    """The numbers of partitions into which the runs of a query shuffle their rows, in turn."""
    repeats_ids: bool


SHAPES = (
    Shape("as read", ("value AS body",), (None,), True),
    Shape("rowId", ("value AS body", "value AS rowId"), (2, 3, 1), True),
    Shape("moved", ("value AS body",), (2, 3, 1), False),
)


class Written(NamedTuple):
    """The result of a query that writes: topic, rows, and the number of messages that repeat a row."""

    topic: str
    rows: set[str]
    repeats: int


@dataclass(frozen=True)
class Schedule:
    """The kills of a query, and the shape of its rows."""

    seed: int
    master: str
    shape: Shape
    kills: tuple[Kill, ...]

    def __str__(self) -> str:
        kills = ", ".join(f"{kill.victim} at {kill.point!r} of batch {kill.batch}" for kill in self.kills)
        return f"seed {self.seed}: {self.shape.name}, {self.master}, kills {kills}"


def draw_schedule(seed: int, victims: tuple[str, ...]) -> Schedule:
    """Return the schedule of a seed; it kills only these victims."""
    choose = random.Random(seed)
    batches = sorted(choose.sample(range(BATCHES), choose.randint(1, BATCHES)))
    kills = []
    for batch in batches:
        victim = choose.choice(victims)
        kills.append(Kill(victim, choose.choice(VICTIMS[victim]), batch))
    needs_executors = {"executor", "stopped"} & {kill.victim for kill in kills}
    return Schedule(seed, EXECUTORS if needs_executors else LOCAL, choose.choice(SHAPES), tuple(kills))


def run_schedule(world: World, disturb: Disturbances, folder: Path, schedule: Schedule) -> Written:
    """Run a query through a schedule of kills; return what it wrote. Fail if a promise is broken."""
    topic, wanted = world.make_topic(4)[0].topic, write_source(folder / "source")
    marks, checkpoint = folder / "marks", folder / "checkpoint"
    marks.mkdir()
    options = {"nameServer": world.name_server, "topic": topic, "sendMsgTimeout": "2s", "pollNameServerInterval": "1s"}
    groups: list[int] = []
    with serve_marks(disturb, marks, checkpoint):
        try:
            for number in range(len(schedule.kills) + 1):
                partitions = schedule.shape.partitions[number % len(schedule.shape.partitions)]
                job = Job(
                    master=schedule.master,
                    source=str(folder / "source"),
                    checkpoint=str(checkpoint),
                    marks=str(marks),
                    options=options,
                    expressions=list(schedule.shape.expressions),
                    partitions=partitions,
                    conf=QUICK_GIVE_UP if schedule.master == EXECUTORS else {},
                    kills=schedule.kills,
                )
                if run_job(job, folder / f"run-{number}.log", groups) == 0:
                    break
            else:
                raise AssertionError(f"{schedule}: the query did not end\n{log_tail(folder)}")
        finally:
            kill_groups(groups)
    spared = [kill for kill in schedule.kills if not (marks / kill.mark).exists()]
    assert not spared, f"{schedule}: did not happen: {spared}"
    return Written(topic, wanted, check_written(world, topic, wanted, schedule))


def write_source(folder: Path) -> set[str]:
    """Write the rows of all batches to text files; return them."""
    folder.mkdir()
    rows = set()
    for number in range(BATCHES * FILES):
        lines = [f"row {number}-{line} {'x' * (40 + number)}" for line in range(ROWS)]
        path = folder / f"{number:02}.txt"
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        rows.update(lines)
    return rows


def run_job(job: Job, log: Path, groups: list[int]) -> int:
    """Run a job in processes of its own; return how it ended, and add its process group to `groups`."""
    environment = {**os.environ, **spark_environment(), "WRITER_JOB": job.text()}
    command = [sys.executable, "-m", "tests.spark.killed_writer"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    groups.append(process.pid)
    return process.wait(RUN_S)


def kill_groups(groups: list[int]) -> None:
    """Kill what is left of the jobs' processes, such as executors whose driver was killed."""
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue


def log_tail(folder: Path) -> str:
    """Return the ends of the logs of all runs."""
    return "\n".join(f"--- {path.name}\n{path.read_text()[-2500:]}" for path in sorted(folder.glob("run-*.log")))


# --- what happens to brokers, and to executors that stand still -------------------------------------------------------


def stub_disturbances(stub: StubCluster, world: World) -> Disturbances:
    """Return what can happen to the stub's broker: a crash, three lost replies, ten seconds of flow control."""
    faults, name = stub.faults, "broker-a"

    def lose_replies() -> None:
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            faults.drop_reply(on=code, times=3)

    def be_busy() -> None:
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            faults.busy(on=code, times=None)

    return {
        "broker": Disturbance(lambda: world.servers.stop(name), DOWN_S, lambda: world.servers.start(name)),
        "replies": Disturbance(lose_replies, 3 * DOWN_S, faults.clear),
        "busy": Disturbance(be_busy, BUSY_S, faults.clear),
    }


def real_disturbances(cluster: RealCluster) -> Disturbances:
    """Return what can happen to a real broker: a kill, and a standstill for longer than a send waits for its reply."""
    broker = cluster.broker

    def signal_broker(number: signal.Signals) -> None:
        assert broker.process is not None
        os.kill(broker.process.pid, number)

    return {
        "broker": Disturbance(broker.kill, DOWN_S, broker.start),
        "replies": Disturbance(
            lambda: signal_broker(signal.SIGSTOP), 4 * DOWN_S, lambda: signal_broker(signal.SIGCONT)
        ),
    }


@contextmanager
def serve_marks(disturb: Disturbances, marks: Path, checkpoint: Path) -> Iterator[None]:
    """Do what marks ask for, in a thread, during the `with` block."""
    over = threading.Event()

    def serve() -> None:
        served: set[Path] = set()
        while not over.wait(0.02):
            for mark in set(marks.glob("*-*-?")) - served:
                served.add(mark)
                _serve(disturb, mark, checkpoint, over)

    with ThreadPoolExecutor(1) as thread:
        serving = thread.submit(serve)
        try:
            yield
        finally:
            over.set()
    serving.result()


def _serve(disturb: Disturbances, mark: Path, checkpoint: Path, over: threading.Event) -> None:
    victim, _, batch = mark.name.split("-")
    done = mark.with_suffix(".done")
    if victim == "stopped":
        _stop_until_given_up(json.loads(mark.read_text()), done, checkpoint / "commits" / batch)
    elif victim in disturb:
        begin, lasts_s, end = disturb[victim]
        begin()
        done.touch()
        over.wait(lasts_s)
        end()


def _stop_until_given_up(pids: list[int], done: Path, committed: Path) -> None:
    """Stop the processes of an executor until another one has written its batch; then let them go on."""
    for pid in reversed(pids):
        os.kill(pid, signal.SIGSTOP)
    done.touch()
    try:
        _wait_until(committed.exists, "Spark has given up the executor")
    finally:
        for pid in pids:
            _resume(pid)


def _resume(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + RUN_S
    while not condition():
        assert time.monotonic() < ends, f"not within {RUN_S:g} s: {what}"
        time.sleep(0.05)


# --- what is promised ------------------------------------------------------------------------------------------------


def check_written(world: World, topic: str, wanted: set[str], schedule: Schedule) -> int:
    """Return how many messages repeat a row. Fail if a row is missing, or if message ids are not as promised."""
    ids_of, bodies_of = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    count = 0
    for body, message_id in read_topic(world, topic):
        ids_of[body].add(message_id)
        bodies_of[message_id].add(body)
        count += 1
    assert set(ids_of) == wanted, f"{schedule}: {len(wanted - set(ids_of))} rows are missing"
    shared = {message_id: bodies for message_id, bodies in bodies_of.items() if len(bodies) > 1}
    assert not shared, f"{schedule}: different rows share an id: {shared}"
    if schedule.shape.repeats_ids:
        changed = {body: ids for body, ids in ids_of.items() if len(ids) > 1}
        assert not changed, f"{schedule}: {len(changed)} rows were repeated under another id"
    return count - len(wanted)


def check_deduplicated(spark: SparkSession, world: World, written: Written, folder: Path) -> None:
    """Check that a query that drops repeated message ids reads exactly the rows that were written."""
    frame = spark.readStream.format("rocketmq").options(nameServer=world.name_server, subscribe=written.topic)
    once = frame.option("startingOffsets", "earliest").load().withWatermark("storeTimestamp", "1 hour")
    sink = Sink()
    run_to_end(once.dropDuplicatesWithinWatermark(["msgId"]), sink, folder / "deduplicated")
    assert sink.bodies == sorted(written.rows)


def read_topic(world: World, topic: str) -> Iterator[tuple[str, str]]:
    """Yield body and message id of every message of a topic."""
    queues = world.cluster.routes.route(topic).readable
    ends = world.cluster.offsets.fetch_max(queues)
    for block in read_all(world.cluster, [QueueRange(queue, 0, ends[queue]) for queue in queues]):
        for record in decode_records(block.data):
            yield record.unpacked_body().decode(), record.properties["UNIQ_KEY"]
