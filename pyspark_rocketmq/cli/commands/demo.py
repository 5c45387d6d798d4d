"""Show a stream of orders through a broker and Spark, live."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...errors import NoBrokerAvailable, OptionError, RocketMQError
from ..command import Command, Parameter
from ..connection import Wanted
from ..demo.state import DemoState, Sums, show_state
from ..parser import CONNECTION
from ..program import describe_steps
from ..session import Session

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ...cluster.settings import ClusterSettings
    from ...model import MessageQueue
    from ..demo.depths import Depths
    from ..demo.orders import OrderFlow
    from ..demo.process import SparkJob

__all__ = ["COMMANDS"]

_TICK_S = 0.25
_START_S, _DRAIN_S, _ROUTE_S, _REMOVAL_S = 180.0, 60.0, 30.0, 20.0
"""Longest times until the first batch, until the last order is read, until a new topic has a route, and until it is
removed from brokers that cannot be reached or are busy."""
_LEAST_S, _MOST_S = 1.0, 86_400.0
_QUEUES = 2
_DIES, _AWAY, _MOST_AWAY_S = 0.25, 0.25, 20.0
"""The part of the demo's time after which the embedded broker dies, and the part for which it is away: not for long,
because the job's watermark passes orders that come later, and the source gives a broker up after `pollTimeoutMs`."""
_MORTAL = "broker-b"


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster of the demo, its topics, and what happens to the cluster on the way."""

    name: str
    options: dict[str, str]
    settings: ClusterSettings
    cluster: Cluster
    orders: str
    sums: str
    last_words: str
    """The state of the cluster after the demo, in a sentence."""
    next_steps: tuple[str, ...]
    incidents: tuple[tuple[float, Callable[[], object]], ...] = ()
    """Changes of the cluster, each some seconds after the first batch."""
    left: list[str] = field(default_factory=list)
    """The topics that could not be removed."""

    def describe_end(self) -> str:
        """Return the state of the cluster after an interruption."""
        return f"Spark has ended; topics that are left: {', '.join(self.left)}" if self.left else self.last_words


def _run(
    session: Session, name_server: str | None, profile: str | None, option: tuple[str, ...], seconds: float
) -> Iterator[DemoState]:
    from ..demo.process import require_spark

    if not _LEAST_S <= seconds <= _MOST_S:
        raise OptionError("--seconds", f"{seconds:g}", "out of range", advice=f"give {_LEAST_S:g} to {_MOST_S:g}")
    require_spark()
    is_own = name_server is not None or profile is not None or bool(option)
    return _perform(session, Wanted(name_server, profile, option) if is_own else None, seconds)


def _perform(session: Session, wanted: Wanted | None, seconds: float) -> Iterator[DemoState]:
    is_redrawn = session.screen.is_terminal and not session.screen.as_json
    theirs = _connect(session, wanted)
    with _signals() as ended, _without_warnings():
        with (
            _embedded(seconds) if theirs is None else _on_cluster(theirs, ended) as scene,
            closing(_play(scene, seconds, ended)) as states,
        ):
            if not ended.is_set():
                yield from states if is_redrawn else _news(states)
        if ended.is_set():
            raise KeyboardInterrupt(f"interrupted; {scene.describe_end()}")


def _connect(session: Session, wanted: Wanted | None) -> Session | None:
    """Return the session of the user's cluster, after questions for secrets, which Ctrl-C can still answer."""
    if wanted is None:
        return None
    theirs = Session(wanted, session.screen)
    theirs.read_options()
    return theirs


def _news(states: Iterable[DemoState]) -> Iterator[DemoState]:
    """Yield the states that have another batch or note than the one before."""
    last = None
    for state in states:
        if (state.batch, state.note) != last:
            yield state
        last = state.batch, state.note


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set an event at signals that end the demo, so that it can end all that it has started."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: ended.set()) for number in numbers]
    try:
        yield ended
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep the library's warnings, of which the notes tell, out of the table, unless all log lines are wanted."""
    logger = logging.getLogger("pyspark_rocketmq")
    before = logger.level
    if not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


# --- clusters --------------------------------------------------------------------------------------------------------


@contextmanager
def _embedded(seconds: float) -> Iterator[Scene]:
    """Start two brokers in this process; one of them dies on the way and returns."""
    from broker_stub import StubCluster

    from ...cluster.cluster import open_cluster
    from ...options import parse_helper_options

    with StubCluster(2, topics={"orders": _QUEUES, "sums": _QUEUES}) as stub:
        options = {"nameServer": stub.name_server}
        settings = parse_helper_options(options, env={}).cluster
        yield Scene(
            name=f"two embedded brokers, name server {stub.name_server}",
            options=options,
            settings=settings,
            cluster=open_cluster(replace(settings, retries=0)),  # The table must not stand still.
            orders="orders",
            sums="sums",
            last_words="the embedded brokers and Spark have ended",
            next_steps=describe_steps(
                os.environ,
                ("stub --topic orders:4", "a broker to try"),
                ("demo --name-server HOST:9876", "on your own cluster"),
                ("options", "every option"),
            ),
            incidents=(
                (_DIES * seconds, lambda: stub.faults.broker_down(_MORTAL)),
                (_DIES * seconds + min(_AWAY * seconds, _MOST_AWAY_S), lambda: stub.faults.broker_up(_MORTAL)),
            ),
        )  # fmt: skip


@contextmanager
def _on_cluster(session: Session, ended: threading.Event) -> Iterator[Scene]:
    """Make topics for the demo on the user's cluster, and remove them at the end."""
    name = f"pyspark-rocketmq-demo-{secrets.token_hex(3)}"
    orders, sums = f"{name}-orders", f"{name}-sums"
    cluster, servers = session.cluster, ";".join(session.name_servers)
    with session, _removing(session, (orders, sums)) as removal:
        for topic in removal.topics:
            _make_topic(cluster, topic, ended)
        removal.limit_s = _REMOVAL_S
        yield Scene(
            name=f"the cluster of {servers}",
            options=session.raw_options,
            settings=session.options.cluster,
            cluster=cluster,
            orders=orders,
            sums=sums,
            last_words="Spark has ended, and the demo's topics are removed",
            left=removal.left,
            next_steps=describe_steps(
                os.environ,
                (f"doctor --name-server {shlex.quote(servers)}", "check it from here"),
                (f"topics list --name-server {shlex.quote(servers)}", "its topics"),
            ),
        )


@dataclass(slots=True)
class Removal:
    """The topics to remove at the end, how long each is tried, and those that stay."""

    topics: Sequence[str]
    limit_s: float = 0.0
    left: list[str] = field(default_factory=list)


@contextmanager
def _removing(session: Session, topics: Sequence[str]) -> Iterator[Removal]:
    """Remove topics at the end of the `with` block, also those that were not made everywhere; list those that stay."""
    removal = Removal(topics)
    try:
        yield removal
    finally:
        removal.left += [topic for topic in topics if not _remove_topic(session, topic, removal.limit_s)]


def _make_topic(cluster: Cluster, topic: str, ended: threading.Event) -> None:
    """Make a topic at all masters, and wait until name servers know it or the demo is interrupted."""
    from ...errors import UNKNOWN_TOPIC
    from ...net.deadline import Deadline
    from ...wire.bodies import TopicConfig

    cluster.admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES))
    deadline = Deadline.after(_ROUTE_S)
    while not ended.is_set():
        try:
            cluster.routes.route(topic)
            return
        except UNKNOWN_TOPIC:
            if deadline.expired:
                raise
            ended.wait(_TICK_S)
            cluster.routes.expire(topic)


def _remove_topic(session: Session, topic: str, limit_s: float) -> bool:
    """Remove a topic, if need be with several attempts, and return whether it is gone."""
    try:
        _insist_on_removal(session, topic, limit_s)
    except RocketMQError as error:
        session.screen.warn(f"the topic {topic} could not be removed; delete it yourself: {error}")
        return False
    return True


def _insist_on_removal(session: Session, topic: str, limit_s: float) -> None:
    """Remove a topic; repeat it for some seconds while brokers cannot be reached or are busy."""
    from ...broker_errors import TopicNotExist
    from ...net.deadline import Deadline

    deadline = Deadline.after(limit_s)
    while True:
        try:
            return session.cluster.admin.delete_topic(topic)
        except TopicNotExist:
            return None
        except RocketMQError as error:
            if not error.retriable or deadline.expired:
                raise
        time.sleep(_TICK_S)


# --- the demo --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Play:
    """The course of the demo: it starts, runs for a time with its incidents, and ends when all orders are read."""

    scene: Scene
    flow: OrderFlow
    seconds: float
    begun_s: float
    first_batch_s: float | None = None
    drained_since_s: float | None = None
    incidents: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    is_over: bool = False

    def advance(self, now_s: float, state: DemoState) -> None:
        """Let happen what is due."""
        if self.first_batch_s is None:
            self._await_first_batch(now_s, state)
            return
        while self.incidents and now_s >= self.first_batch_s + self.incidents[0][0]:
            with self.flow.between_sends:  # No order loses its answer, so none is stored twice.
                self.incidents.pop(0)[1]()
        if now_s >= self.first_batch_s + self.seconds:
            self._drain(now_s, state)

    def _await_first_batch(self, now_s: float, state: DemoState) -> None:
        if state.total.orders:
            self.first_batch_s = now_s
            self.incidents = list(self.scene.incidents)
        elif now_s > self.begun_s + _START_S:
            what = f"Spark has read nothing within {_START_S:g} s"
            raise RocketMQError(what, advice="--debug shows its log")

    def _drain(self, now_s: float, state: DemoState) -> None:
        if self.drained_since_s is None:
            self.flow.stop()
            self.drained_since_s = now_s
        elif not state.lag and not state.is_bound and state.total.orders >= state.sent:
            self.is_over = True
        elif now_s > self.drained_since_s + _DRAIN_S:
            missing = max(state.lag, state.sent - state.total.orders)
            what = f"{missing} orders were not read within {_DRAIN_S:g} s after the last one was sent"
            raise RocketMQError(what, advice="--debug shows Spark's log")

    def describe(self, away: Sequence[str]) -> str:
        """Return what happens now."""
        if self.is_over:
            return "done: every order that was sent is read"
        if away:
            return f"{', '.join(away)} has died; orders go elsewhere"
        if self.flow.trouble:
            return f"an order is sent again: {self.flow.trouble}"
        if self.first_batch_s is None:
            return "Spark is starting, orders are waiting"
        if self.drained_since_s is not None:
            return "no more orders; Spark reads the rest"
        has_returned = self.scene.incidents and not self.incidents
        return f"{_MORTAL} is back; Spark reads what it missed" if has_returned else "orders come, Spark sums them up"


def _play(scene: Scene, seconds: float, ended: threading.Event) -> Generator[DemoState, None, None]:
    """Yield the figures, time and again, until all orders are read or the demo is interrupted."""
    from ..demo.depths import Depths
    from ..demo.orders import OrderFlow
    from ..demo.process import SparkJob

    depths = Depths(scene.cluster, _queues(scene))
    sums = Sums()
    with (
        tempfile.TemporaryDirectory(prefix="pyspark-rocketmq-", ignore_cleanup_errors=True) as directory,
        OrderFlow(scene.settings, scene.orders) as flow,
        closing(SparkJob(_settings(scene, directory))) as job,
    ):
        play = Play(scene, flow, seconds, begun_s=time.monotonic())
        while not play.is_over and not ended.is_set():
            now_s = time.monotonic()
            _take_events(job, sums, now_s)
            depths.count()
            state = _state(play, sums, depths, now_s)
            play.advance(now_s, state)
            yield _state(play, sums, depths, now_s)
            ended.wait(_TICK_S)


def _queues(scene: Scene) -> list[MessageQueue]:
    queues = [queue for topic in (scene.orders, scene.sums) for queue in scene.cluster.routes.route(topic).readable]
    if not queues:
        raise NoBrokerAvailable("no queue of the demo's topics may be read", advice="check the brokers' permissions")
    return queues


def _settings(scene: Scene, directory: str) -> dict[str, Any]:
    return {"options": scene.options, "orders": scene.orders, "sums": scene.sums, "directory": directory}


def _take_events(job: SparkJob, sums: Sums, now_s: float) -> None:
    for event in job.take_events():
        sums.add(event, now_s)


def _state(play: Play, sums: Sums, depths: Depths, now_s: float) -> DemoState:
    scene, total = play.scene, sums.total()
    # A broker that is away may hold more than it told last, and Spark may have read that.
    stored = max(depths.total(scene.orders), total.orders)
    return DemoState(
        brokers=scene.name,
        batch=sums.batch,
        window=sums.window,
        shops=sums.rows(),
        total=total,
        sent=play.flow.sent,
        stored=stored,
        lag=stored - total.orders,
        is_bound=bool(depths.away),
        rate=sums.rate(now_s),
        written=depths.total(scene.sums),
        note=play.describe(depths.away),
        next_steps=scene.next_steps if play.is_over else (),
    )


COMMANDS = (
    Command(
        "demo",
        DemoState,
        _run,
        show_state,
        parameters=(
            Parameter("--seconds", "time from Spark's first batch to the last order", float, 10.0, metavar="SECONDS"),
            *CONNECTION,
        ),
        details="Orders of four shops go to a topic; Spark sums them up by windows of five seconds, and writes the "
        "sums to another topic. The table is redrawn as it grows; in a pipe, each batch is a line. Without a cluster "
        "it has two embedded brokers of its own, one of which dies on the way and returns: nothing is lost. With "
        "--name-server, --profile or -o it runs on your cluster, in topics of its own, which it removes at the end; "
        "NAMESRV_ADDR does not count here. Needs PySpark (pip install 'pyspark-rocketmq[spark]') and Java 17. Ctrl-C "
        "ends it at any time.",
        examples=("pyspark-rocketmq demo", "pyspark-rocketmq demo --seconds 60 --name-server localhost:9876"),
        connects=False,
        is_stream=True,
    ),
)
