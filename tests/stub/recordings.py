"""Read recorded conversations of clients with real servers, and derive the state that the servers had before."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import Command, decode_command
from pyspark_rocketmq.wire.record import MAGIC_V1, Record, decode_records

FRAMES = Path(__file__).parents[1] / "golden" / "frames"
SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
REPLIES = frozenset({RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2})


class Exchange(NamedTuple):
    """One recorded request and the response to it."""

    seq: int
    connection: int
    to_name_server: bool
    from_broker: bool
    """Whether the broker sent the request, and the client responded."""
    request_ms: int
    response_ms: int | None
    request: Command
    response: Command | None

    @property
    def topic(self) -> str:
        """Topic that the request names; empty if it names none."""
        fields = self.request.fields or {}
        return fields.get("topic") or fields.get("b", "")

    @property
    def queue_id(self) -> int:
        """Queue id that the request names; 0 if it names none."""
        fields = self.request.fields or {}
        return int(fields.get("queueId") or fields.get("e") or 0)

    @property
    def succeeded(self) -> bool:
        """Whether there is a response with the code SUCCESS."""
        return self.response is not None and self.response.code == ResponseCode.SUCCESS

    @property
    def is_in_system_topic(self) -> bool:
        """Whether a sent message is first stored in a system topic, so that its response names that topic's queue."""
        properties = (self.request.fields or {}).get("i", "")
        return any(mark in properties for mark in ("DELAY", "TIMER_", "TRAN_MSG"))

    @property
    def is_placed_by_broker(self) -> bool:
        """Whether the broker chooses the queue of a sent message."""
        return self.is_in_system_topic or self.queue_id < 0

    def response_field(self, name: str) -> str | None:
        """Return the value of a header field of the response; None if it is missing."""
        return (self.response.fields or {}).get(name) if self.response else None


def scenarios(folder: str = "") -> list[str]:
    """Return the names of the recorded conversations in a folder, without the one about authentication."""
    names = sorted(path.stem for path in (FRAMES / folder).glob("*.jsonl"))
    return [name for name in names if name != "auth_failed"]


@cache
def read_scenario(name: str, folder: str = "") -> tuple[Exchange, ...]:
    """Return the exchanges of one conversation, in the order of their requests."""
    lines = (FRAMES / folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(_exchange(json.loads(client)) for client in lines)


def _exchange(row: dict[str, Any]) -> Exchange:
    response_ms = None if row["elapsed_ms"] is None else row["t_ms"] + row["elapsed_ms"]
    return Exchange(
        row["seq"],
        row["conn"],
        row["peer"] == "namesrv" if "peer" in row else "namesrv" in row["direction"],
        row["direction"].startswith("broker"),
        row["t_ms"],
        response_ms,
        _command(row["request"]),
        _command(row["response"]) if row["response"] else None,
    )


def _command(row: dict[str, Any]) -> Command:
    return decode_command(memoryview(b64decode(row["frame_b64"])))


def records_in(body: bytes | memoryview) -> list[Record]:
    """Return the messages that a body contains; none if the body contains something else."""
    return decode_records(body) if bytes(body[4:8]) == MAGIC_V1.to_bytes(4, "big") else []


def start_ms(exchanges: tuple[Exchange, ...]) -> int:
    """Return the time at which a conversation starts, by the clock of its producers.

    If nothing was sent, derive the time from the store times in responses.
    """
    for exchange in exchanges:
        fields = exchange.request.fields or {}
        if born := fields.get("g") or fields.get("bornTimestamp"):
            return int(born) - exchange.request_ms
    times = [record.store_timestamp for exchange in exchanges for record in response_records(exchange)]
    times += [int(exchange.response_field("timestamp") or 0) for exchange in exchanges]
    return max(times, default=0) + 11


def response_records(exchange: Exchange) -> list[Record]:
    """Return the messages in the response of an exchange."""
    return records_in(exchange.response.body) if exchange.response else []


@cache
def routes(folder: str = "") -> dict[str, tuple[int, int, int]]:
    """Return (read queues, write queues, permission) by topic, from all routes in the folder's conversations."""
    found = {}
    for name in scenarios(folder):
        for exchange in read_scenario(name, folder):
            if exchange.request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and exchange.succeeded and exchange.response:
                queue = fastjson.parse(exchange.response.body)["queueDatas"][0]
                found[exchange.topic] = (queue["readQueueNums"], queue["writeQueueNums"], queue["perm"])
    return found


def absent_topics(exchanges: tuple[Exchange, ...]) -> set[str]:
    """Return the topics that do not exist at the start of the conversation."""
    seen: set[str] = set()
    absent = {"GoldNoSuch", "GoldMissing"}
    for exchange in exchanges:
        if exchange.topic and exchange.topic not in seen and _tells_presence(exchange):
            seen.add(exchange.topic)
            is_made_here = exchange.request.code == RequestCode.UPDATE_AND_CREATE_TOPIC
            if is_made_here or (exchange.response and exchange.response.code == ResponseCode.TOPIC_NOT_EXIST):
                absent.add(exchange.topic)
    return absent


def _tells_presence(exchange: Exchange) -> bool:
    codes = {RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.GET_TOPIC_CONFIG}
    return exchange.request.code in {*codes, *SENDS, *PULLS, RequestCode.GET_TOPIC_STATS_INFO}


def mentioned_topics(exchanges: tuple[Exchange, ...]) -> set[str]:
    """Return the topics that requests of the conversation name."""
    heard = {
        topic
        for exchange in exchanges
        if exchange.request.code in (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ)
        for topic in re.findall(r'"topic":"([^"]+)"', bytes(exchange.request.body).decode())
    }
    return heard | {exchange.topic for exchange in exchanges} - {""}


def by_time(exchanges: tuple[Exchange, ...]) -> Iterator[tuple[bool, Exchange]]:
    """Yield each request (False, exchange) and each response (True, exchange) in the order of their times.

    Within one millisecond a client's response comes first, because a response of the broker may depend on it.
    """
    events = [(exchange.request_ms, exchange.seq, False, exchange) for exchange in exchanges]
    for exchange in exchanges:
        if exchange.response_ms is not None and exchange.response:
            turn = -1 if exchange.from_broker else exchange.seq
            events.append((exchange.response_ms, turn, True, exchange))
    for _, _, is_response, exchange in sorted(events, key=lambda event: event[:3]):
        yield is_response, exchange
