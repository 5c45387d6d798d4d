"""Nothing that a query logs, raises or passes to Spark shows its credentials."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.errors import RocketMQError
from tests.source.driving import GROUP, TOPIC, options_for, quick_run

KEY, SECRET = "visible-to-nobody-1", "visible-to-nobody-2"
GIVEN = {"accessKey": KEY, "secretKey": SECRET, "securityToken": "visible-to-nobody-3", "consumerGroup": GROUP}


def test_a_query_shows_no_credentials(make_stub: Callable[..., StubCluster], caplog: pytest.LogCaptureFixture) -> None:
    """A member's query, with the most detailed logs, shows its credentials neither in these nor in its objects."""
    caplog.set_level(logging.DEBUG)
    stub = make_stub(topics={TOPIC: 2}, acl={KEY: SECRET})
    stub.fill(TOPIC, 6, 10)
    with quick_run(options_for(stub, **GIVEN, groupMembership="shared", startingOffsets="group")) as run:
        assert len(run.read_until(6)) == 6
        shown = f"{run.reader!r} {run.partitions()!r} {run.checkpoint!r}"
    assert caplog.text
    assert "visible-to-nobody" not in caplog.text + shown
    assert b"visible-to-nobody" not in pickle.dumps(run.checkpoint)


def test_a_refused_query_shows_no_secret(make_stub: Callable[..., StubCluster]) -> None:
    """If a broker refuses a signature, the error shows no credentials."""
    stub = make_stub(topics={TOPIC: 1}, acl={KEY: "another"})
    with pytest.raises(RocketMQError) as refused, quick_run(options_for(stub, **GIVEN)) as run:
        run.trigger()
    assert "visible-to-nobody" not in str(refused.value)
