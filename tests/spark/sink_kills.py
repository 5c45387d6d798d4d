"""Schedules of kills for a query that writes to topics, for every cluster; each can be replayed by its seed.

A schedule kills or disturbs in different batches, and starts the query again whenever it has ended with an error. Then
nothing is missing, a repeated row has the message id of its first copy, different rows have different ids, and the rows
of a key are in order where that is promised.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from broker_stub import StubCluster
from broker_stub.faults import NAME_SERVER
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.flows.world import World
from tests.real.servers import RealCluster
from tests.spark.fixtures import ROOT, spark_environment
from tests.spark.killed_writer import DRIVER_POINTS, TASK_POINTS, Job, Kill
from tests.spark.sink_rows import (
    SHAPES,
    SMALL,
    Shape,
    Size,
    Targets,
    Wanted,
    check_arrived,
    place_rows,
    write_source,
)

RUN_S = 240.0
SEND_S = 2.0
"""The timeout of an attempt of a send."""
BUSY_S = 10.0
DOWN_S = 1.0
LATE_S = 2 * SEND_S
"""A standstill in which the first attempt of a send gets no reply in time."""
FROZEN_S = 4.5 * SEND_S
"""A standstill in which three attempts of a send get none; they do not count as failed ones."""
QUICK_GIVE_UP = {
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "8s",
    "spark.network.timeoutInterval": "2s",
}
"""Spark settings with which a silent executor is given up after eight seconds."""

LOCAL, EXECUTORS = "local[2,4]", "local-cluster[2,1,1024]"
VICTIMS: Mapping[str, tuple[str, ...]] = {
    "driver": (*TASK_POINTS, *DRIVER_POINTS),
    "committer": DRIVER_POINTS,
    "worker": TASK_POINTS,
    "executor": TASK_POINTS,
    "broker": (*TASK_POINTS, *DRIVER_POINTS),
    "names": (*TASK_POINTS, *DRIVER_POINTS),
    "frozen": (*TASK_POINTS, *DRIVER_POINTS),
    "replies": TASK_POINTS[:2],
    "busy": TASK_POINTS[:2],
    "stopped": TASK_POINTS,
}
"""The points at which each victim can be killed or disturbed."""


class Step(NamedTuple):
    """A step of an outage, and the time until the next one."""

    act: Callable[[], object]
    lasts_s: float = 0.0


Disturbances = Mapping[str, Sequence[Step]]
"""The outages of servers, by victim; the last step of each ends it."""


class Written(NamedTuple):
    """The result of a query that writes: its topics, their rows, and the number of messages that repeat a row."""

    targets: Targets
    wanted: Wanted
    repeats: int


@dataclass(frozen=True)
class Schedule:
    """The kills of a query, the shape of its rows, and their number."""

    seed: int
    master: str
    shape: Shape
    kills: tuple[Kill, ...]
    size: Size = SMALL

    def __str__(self) -> str:
        kills = ", ".join(f"{kill.victim} at {kill.point!r} of batch {kill.batch}" for kill in self.kills)
        return f"seed {self.seed}: {self.shape.name}, {self.master}, kills {kills}"


def draw_schedule(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    choose = random.Random(seed)
    batches = range(SMALL.batches)
    kills = []
    for batch in sorted(choose.sample(batches, choose.randint(1, len(batches)))):
        victim = choose.choice(list(VICTIMS))
        kills.append(Kill(victim, choose.choice(VICTIMS[victim]), batch))
    needs_executors = {"executor", "stopped"} & {kill.victim for kill in kills}
    shape = choose.choice(list(SHAPES.values()))
    return Schedule(seed, EXECUTORS if needs_executors else LOCAL, shape, tuple(kills))


FIXED = (
    Schedule(
        -1,
        LOCAL,
        SHAPES["as read"],
        (Kill("worker", "some", 0), Kill("broker", "some", 1), Kill("driver", "committed", 2)),
    ),
    Schedule(-2, LOCAL, SHAPES["rowId"], (Kill("replies", "some", 0), Kill("committer", "commit", 1))),
    Schedule(
        -3,
        EXECUTORS,
        SHAPES["as read"],
        (Kill("executor", "some", 0), Kill("stopped", "some", 1), Kill("committer", "committed", 2)),
    ),
    Schedule(
        -4,
        LOCAL,
        SHAPES["moved"],
        (Kill("busy", "before", 0), Kill("driver", "all", 1), Kill("committer", "commit", 2)),
    ),
    Schedule(
        -5,
        LOCAL,
        SHAPES["dead letters"],
        (Kill("worker", "some", 0), Kill("names", "committed", 1), Kill("driver", "all", 2)),
    ),
    Schedule(
        -6, LOCAL, SHAPES["keys"], (Kill("frozen", "some", 0), Kill("worker", "some", 1), Kill("broker", "some", 2))
    ),
    Schedule(
        -7,
        EXECUTORS,
        SHAPES["moved keys"],
        (Kill("stopped", "some", 0), Kill("driver", "some", 1), Kill("replies", "some", 2)),
    ),
    Schedule(
        -8, LOCAL, SHAPES["topics"], (Kill("names", "some", 0), Kill("driver", "some", 1), Kill("frozen", "commit", 2))
    ),
    Schedule(
        -9, LOCAL, SHAPES["large"], (Kill("broker", "some", 0), Kill("worker", "all", 1), Kill("replies", "some", 2))
    ),
    Schedule(
        -10, LOCAL, SHAPES["slow"], (Kill("replies", "some", 0), Kill("worker", "some", 1), Kill("broker", "some", 2))
    ),
    Schedule(
        -11,
        LOCAL,
        SHAPES["all at once"],
        (Kill("frozen", "some", 0), Kill("driver", "some", 1), Kill("busy", "some", 2)),
    ),
)
"""Schedules with a kill of each kind, and all shapes of rows."""
MANY_KEYS = Schedule(
    -12,
    LOCAL,
    SHAPES["keys"],
    (
        Kill("broker", "some", 0),
        Kill("worker", "some", 1),
        Kill("broker", "some", 2),
        Kill("frozen", "some", 3),
        Kill("broker", "some", 4),
    ),
    Size(batches=5, rows=20_000, rows_at_once=500, keys=1000, queues=8),
)
"""200,000 rows of 1,000 keys, for two brokers with 8 queues each."""


def run_schedule(world: World, disturb: Disturbances, folder: Path, schedule: Schedule) -> Written:
    """Run a query through a schedule of kills; return what it wrote. Fail if a promise is broken."""
    try:
        targets = _make_topics(world, schedule)
        rows = write_source(folder / "source", schedule.size)
        _run_to_end(world, disturb, folder, schedule, targets)
        wanted = place_rows(rows, schedule.shape, targets, world)
        most_torn = 0 if world.is_stub else [kill.victim for kill in schedule.kills].count("broker")
        return Written(targets, wanted, check_arrived(world, targets, wanted, schedule.shape, most_torn))
    except AssertionError as error:
        error.add_note(f"{schedule}\n{log_tail(folder)}")
        raise


def _make_topics(world: World, schedule: Schedule) -> Targets:
    names = [world.make_topic(schedule.size.queues)[0].topic for _ in range(schedule.shape.topics)]
    return Targets(names, world.make_topic(2)[0].topic if schedule.shape.has_dead_letters else None)


def _run_to_end(world: World, disturb: Disturbances, folder: Path, schedule: Schedule, targets: Targets) -> None:
    """Run the query until it ends without an error, at most once more than there are kills; check that all happened."""
    marks = folder / "marks"
    marks.mkdir()
    groups: list[int] = []
    with serve_marks(disturb, marks, folder / "checkpoint"):
        try:
            for number in range(len(schedule.kills) + 1):
                job = _job(world, folder, schedule, targets, number)
                if run_job(job, folder / f"run-{number}.log", groups) == 0:
                    break
            else:
                raise AssertionError("the query did not end")
        finally:
            kill_groups(groups)
    spared = [kill for kill in schedule.kills if not (marks / kill.mark).exists()]
    assert not spared, f"did not happen: {spared}"


def _job(world: World, folder: Path, schedule: Schedule, targets: Targets, number: int) -> Job:
    """Return the job of the run with this number."""
    shape = schedule.shape
    given = {"nameServer": world.name_server, "sendMsgTimeout": f"{SEND_S:g}s", "pollNameServerInterval": "1s"}
    if shape.topics == 1:
        given["topic"] = targets.topics[0]
    if targets.dead_letters:
        given["deadLetterTopic"] = targets.dead_letters
    names = ", ".join(map(repr, targets.topics))
    return Job(
        master=schedule.master,
        source=str(folder / "source"),
        checkpoint=str(folder / "checkpoint"),
        marks=str(folder / "marks"),
        options={**given, **shape.options},
        expressions=[expression.replace("{topics}", names) for expression in shape.expressions],
        partitions=shape.partitions[number % len(shape.partitions)],
        partition_by=shape.partition_by,
        rows_at_once=schedule.size.rows_at_once,
        conf=QUICK_GIVE_UP if schedule.master == EXECUTORS else {},
        kills=schedule.kills,
    )


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


# --- what happens to servers, and to executors that stand still -------------------------------------------------------


def stub_disturbances(stub: StubCluster, world: World) -> Disturbances:
    """Return what can happen to the stub: a crash of its broker, and of its name server, which then knows no topics.

    Also a standstill of all servers, three lost replies, and ten seconds of flow control.
    """
    faults, name, goes_on = stub.faults, "broker-a", threading.Event()

    def lose_replies() -> None:
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            faults.drop_reply(on=code, times=3)

    def be_busy() -> None:
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            faults.busy(on=code, times=None)

    def forget_topics() -> None:
        faults.clear()
        faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=RequestCode.GET_ROUTEINFO_BY_TOPIC, at=NAME_SERVER, times=None)

    def stand_still() -> None:
        goes_on.clear()
        threading.Thread(target=stub.run, args=(partial(goes_on.wait, RUN_S),), daemon=True).start()

    return {
        "broker": [Step(lambda: world.servers.stop(name), DOWN_S), Step(lambda: world.servers.start(name))],
        "names": [
            Step(lambda: faults.cut_reply(at=NAME_SERVER, times=None), DOWN_S),
            Step(forget_topics, 2 * DOWN_S),
            Step(faults.clear),
        ],
        "frozen": [Step(stand_still, FROZEN_S), Step(goes_on.set)],
        "replies": [Step(lose_replies, 3 * DOWN_S), Step(faults.clear)],
        "busy": [Step(be_busy, BUSY_S), Step(faults.clear)],
    }


def real_disturbances(cluster: RealCluster) -> Disturbances:
    """Return what can happen to real servers: a kill of a broker, each in turn, and of the name server.

    Also standstills of the first broker, for one attempt of a send and for all, and ten seconds of flow control.
    """
    broker, brokers = cluster.broker, cycle(cluster.brokers)

    def signal_broker(number: signal.Signals) -> None:
        assert broker.process is not None
        os.kill(broker.process.pid, number)

    def allow_stall(milliseconds: int) -> None:
        """Set how long the page cache may take before sends are refused; -1 refuses all."""
        line = b"osPageCacheBusyTimeOutMills=%d" % milliseconds
        assert broker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line).code == ResponseCode.SUCCESS

    def standstill(seconds: float) -> list[Step]:
        stop, go_on = partial(signal_broker, signal.SIGSTOP), partial(signal_broker, signal.SIGCONT)
        return [Step(stop, seconds), Step(go_on)]

    return {
        "broker": [Step(lambda: next(brokers).kill(), DOWN_S), Step(cluster.start)],
        "names": [Step(cluster.name_servers[0].kill, DOWN_S), Step(cluster.start)],
        "frozen": standstill(FROZEN_S),
        "replies": standstill(LATE_S),
        "busy": [Step(partial(allow_stall, -1), BUSY_S), Step(partial(allow_stall, 1000))],
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
        for step in disturb[victim]:
            step.act()
            done.touch()
            over.wait(step.lasts_s)


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
