"""Test what a query asks of brokers' locks, and how it explains missing ones, with a scripted cluster."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Any, cast

import pytest

from pyspark_rocketmq.cluster.groups import Locked
from pyspark_rocketmq.errors import ConnectError, LockRefused, RequestTimeout
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.net.deadline import Deadline
from pyspark_rocketmq.options.reader_options import LockSettings
from pyspark_rocketmq.source.queue_locks import LockKeeper
from pyspark_rocketmq.source.rhythm import PlannerRhythm
from tests.source.driving import GROUP, queue_of

FIRST, SECOND = queue_of(0), queue_of(1)
ELSEWHERE = queue_of(0, "broker-b")


class Groups:
    """Stands for a cluster: grants locks, but not those of refused queues, nor those of brokers that are silent."""

    def __init__(self) -> None:
        self.refused: set[MessageQueue] = set()
        self.silent: dict[str, ConnectError | RequestTimeout] = {}
        self.groups = self
        self.requests: list[tuple[str, list[MessageQueue]]] = []
        self.timeout_s = 0.0

    def lock(self, group: str, client_id: str, queues: Collection[MessageQueue], deadline: Deadline) -> Locked:
        """Grant the locks of queues that are not refused, at brokers that answer."""
        self.requests.append(("lock", sorted(queues)))
        answered = {queue for queue in queues if queue.broker_name not in self.silent}
        return Locked(frozenset(answered - self.refused), frozenset(answered & self.refused), dict(self.silent))

    def unlock_oneway(self, group: str, client_id: str, queues: Collection[MessageQueue], deadline: Deadline) -> None:
        """Note the release of locks."""
        self.requests.append(("release", sorted(queues)))

    def unlock(self, group: str, client_id: str, queues: Collection[MessageQueue], deadline: Deadline) -> None:
        """Note the release of all locks, and how long it may take."""
        self.requests.append(("release", sorted(queues)))
        self.timeout_s = deadline.seconds

    def close(self) -> None:
        """Note the end."""
        self.requests.append(("close", []))


@pytest.fixture
def groups() -> Groups:
    """Return a cluster that grants every lock."""
    return Groups()


@pytest.fixture
def keeper(groups: Groups) -> Iterator[LockKeeper]:
    """Return the locks of a query that asks for missing ones at once, and again after an hour."""
    rhythm = PlannerRhythm(lock_retry_s=3600.0, lock_timeout_s=0.0)
    keeper = LockKeeper(cast(Any, groups), GROUP, "me", LockSettings(3600.0, 3600.0), rhythm)
    yield keeper
    keeper.close()


def test_only_queues_that_are_read_are_locked(groups: Groups, keeper: LockKeeper) -> None:
    """New queues are asked for together with held ones, and queues that are read no more are released."""
    assert keeper.hold([FIRST]) == {FIRST}
    assert keeper.hold([FIRST, SECOND]) == {FIRST, SECOND}
    assert keeper.hold([SECOND]) == {SECOND}
    assert groups.requests == [("lock", [FIRST]), ("lock", [FIRST, SECOND]), ("release", [FIRST])]


def test_missing_locks_are_asked_for_at_intervals(groups: Groups, keeper: LockKeeper) -> None:
    """A lock that was refused is asked for again only when it is time, and was never held, so it is not released."""
    groups.refused = {SECOND}
    assert [keeper.hold([FIRST, SECOND]) for _ in range(2)] == [{FIRST}, {FIRST}]
    assert keeper.hold([FIRST]) == {FIRST}
    assert groups.requests == [("lock", [FIRST, SECOND])]


def test_at_the_end_all_locks_are_released(groups: Groups) -> None:
    """Releasing all locks may take three seconds; then the connections are closed."""
    keeper = LockKeeper(cast(Any, groups), GROUP, "me", LockSettings(), PlannerRhythm())
    keeper.hold([FIRST, SECOND])
    keeper.close()
    assert groups.requests[1:] == [("release", [FIRST, SECOND]), ("close", [])]
    assert groups.timeout_s == 3.0


@pytest.mark.parametrize(
    ("refused", "silent", "cause", "advice"),
    [
        ({FIRST, ELSEWHERE}, {}, "for their locks, which others of group spark-orders hold (", "end the other query"),
        (
            set(),
            {"broker-a": RequestTimeout("late"), "broker-b": ConnectError("away")},
            "which brokers neither gave nor refused (CONNECT, REQUEST_TIMEOUT)",
            "look at the warnings before this",
        ),
        (
            {FIRST},
            {"broker-b": ConnectError("away")},
            "1 of which others of group spark-orders hold, the rest of which brokers neither gave nor refused (CONNECT",
            "end the other query",
        ),
    ],
    ids=["refused", "silent", "both"],
)
def test_an_error_tells_why_locks_are_missing(
    groups: Groups,
    keeper: LockKeeper,
    caplog: pytest.LogCaptureFixture,
    refused: set[MessageQueue],
    silent: dict[str, ConnectError | RequestTimeout],
    cause: str,
    advice: str,
) -> None:
    """The error and one warning say whether others hold the locks, or brokers did not answer, or how many of each."""
    groups.refused, groups.silent = refused, silent
    with caplog.at_level(logging.WARNING, "pyspark_rocketmq.source.queue_locks"):
        for _ in range(2):
            assert keeper.hold([FIRST, ELSEWHERE]) == set()
    assert sum("2 queues wait for their locks" in record.message for record in caplog.records) == 1
    with pytest.raises(LockRefused) as told:
        keeper.require([FIRST, ELSEWHERE])
    assert cause in str(told.value) and advice in str(told.value)
