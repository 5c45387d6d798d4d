"""Check that an idle query, which Spark asks about a hundred times a second, costs little."""

from __future__ import annotations

import json
from dataclasses import replace

from broker_stub import StubBroker
from pyspark_rocketmq.options import ReaderOptions
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from pyspark_rocketmq.source.stream import make_stream_reader
from pyspark_rocketmq.wire.bodies import TopicConfig
from tests.calls import count_calls
from tests.source.driving import TOPIC, Run, admin_of, options_for

QUEUES = 1_000
PATIENT = PlannerRhythm(bounds_s=60.0)
"""Bounds are remembered for longer than a test lasts."""


def with_lasting_routes(options: ReaderOptions) -> ReaderOptions:
    """Return the options with routes that expire after 30 seconds, as they do by default."""
    return replace(options, cluster=replace(options.cluster, route_max_age_s=30.0))


def test_an_idle_trigger_costs_the_same_for_any_number_of_queues() -> None:
    """If nothing is new, planning for a thousand queues makes fewer than 50 Python calls."""
    with StubBroker({TOPIC: QUEUES}) as stub, Run(with_lasting_routes(options_for(stub)), rhythm=PATIENT) as run:
        run.trigger()
        assert run.trigger() is None
        start, limit = run.checkpoint.last, run.reader.getDefaultReadLimit()
        run.reader.reportLatestOffset()
        assert run.reader.latestOffset(start, limit) is start
        assert count_calls(lambda: (run.reader.latestOffset(start, limit), run.reader.reportLatestOffset())) < 50


def test_an_idle_query_finds_a_new_queue_at_once() -> None:
    """If a queue is added, an idle query reads it at the next trigger, before its remembered bounds expire."""
    with StubBroker({TOPIC: 2}) as stub, Run(options_for(stub), rhythm=PATIENT) as run:
        run.trigger()
        assert run.trigger() is None
        admin_of(stub).admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=3, write_queue_nums=3))
        stub.put(TOPIC, b"a", queue_id=2)
        assert len(run.trigger() or ()) == 1


def test_an_idle_query_goes_on_from_another_offset() -> None:
    """If Spark passes another offset than before, planning starts from it and does not repeat the remembered result."""
    with StubBroker({TOPIC: 2}) as stub:
        stub.put(TOPIC, b"a", queue_id=0)
        with Run(options_for(stub), rhythm=PATIENT) as run:
            assert len(run.trigger() or ()) == 1 and run.trigger() is None
            earlier = {**run.checkpoint.last, "next": {TOPIC: {"broker-a": {"0": 0, "1": 0}}}}
            assert (
                run.reader.latestOffset(earlier, run.reader.getDefaultReadLimit())["next"]
                == run.checkpoint.last["next"]
            )


def test_a_batch_without_offsets_has_no_tasks() -> None:
    """A batch that only stores the start positions of empty queues has no tasks."""
    with StubBroker({TOPIC: 4}) as stub:
        reader = make_stream_reader(options_for(stub, minPartitions="4"), rhythm=PATIENT)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert end != start and reader.partitions(start, json.loads(json.dumps(end))) == []
        reader.stop()
