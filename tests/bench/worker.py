"""Run tasks of the benchmarks with our client, in a process of its own: `python -m tests.bench.worker NAME_SERVER`.

It reads one JSON object per line and answers with one; see `tests.bench.worker_processes`. Workers of older commits
take part in comparisons (`tests.bench.versus`), so names and parameters of tasks must not change.
"""

from __future__ import annotations

import cProfile
import gc
import json
import pstats
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from broker_stub import StubBroker
from pyspark_rocketmq.client.consumer import PushConsumer
from pyspark_rocketmq.client.message import ReceivedMessage
from pyspark_rocketmq.client.results import SUCCESS, Consumed
from pyspark_rocketmq.client.settings import ConsumeFrom, ConsumerSettings
from pyspark_rocketmq.cluster.cluster import Cluster, open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.decode.columns import Content, Layout, default_columns
from pyspark_rocketmq.decode.decoder import BatchSize, ColumnDecoder, Gathered
from pyspark_rocketmq.decode.spans import Integers, cut_windows
from pyspark_rocketmq.encode.ids import BatchIdentity
from pyspark_rocketmq.encode.requests import Encoder, EncodeSettings
from pyspark_rocketmq.model import Block, MessageQueue, QueueRange, parse_addresses
from pyspark_rocketmq.net.pool import pool_for
from pyspark_rocketmq.pull.loop import read_ranges
from pyspark_rocketmq.pull.settings import PullSettings, Subscription
from pyspark_rocketmq.send.outcome import Outcome
from pyspark_rocketmq.send.pipeline import SendPipeline
from pyspark_rocketmq.send.settings import SendSettings
from pyspark_rocketmq.source.losses import LossJournal
from pyspark_rocketmq.wire.scan import record_starts
from tests.bench.bench_settings import DEPTH
from tests.bench.raw_sends import send_raw
from tests.bench.raw_sockets import PULL_COUNT, drain_raw
from tests.bench.rows_to_write import record_batches
from tests.bench.timed_count import TimedCount

Answer = dict[str, Any]
DEFAULT = default_columns(Layout.ROCKETMQ)
WITHOUT_MAP = tuple(name for name in DEFAULT if name != "properties")
COLUMNS = {"default": DEFAULT, "no map": WITHOUT_MAP}
_BODY_AT = 88
"""The position of the body in a record whose host addresses are IPv4."""
_StoredAnswer = tuple[memoryview, tuple[MessageQueue, int, int, bool], tuple[int, int, int, int]]
"""A response read from a file: its records, the range that was wanted from it, and the offsets that it covers."""
_stubs: list[StubBroker] = []


def main() -> None:
    """Answer tasks from stdin until it ends."""
    name_server = sys.argv[1]
    gc.freeze()
    for line in sys.stdin:
        parameters = json.loads(line)
        try:
            answer = TASKS[parameters.pop("task")](name_server, **parameters)
        except Exception as problem:
            traceback.print_exc()
            answer = {"error": repr(problem)}
        print(json.dumps(answer), flush=True)


# --- draining ------------------------------------------------------------------------------------------------------


def raw_sockets(name_server: str, topic: str, count: int, depth: int, size: int, each: int = PULL_COUNT) -> Answer:
    """Read a topic with raw sockets, without decoding; `each` must be the number of messages per response."""
    cluster, queues = _cluster(name_server), _queues(name_server, topic)
    route = cluster.routes.route(topic)
    address = route.broker(queues[0].broker_name).master()
    drained = drain_raw(address, queues, count // len(queues), depth, each)
    assert drained.byte_count >= count * size, f"{drained.byte_count} bytes are too few for {count} messages"
    return _answer(drained.messages, drained.seconds)


def engine(name_server: str, topic: str, count: int, depth: int, tags: str = "*") -> Answer:
    """Read a topic with our pull engine, without decoding; with `tags` the engine confirms each response by a probe."""
    began = time.perf_counter()
    messages = sum(block.message_count for block in _read(name_server, topic, count, depth, tags))
    return _answer(messages, time.perf_counter() - began)


def arrow(name_server: str, topic: str, count: int, columns: str, depth: int | None) -> Answer:
    """Read a topic with our pull engine and decode it into record batches of these columns."""
    decoder = ColumnDecoder(COLUMNS[columns])
    began = time.perf_counter()
    messages = sum(each.batch.num_rows for each in decoder.decode_all(_read(name_server, topic, count, depth)))
    return _answer(messages, time.perf_counter() - began)


def push(name_server: str, topic: str, count: int, batch: int) -> Answer:
    """Consume a topic with our push consumer and a listener that does nothing."""
    counter = TimedCount(count)

    def listen(messages: Sequence[ReceivedMessage]) -> Consumed:
        counter.add(len(messages))
        return SUCCESS

    settings = ConsumerSettings(
        group=f"bench_{uuid4().hex}",
        subscriptions={topic: Subscription()},
        consume_from=ConsumeFrom.FIRST_OFFSET,
        batch_size=batch,
    )
    with PushConsumer.concurrent(_settings(name_server), settings, listen):
        counter.wait()
    return _answer(counter.messages, counter.seconds)


# --- sending -------------------------------------------------------------------------------------------------------


def raw_sends(name_server: str, topic: str, count: int, size: int, batch: int) -> Answer:
    """Send rows with a raw socket in frames that were prepared before, up to `batch` rows in each."""
    queues = _queues(name_server, topic)
    address = _cluster(name_server).routes.route(topic).broker(queues[0].broker_name).master()
    sent = send_raw(address, queues, count, size, batch)
    return _answer(sent.rows, sent.seconds)


def sends(name_server: str, topic: str, count: int, size: int, batch: int) -> Answer:
    """Encode rows into requests of up to `batch` rows, and send them."""
    cluster, rows = _cluster(name_server), list(record_batches(size, count))
    queues = cluster.routes.route(topic).writable
    settings, identity = EncodeSettings(topic=topic, batch_rows=batch), BatchIdentity(uuid4().hex, "bench", 0)
    encoder = Encoder(settings, identity, 0, lambda _: queues)
    pipeline = SendPipeline(cluster, SendSettings(producer_group="bench_sends"), lambda _: queues)
    began = time.perf_counter()
    for each in rows:
        for request in encoder.encode(each).requests:
            pipeline.submit(request)
        _check_stored(pipeline.take_outcomes())
    pipeline.flush()
    seconds = time.perf_counter() - began
    _check_stored(pipeline.take_outcomes())
    pipeline.close()
    return _answer(pipeline.statistics.rows, seconds)


def _check_stored(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.error:
            raise outcome.error


# --- decoding ------------------------------------------------------------------------------------------------------


def dump(name_server: str, topic: str, count: int, file: str) -> Answer:
    """Write pull responses to a file, each after its length; write their ranges and coverage to a second file."""
    began, messages = time.perf_counter(), 0
    with Path(file).open("wb") as out, _coverage_file(file).open("w") as coverage:
        for block in _read(name_server, topic, count, DEPTH):
            out.write(len(block.data).to_bytes(4, "big") + block.data)
            coverage.write(json.dumps(block[1:]) + "\n")
            messages += block.message_count
    return _answer(messages, time.perf_counter() - began)


def decode(_name_server: str, file: str, count: int, columns: str) -> Answer:
    """Decode the responses of a file, again and again, until `count` messages are decoded."""
    content = Content(system_properties=columns == "all properties")
    decoder = ColumnDecoder(COLUMNS.get(columns, DEFAULT), content)
    answers, messages = _load(file), 0
    began = time.perf_counter()
    while messages < count:
        messages += sum(each.batch.num_rows for each in decoder.decode_all(starmap(_as_block, answers)))
    return _answer(messages, time.perf_counter() - began)


def copy(_name_server: str, file: str, count: int, size: int) -> Answer:
    """Copy the responses of a file and their bodies until `count` messages are copied: the least work of a decoder."""
    batches, gathered, messages = _bodies(file), Gathered(), 0
    began = time.perf_counter()
    while messages < count:
        for blocks, starts in batches:
            for block in blocks:
                gathered.put(block)
            messages += len(cut_windows(gathered.data, starts, size, pa.binary()))
            gathered.clear()
    return _answer(messages, time.perf_counter() - began)


@cache
def _bodies(file: str) -> list[tuple[list[Block], Integers]]:
    """Return for each record batch its blocks, and the positions of the bodies in their joined data."""
    blocks, size = list(starmap(_as_block, _load(file))), BatchSize()
    step = min(size.messages // PULL_COUNT, size.byte_count // len(blocks[0].data))
    return [(part, _body_starts(part)) for at in range(0, len(blocks), step) if (part := blocks[at : at + step])]


def _body_starts(blocks: Sequence[Block]) -> Integers:
    starts = [start + _BODY_AT for start in record_starts(b"".join(block.data for block in blocks))]
    return np.array(starts, np.int64)


@cache
def _load(file: str) -> list[_StoredAnswer]:
    data, at, answers = Path(file).read_bytes(), 0, list[_StoredAnswer]()
    for line in _coverage_file(file).read_text().splitlines():
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        (queue, *wanted), *claim = json.loads(line)
        answers.append((memoryview(data[at + 4 : end]), (_queue(*queue), *wanted), tuple(claim)))
        at = end
    return answers


def _coverage_file(file: str) -> Path:
    return Path(f"{file}.coverage")


@cache
def _queue(topic: str, broker_name: str, queue_id: int) -> MessageQueue:
    """Return the same object for every response of a queue, as a Spark task has it."""
    return MessageQueue(topic, broker_name, queue_id)


def _as_block(data: memoryview, wanted: tuple[MessageQueue, int, int, bool], claim: tuple[int, int, int, int]) -> Block:
    """Return the block of one response; a task makes one for each response, so this is timed, too."""
    return Block(data, QueueRange(*wanted), *claim)


def profile(name_server: str, of: str, parts: dict[str, list[str]], **parameters: Any) -> Answer:
    """Run the task `of` under a profiler; return its answer and for each part the share of time in its functions."""
    profiler = cProfile.Profile()
    answer = profiler.runcall(TASKS[of], name_server, **parameters)
    spent: Counter[str] = Counter()
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for (file, _, function), (_, _, _, cumulative, _) in stats.items():
        spent[f"{Path(file).name}:{function}"] += cumulative
    shares = {part: sum(spent[name] for name in names) / answer["seconds"] for part, names in parts.items()}
    return {**answer, "shares": shares}


# --- the stub ------------------------------------------------------------------------------------------------------


def stub(_name_server: str, topics: dict[str, int]) -> Answer:
    """Close the previous stub of this process and start one with these topics; return its address and the seconds."""
    while _stubs:
        _stubs.pop().close()
    began = time.perf_counter()
    _stubs.append(StubBroker(topics=topics))
    return {"name_server": _stubs[0].name_server, "seconds": time.perf_counter() - began}


def stub_fill(_name_server: str, topics: list[str], count: int, size: int) -> Answer:
    """Put `count` messages of `size` bytes into each of these topics of the stub."""
    began = time.perf_counter()
    for topic in topics:
        _stubs[0].fill(topic, count, size)
    return _answer(count * len(topics), time.perf_counter() - began)


# --- common --------------------------------------------------------------------------------------------------------


def _read(name_server: str, topic: str, count: int, depth: int | None, tags: str = "*") -> Iterator[Block]:
    queues = _queues(name_server, topic)
    ranges = [QueueRange(queue, 0, count // len(queues)) for queue in queues]
    settings = PullSettings(subscription=Subscription(tags), depth=depth).for_queues(len(queues))
    return read_ranges(
        ranges, _cluster(name_server).brokers, pool_for(_settings(name_server).net), LossJournal(True), settings
    )


@cache
def _settings(name_server: str) -> ClusterSettings:
    return ClusterSettings(parse_addresses(name_server))


@cache
def _cluster(name_server: str) -> Cluster:
    return open_cluster(_settings(name_server))


@cache
def _queues(name_server: str, topic: str) -> list[MessageQueue]:
    return list(_cluster(name_server).routes.route(topic).readable)


def _answer(messages: int, seconds: float) -> Answer:
    return {"messages": messages, "seconds": seconds}


TASKS: dict[str, Callable[..., Answer]] = {
    task.__name__: task
    for task in (raw_sockets, engine, arrow, push, raw_sends, sends, dump, decode, copy, profile, stub, stub_fill)
}

if __name__ == "__main__":
    main()
