"""Tests of `broker_stub.registry` and `broker_stub.requests`."""

from __future__ import annotations

import pytest

from broker_stub.handlers import BROKER_HANDLERS, NAME_SERVER_HANDLERS
from broker_stub.registry import Registry, handles
from broker_stub.releases import RELEASES, find_release
from broker_stub.requests import ClientRequest, Refusal, response
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.commands import GetMaxOffsetRequestHeader, OffsetResponseHeader
from pyspark_rocketmq.wire.header import ONEWAY_FLAG, Command

from .recording_channel import RecordingChannel


def test_a_code_has_one_handler() -> None:
    """A second handler for a code is refused, and the error names the first one."""
    registry: Registry[str] = Registry("test")
    registry.handles(RequestCode.GET_MAX_OFFSET)(lambda subject, call: None)

    with pytest.raises(ValueError, match="GET_MAX_OFFSET has a handler already"):
        registry.handles(RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)(lambda subject, call: None)


def test_every_handler_says_what_it_does() -> None:
    """Every handler has a docstring, because the generated page shows it."""
    for registry in (BROKER_HANDLERS, NAME_SERVER_HANDLERS):
        assert registry.handlers
        assert all(handler.__doc__ for handler in registry.handlers.values())
    assert handles.__self__ is BROKER_HANDLERS  # type: ignore[attr-defined]  # a bound method has it


def test_a_call_reads_its_header_and_replies_on_its_channel() -> None:
    """A request is read as a typed header, and its late response goes to the channel that it came from."""
    channel = RecordingChannel()
    call = ClientRequest(Command(30, fields={"topic": "T", "queueId": "3"}, body=memoryview(b"b")), channel)

    call.reply(response(fields=OffsetResponseHeader(offset=7)))

    assert call.header(GetMaxOffsetRequestHeader).queue_id == 3
    assert call.body == b"b"
    assert [reply.fields for reply in channel.replies] == [{"offset": "7"}]


def test_a_request_that_wants_no_answer_gets_none() -> None:
    """If a request is one-way, it gets no response, even if its handler sends one."""
    channel = RecordingChannel()

    ClientRequest(Command(15, flag=ONEWAY_FLAG), channel).reply(response())

    assert channel.replies == []


def test_a_refusal_holds_its_answer() -> None:
    """A `Refusal` contains a response with its code, remark and fields."""
    refusal = Refusal(ResponseCode.NO_PERMISSION, "no", {"forbiddenType": "3"})

    assert (refusal.response.code, refusal.response.remark) == (16, "no")
    assert refusal.response.fields == {"forbiddenType": "3"}
    assert refusal.response.is_response


def test_an_unknown_release_is_refused() -> None:
    """If a release is unknown, the error lists the known ones."""
    with pytest.raises(OptionError, match=r"emulate = '1\.2\.3'.*5\.3\.3 or 4\.9\.7"):
        find_release("1.2.3")
    assert [find_release(name).name for name in RELEASES] == list(RELEASES)
