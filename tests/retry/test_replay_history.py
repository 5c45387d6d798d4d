"""Whatever kills replays, and whatever retention deletes between them, the audit file accounts for every letter."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.client import replay as room
from pyspark_rocketmq.client.audit_file import AuditFile
from pyspark_rocketmq.client.letters import LetterFilter
from pyspark_rocketmq.client.replay import ReplayReport
from tests.retry.test_replay import DEAD, TOPIC, WRITE, replay

QUEUES, RUNS = 2, 8
LetterAt = tuple[int, int]


class Killed(BaseException):
    """Raised where a process dies."""


class Story:
    """Random letters, kills and deletions."""

    def __init__(self, stub: StubCluster, audit: Path, seed: int) -> None:
        self.stub, self.audit, self.chance = stub, audit, random.Random(seed)
        self.ends, self.fronts = [0] * QUEUES, [0] * QUEUES
        self.is_deleting = False
        self.begun: set[LetterAt] = set()
        """Letters in the ranges of runs whose beginning was recorded."""

    def bury(self) -> None:
        """Add letters, some of them without an origin."""
        for _ in range(self.chance.randrange(12)):
            queue_id = self.chance.randrange(QUEUES)
            properties = {"RETRY_TOPIC": TOPIC} if self.chance.random() < 0.7 else {"colour": "red"}
            self.stub.put(DEAD, b"%d/%d" % (queue_id, self.ends[queue_id]), properties=properties, queue_id=queue_id)
            self.ends[queue_id] += 1

    def delete(self, report: ReplayReport | None = None) -> None:
        """Let retention delete the first letters of a queue; during a replay, only if it is to meet that."""
        queue_id = self.chance.randrange(QUEUES)
        front = self.chance.randrange(self.fronts[queue_id], self.ends[queue_id] + 1)
        if self.chance.random() < 0.5 and (report is None or self.is_deleting):
            self.stub.expire(DEAD, queue_id, front)
            self.fronts[queue_id] = front

    def run(self, monkeypatch: pytest.MonkeyPatch, *, is_last: bool) -> ReplayReport | None:
        """Replay, and be killed before or after one of the first writes, unless this is the last run."""
        self.is_deleting = not is_last and self.chance.random() < 0.3
        writes, dies_at, dies_before = 0, self.chance.randrange(1, 9), self.chance.random() < 0.5

        def write(file: AuditFile, entries: Iterable[Any]) -> None:
            nonlocal writes
            entries = list(entries)
            writes += bool(entries)
            is_dying = bool(entries) and writes == dies_at and not is_last
            if is_dying and dies_before:
                raise Killed
            WRITE(file, entries)
            self.begun |= {place for each in entries if each["event"] == "begin" for place in places_of(each["ranges"])}
            if is_dying:
                raise Killed

        monkeypatch.setattr(AuditFile, "write", write)
        more: dict[str, Any] = {"rate": 40} if self.chance.random() < 0.3 else {}
        if not is_last and self.chance.random() < 0.3:
            more["wanted"] = LetterFilter(queue=f"broker-a/{self.chance.randrange(QUEUES)}")
        try:
            return replay(self.stub, self.audit, told=self.delete, **more)
        except Killed:
            return None


def places_of(ranges: Iterable[Any]) -> set[LetterAt]:
    """Return the places in ranges of an audit file."""
    return {(each["queueId"], offset) for each in ranges for offset in range(each["start"], each["end"])}


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 120))])
def test_every_letter_is_accounted_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """In the end each letter has landed, failed in the last run, or is gone: one of these, and gone in one line."""
    audit = tmp_path / "audit.jsonl"
    with StubCluster(1, topics={TOPIC: 1, DEAD: QUEUES}) as stub:
        story, report = Story(stub, audit, seed), None
        monkeypatch.setattr(room, "_SLICE", story.chance.choice([4, 8, 64]))
        for number in range(RUNS):
            story.bury()
            story.delete()
            report = story.run(monkeypatch, is_last=number == RUNS - 1)
        stored = Counter(each.body.decode() for each in stub.messages(TOPIC))

    assert report is not None
    found = [json.loads(line) for line in audit.read_text().splitlines()]
    landed = {(each["queueId"], each["offset"]) for each in found if each["event"] == "landed"}
    failed = {(each.place.queue_id, each.place.offset) for each in report.failed}
    gone = Counter(place for each in found if each["event"] == "gone" for place in places_of([each]))
    for place in story.begun:
        is_deleted = place[1] < story.fronts[place[0]]
        assert (place in landed) + gone[place] + (place in failed) == 1, place
        assert not (is_deleted and place in failed) and not (gone[place] and not is_deleted), place
    assert all(stored[f"{queue_id}/{offset}"] for queue_id, offset in landed)
