"""Check that SQL filters that brokers would not apply are refused before anything is read."""

from __future__ import annotations

import pytest

from broker_stub import Settings, StubBroker
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.source.batch import BatchReader
from pyspark_rocketmq.wire.bodies import TopicConfig

from .driving import TOPIC, Run, batch_options_for, options_for


@pytest.mark.parametrize(
    ("condition", "filters", "told"),
    [("weight >", True, "correct the condition"), ("weight > 1", False, "enablePropertyFilter=true")],
)
def test_a_condition_that_does_not_work_is_refused(condition: str, filters: bool, told: str) -> None:
    """If `sqlFilter` has an error, or the broker does not evaluate filters, planning fails with the right advice."""
    with StubBroker({TOPIC: 1}, settings=Settings(property_filter=filters)) as stub:
        with (
            Run(options_for(stub, sqlFilter=condition)) as run,
            pytest.raises(OptionError, match=rf"sqlFilter.*{told}"),
        ):
            run.plan()
        with pytest.raises(OptionError, match=rf"sqlFilter.*{told}"):
            BatchReader(batch_options_for(stub, sqlFilter=condition)).partitions()


def test_a_condition_on_a_compacted_topic_is_refused() -> None:
    """If a topic is compacted, `sqlFilter` is refused, since brokers do not filter it; a tag filter is allowed."""
    with StubBroker({TOPIC: 1}) as stub:
        compacted = TopicConfig(topic_name=TOPIC, attributes={"cleanup.policy": "COMPACTION"})
        open_cluster(options_for(stub).cluster).admin.create_topic(compacted)

        with pytest.raises(OptionError, match=rf"sqlFilter.*{TOPIC}.*compacted.*filter the rows"):
            BatchReader(batch_options_for(stub, sqlFilter="weight > 1")).partitions()
        with Run(options_for(stub, sqlFilter="weight > 1")) as run, pytest.raises(OptionError, match="compacted"):
            run.plan()
        BatchReader(batch_options_for(stub, tags="red")).partitions()


def test_a_condition_that_works_filters() -> None:
    """With `sqlFilter` only messages whose properties meet the condition become rows."""
    with StubBroker({TOPIC: 1}) as stub:
        for weight in ("1", "5"):
            stub.put(TOPIC, weight.encode(), properties={"weight": weight})
        with Run(options_for(stub, sqlFilter="weight > 2")) as run:
            assert [row.body for row in run.drain()] == [b"5"]
