"""Count the modules that one message passes on four journeys through the library, over the embedded stub.

    python tools/count_journeys.py [--check] [read] [trigger] [push] [option]

read     from the socket to an Arrow record batch, in a task whose connection is open
trigger  one trigger with one new message: ends, plan, and the commit of the batch before
push     from a pull response to the committed offset of a concurrent consumer, in all threads
option   from the text of an option to the settings that it fills

Each journey is traced in steady state, after a first run. A module counts if one of its functions is called. Only
`read` counts bytes and connections; the other journeys leave out the rooms in `LEFT_OUT`. With `--check` the exit
status is 1 if a journey is longer than its limit.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker_stub import StubBroker  # noqa: E402  # the script runs from a plain checkout
from pyspark_rocketmq.client import SUCCESS, ConsumerSettings, PushConsumer  # noqa: E402
from pyspark_rocketmq.model import MessageQueue, QueueRange  # noqa: E402
from pyspark_rocketmq.options import parse_reader_options  # noqa: E402
from pyspark_rocketmq.options.reader_options import ReaderOptions  # noqa: E402
from pyspark_rocketmq.source.partition import RangePartition, read_partition  # noqa: E402
from pyspark_rocketmq.source.rhythm import PlannerRhythm  # noqa: E402
from pyspark_rocketmq.source.stream import make_stream_reader  # noqa: E402

PACKAGE = f"{ROOT}/pyspark_rocketmq/"
LIMITS = {"read": 19, "trigger": 15, "push": 12, "option": 10}
"""The largest number of modules of each journey. `read` has more, because its modules are divided by what they know:
bytes, frames, pulls, offsets, or columns."""
LEFT_OUT = {"trigger": ("net/", "wire/", "cluster/"), "push": ("net/", "wire/")}
"""Rooms that are not counted in a journey, because `read` counts bytes and connections already."""
PUSHED = 20
"""The number of messages in the journey `push`; heartbeats meanwhile call no module that often."""
WAIT_S = 20.0
TOPIC = "orders"

Modules = Counter[str]
"""{module: number of calls of its functions}."""


class Tracer:
    """Counts calls of the library's functions while it is switched on, in threads that have it as profile function."""

    def __init__(self) -> None:
        self.seen: Modules = Counter()
        self._is_on = False
        self._waits_for_bytes = False

    @contextmanager
    def on(self, *, from_socket: bool = False) -> Iterator[Modules]:
        """Count calls during the `with` block; with `from_socket` only after the first bytes were received."""
        self._is_on, self._waits_for_bytes = True, from_socket
        try:
            yield self.seen
        finally:
            self._is_on = False

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Count a call; Python calls this method for each call and return in a profiled thread."""
        if not self._is_on:
            return
        if event == "c_return" and getattr(arg, "__name__", "") == "recv_into":
            self._waits_for_bytes = False
        if event == "call" and not self._waits_for_bytes and frame.f_code.co_name != "<module>":
            name = frame.f_code.co_filename
            if name.startswith(PACKAGE):
                self.seen[name.removeprefix(PACKAGE).removesuffix(".py")] += 1


@contextmanager
def traced(*, from_socket: bool = False) -> Iterator[Modules]:
    """Count the calls of the current thread during the `with` block; yield the counts."""
    tracer = Tracer()
    sys.setprofile(tracer.profile)
    try:
        with tracer.on(from_socket=from_socket) as seen:
            yield seen
    finally:
        sys.setprofile(None)


def count_read(stub: StubBroker) -> Modules:
    """Return the calls for reading one message in a task, over a connection that an earlier task opened."""
    for _ in range(3):
        stub.put(TOPIC, b"x" * 100, queue_id=0)
    options = _reader_options(stub, pullBatchSize="1", arrowBatchSize="1")
    task = RangePartition((QueueRange(MessageQueue(TOPIC, "broker-a", 0), 0, 3),))
    list(read_partition(task, options))
    with traced(from_socket=True) as seen:
        batches = read_partition(task, options)
        batch = next(batches)
    assert batch.num_rows == 1 and len(list(batches)) == 2
    return seen


def count_trigger(stub: StubBroker) -> Modules:
    """Return the calls for planning a batch of one new message and committing the batch before it."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable  # PySpark before 4.2 has none

    # Bounds are not cached here, so the traced call fetches them.
    rhythm = PlannerRhythm(bounds_s=0.0)
    reader = make_stream_reader(_reader_options(stub, consumerGroup="journeys"), rhythm=rhythm)
    start = reader.initialOffset()
    for _ in range(3):
        end = reader.latestOffset(start, ReadAllAvailable())
        reader.partitions(start, end)
        start = end
        stub.put(TOPIC, b"new", queue_id=0)
    with traced() as seen:
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end != start
        reader.partitions(start, end)
        reader.commit(start)
    reader.stop()
    return seen


def count_push(stub: StubBroker) -> Modules:
    """Return the calls for consuming 20 messages, in all threads of a consumer.

    Modules with fewer calls than messages are left out: only timers call them. The listener has one thread, so all
    messages but the last are acknowledged when it gets the last.
    """
    called = threading.Semaphore(0)

    def listen(_messages: object, *_context: object) -> Any:
        called.release()
        return SUCCESS

    settings = ConsumerSettings(group="journeys", subscriptions=TOPIC, thread_count=1)
    tracer = Tracer()
    threading.setprofile(tracer.profile)
    try:
        with PushConsumer.concurrent(stub.name_server, settings, listen):
            _put_and_wait(stub, called)
            with tracer.on(from_socket=True) as seen:
                for _ in range(PUSHED):
                    _put_and_wait(stub, called)
    finally:
        threading.setprofile(None)
    return Counter({module: calls for module, calls in seen.items() if calls >= PUSHED - 1})


def count_option(_stub: StubBroker) -> Modules:
    """Return the calls for parsing one option beside the two that every reader needs."""
    given = {"nameServer": "localhost:9876", "subscribe": TOPIC, "maxOffsetsPerTrigger": "10"}
    parse_reader_options(given, stream=True)
    with traced() as seen:
        parse_reader_options(given, stream=True)
    return seen


JOURNEYS: dict[str, Callable[[StubBroker], Modules]] = {
    "read": count_read,
    "trigger": count_trigger,
    "push": count_push,
    "option": count_option,
}


def count_modules(name: str) -> Modules:
    """Return the calls of one journey over a new stub, without the rooms that the journey leaves out."""
    with StubBroker({TOPIC: 1}) as stub:
        passed = JOURNEYS[name](stub)
    modules: Modules = Counter()
    for module, calls in passed.items():
        if not module.startswith(LEFT_OUT.get(name, ())):
            # All tables of options count as one module, because an option is in one table only.
            modules["options/table" if module.startswith("options/table/") else module] += calls
    return modules


def _reader_options(stub: StubBroker, **given: str) -> ReaderOptions:
    base = {"nameServer": stub.name_server, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return parse_reader_options({**base, **given}, stream=True)


def _put_and_wait(stub: StubBroker, called: threading.Semaphore) -> None:
    stub.put(TOPIC, b"new", queue_id=0)
    assert called.acquire(timeout=WAIT_S)


def main(arguments: Sequence[str]) -> int:
    """Count the chosen journeys, or all, and print them; return 1 if `--check` is given and one is too long."""
    chosen = [name for name in LIMITS if name in arguments] or list(LIMITS)
    too_long = 0
    for name in chosen:
        modules = count_modules(name)
        print(f"{name}: {len(modules)} modules (at most {LIMITS[name]})")
        print("    " + ", ".join(f"{module} {calls}" for module, calls in sorted(modules.items())))
        too_long += len(modules) > LIMITS[name]
    return int(too_long > 0 and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
