"""Read the recorded conversations of real servers and clients, and the results of Java's decoding.

`golden/frames` holds whole conversations; its README says how they were recorded. `golden/records.jsonl` holds further
responses to pulls, with records that these conversations lack: topics over 127 bytes, inner batches, IPv6 hosts, and
the CRC property. Each has the messages that the Java client decoded from it.
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
    """One request or response of a recorded conversation."""

    file: str
    connection: int
    asked: str
    """Name of the request; of a response, the name of its request."""
    to_server: bool
    facts: dict[str, Any]
    frame: bytes

    @property
    def body(self) -> bytes:
        """Body of the command, which was also recorded separately from the frame."""
        return b64decode(self.facts["body_b64"] or "")


class RecordedResponse(NamedTuple):
    """The body of a response to a pull, and the messages that the Java client decoded from it."""

    name: str
    body: bytes
    messages: list[dict[str, Any]]


@cache
def recorded_commands() -> tuple[RecordedCommand, ...]:
    """Return all commands of all conversations, in the order of the files."""
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
def recorded_responses() -> tuple[RecordedResponse, ...]:
    """Return the responses that were recorded together with the Java client's decoded messages."""
    lines = (GOLDEN / "records.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(RecordedResponse(row["name"], b64decode(row["body_b64"]), row["messages"]) for row in rows)


@cache
def recorded_bodies() -> tuple[bytes, ...]:
    """Return all recorded bodies that consist of stored messages."""
    magic = MAGIC_V1.to_bytes(4, "big")
    conversations = [command.body for command in recorded_commands() if command.body[4:8] == magic]
    return (*conversations, *(response.body for response in recorded_responses()))


@cache
def recorded_batches() -> tuple[bytes, ...]:
    """Return the bodies of all batches of messages that clients sent."""
    sends = [command for command in recorded_commands() if command.asked == "SEND_BATCH_MESSAGE"]
    return tuple(command.body for command in sends if command.to_server)


def recorded_pulls(file: str) -> list[bytes]:
    """Return the bodies of the responses to pulls in the conversation of one file."""
    found = [command for command in recorded_commands() if command.file == file and not command.to_server]
    return [command.body for command in found if command.asked == "PULL_MESSAGE" and command.body]
