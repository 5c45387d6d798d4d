"""What did real servers and clients say, and what did Java read in it?

`golden/frames` holds whole conversations (its README says how they were recorded). `golden/records.jsonl` adds answers
to pulls that those lack (topics over 127 bytes, inner batches, IPv6 hosts, CRC property), each with the messages that
the Java client decoded from it.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pyspark_rocketmq.wire.record import MAGIC_V1

GOLDEN = Path(__file__).parents[1] / "golden"


class RecordedCommand(NamedTuple):
    """One command of a recorded conversation."""

    file: str
    connection: int
    asked: str
    """Name of the request that it is or answers."""
    to_server: bool
    facts: dict[str, Any]
    frame: bytes

    @property
    def body(self) -> bytes:
        """The body as recorded beside the frame."""
        return b64decode(self.facts["body_b64"] or "")


class RecordedAnswer(NamedTuple):
    """The body of one pull's answer and the messages that Java read in it."""

    name: str
    body: bytes
    messages: list[dict[str, Any]]


@cache
def recorded_commands() -> tuple[RecordedCommand, ...]:
    """Every command of every conversation, in the order of the files."""
    return tuple(_read_commands())


def _read_commands() -> Iterator[RecordedCommand]:
    folder = GOLDEN / "frames"
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            pair = json.loads(line)
            for side in ("request", "response"):
                if facts := pair[side]:
                    to_server = pair["direction"].startswith("client") == (side == "request")
                    place = str(path.relative_to(folder)), pair["conn"], pair["request"]["name"]
                    yield RecordedCommand(*place, to_server, facts, b64decode(facts["frame_b64"]))


@cache
def recorded_answers() -> tuple[RecordedAnswer, ...]:
    """The answers that come with Java's reading."""
    lines = (GOLDEN / "records.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(RecordedAnswer(row["name"], b64decode(row["body_b64"]), row["messages"]) for row in rows)


@cache
def recorded_bodies() -> tuple[bytes, ...]:
    """Every body that consists of stored messages."""
    magic = MAGIC_V1.to_bytes(4, "big")
    conversations = [command.body for command in recorded_commands() if command.body[4:8] == magic]
    return (*conversations, *(answer.body for answer in recorded_answers()))


@cache
def recorded_batches() -> tuple[bytes, ...]:
    """The body of every batch that a client sent."""
    sends = [command for command in recorded_commands() if command.asked == "SEND_BATCH_MESSAGE"]
    return tuple(command.body for command in sends if command.to_server)


def recorded_pulls(file: str) -> list[bytes]:
    """Bodies of the answers to pulls in one conversation."""
    found = [command for command in recorded_commands() if command.file == file and not command.to_server]
    return [command.body for command in found if command.asked == "PULL_MESSAGE" and command.body]
