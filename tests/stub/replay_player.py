"""Replay a recorded conversation against the stub and compare the responses.

Requests and responses pass in the recorded order, on as many connections as recorded, while the stub's clock follows
the recorded times. Ids and log addresses differ from the recorded ones: if a later request contains one, it is replaced
by the one that the stub returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any

from broker_stub import StubBroker
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.wire import fastjson
from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.header import Command
from pyspark_rocketmq.wire.record import Record

from .recordings import Exchange, by_time, records_in
from .remoting_client import RemotingClient

# Fields whose values differ from run to run, by the kind of number that they contain; later requests repeat it.
_PLACES = {"msgId": "id", "offsetMsgId": "id", "queueOffset": "state", "tranStateTableOffset": "state"}
_PLACES |= {"commitLogOffset": "physical", "offset": "physical"}
_FREE_VALUES = frozenset(
    "msgId offsetMsgId commitLogOffset tranStateTableOffset timestamp indexLastUpdateTimestamp "
    "indexLastUpdatePhyoffset storeTimestamp bornHost storeHost properties recallHandle".split()
)
_ID_DIGITS, _HOST_DIGITS = 32, 16
_IGNORED = "ReqT"
"""Header field that the recorded client adds and brokers ignore."""
_KEYED_BY_NAMES = frozenset(
    "brokerAddrTable clusterAddrTable offsetTable subscriptionGroupTable subscriptionTable table".split()
)
_PHYSICAL_REQUESTS = frozenset({33, 36})


class ReplayClient(RemotingClient):
    """One connection of the replay to the stub."""

    def send_recorded(self, request: Command) -> int:
        """Send a recorded request, wait until the stub has received it, and return its opaque."""
        opaque = self.send(request)
        self.response_to(self.send(Command(RequestCode.GET_BROKER_CLUSTER_INFO)))
        return opaque


class Player:
    """Replays one conversation against a stub; `differences` describes each deviating response, by exchange number."""

    def __init__(self, stub: StubBroker, exchanges: tuple[Exchange, ...]) -> None:
        self._stub = stub
        self._exchanges = exchanges
        self._clients: dict[int, ReplayClient] = {}
        self._opaques: dict[int, int] = {}
        self._requests: dict[int, Command] = {}
        self._places: dict[tuple[str, str], str] = {}
        self._now_ms = 0
        self.differences: dict[int, str] = {}

    def play(self) -> dict[int, str]:
        """Replay the whole conversation, and return the differences by exchange number."""
        try:
            for is_response, exchange in by_time(self._exchanges):
                self._pass_time(exchange.response_ms or 0 if is_response else exchange.request_ms)
                step = self._play_response if is_response else self._play_request
                self._play_step(exchange, step)
        finally:
            for client in self._clients.values():
                client.close()
        return self.differences

    def _pass_time(self, to_ms: int) -> None:
        if to_ms > self._now_ms:
            self._stub.clock.advance(to_ms - self._now_ms)
            self._now_ms = to_ms

    def _play_step(self, exchange: Exchange, step: Any) -> None:
        try:
            found = "; ".join(step(exchange))
        except (AssertionError, OSError, RocketMQError) as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            self.differences.setdefault(exchange.seq, found)

    def _play_request(self, exchange: Exchange) -> Iterator[str]:
        client = self._client_for(exchange)
        if exchange.from_broker:
            request = self._requests[exchange.seq] = client.next_request()
            yield from self._compare(exchange.request, request)
        else:
            request = replace(exchange.request, fields=self._translate(exchange.request))
            self._opaques[exchange.seq] = client.send_recorded(request)

    def _play_response(self, exchange: Exchange) -> Iterator[str]:
        assert exchange.response
        client = self._client_for(exchange)
        if exchange.from_broker:
            if exchange.seq in self._requests:
                client.reply(self._requests[exchange.seq], exchange.response)
        elif exchange.seq in self._opaques:
            free = {"queueId", "queueOffset"} if exchange.is_placed_by_broker else set()
            yield from self._compare(exchange.response, client.response_to(self._opaques[exchange.seq]), free)

    def _client_for(self, exchange: Exchange) -> ReplayClient:
        if exchange.connection not in self._clients:
            server = self._stub.name_server if exchange.to_name_server else self._stub.broker_address()
            self._clients[exchange.connection] = ReplayClient(server)
        return self._clients[exchange.connection]

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _compare(self, recorded: Command, got: Command, free: Set[str] = frozenset()) -> Iterator[str]:
        if got.code != recorded.code:
            yield f"code {got.code} ({got.remark}) for {recorded.code} ({recorded.remark})"
            return
        if got.version != recorded.version and recorded.is_response:
            yield f"version {got.version} for {recorded.version}"
        yield from self._compare_fields(recorded.fields, got.fields, _FREE_VALUES | free)
        if (got.remark is None) != (recorded.remark is None):
            yield f"remark {got.remark!r} for {recorded.remark!r}"
        yield from self._compare_bodies(bytes(recorded.body), bytes(got.body))

    def _compare_fields(
        self, recorded: dict[str, str] | None, got: dict[str, str] | None, free: Set[str]
    ) -> Iterator[str]:
        old, new = _without_mark(recorded), _without_mark(got)
        if (recorded is None) != (got is None) or old.keys() != new.keys():
            yield f"fields {got} for {recorded}"
            return
        for name, value in old.items():
            mine = new[name]
            if kind := _PLACES.get(name):
                self._store_place(kind, value, mine)
            if name not in free and mine != value:
                yield f"{name} {mine} for {value}"

    def _compare_bodies(self, recorded: bytes, got: bytes) -> Iterator[str]:
        old, new = records_in(recorded), records_in(got)
        if old or new:
            for record, mine in zip(old, new, strict=False):
                self._store_place("id", record.offset_message_id, mine.offset_message_id)
            facts = [_facts(record) for record in old], [_facts(record) for record in new]
            if facts[0] != facts[1]:
                yield f"messages {facts[1]} for {facts[0]}"
        elif _shape(_parse(recorded)) != _shape(_parse(got)):
            yield f"body {got[:400]!r} for {recorded[:400]!r}"

    def _store_place(self, kind: str, recorded: str, mine: str) -> None:
        """Remember which id or address of the stub stands for a recorded one."""
        self._places[kind, recorded] = mine
        if kind == "id" and len(recorded) == len(mine) == _ID_DIGITS:
            physical = str(int(recorded[_HOST_DIGITS:], 16)), str(int(mine[_HOST_DIGITS:], 16))
            self._places["physical", physical[0]] = physical[1]

    def _translate(self, request: Command) -> dict[str, str] | None:
        fields = dict(request.fields or {})
        for name, kind in _PLACES.items():
            if name in fields and (name != "offset" or request.code in _PHYSICAL_REQUESTS):
                fields[name] = self._places.get((kind, fields[name]), fields[name])
        return fields if request.fields is not None else None


def _facts(record: Record) -> tuple[Any, ...]:
    """Return the parts of a message that must equal the recorded ones: no ids, addresses, times or added values."""
    return (
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.flag,
        record.sys_flag,
        record.reconsume_times,
        record.body,
        sorted(record.properties),
        record.properties_text.endswith(b"\x02"),
    )


def _parse(body: bytes) -> Any:
    if body[:1] not in (b"{", b"["):
        return body
    return fastjson.parse(body)


def _without_mark(fields: dict[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (fields or {}).items() if name != _IGNORED}


def _shape(value: Any, name: str = "") -> Any:
    """Return the member names and types of a JSON value; of a list or table only the first item is described."""
    if isinstance(value, dict):
        if name in _KEYED_BY_NAMES:
            return {"*": _shape(next(iter(value.values()), None))}
        return {key: _shape(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape(item) for item in value[:1]]
    return type(value).__name__ if not isinstance(value, bytes) else bool(value)
