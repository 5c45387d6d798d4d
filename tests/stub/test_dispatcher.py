"""Tests of `broker_stub.dispatcher`."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from broker_stub.dispatcher import Dispatcher
from broker_stub.faults import Fault, FaultScript
from broker_stub.registry import Registry
from broker_stub.releases import find_release
from broker_stub.requests import HELD, ClientRequest, HandlerResult, Refusal, response
from broker_stub.settings import Settings
from pyspark_rocketmq.errors import MalformedFrame
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import ONEWAY_FLAG, Command

from .recording_channel import RecordingChannel

CODE = RequestCode.GET_MAX_OFFSET


def serve(
    outcome: Any, *, code: int = CODE, flag: int = 0, release: str = "5.3.3", script: FaultScript | None = None
) -> Any:
    """Return the responses that a dispatcher sends to a request whose handler returns or raises `outcome`."""
    registry: Registry[str] = Registry("test")

    @registry.handles(CODE, RequestCode.LITE_PULL_MESSAGE)
    def handler(subject: str, call: ClientRequest) -> HandlerResult:
        if isinstance(outcome, Exception):
            raise outcome
        result: HandlerResult = outcome
        return result

    dispatcher = Dispatcher(
        "here", "subject", registry, Settings(release=find_release(release)), script or FaultScript()
    )
    dispatcher.ignores_unknown_codes = release == "4.9.7"
    channel = RecordingChannel()
    dispatcher.serve(Command(code, flag=flag), channel)
    return [(reply.code, reply.remark) for reply in channel.replies]


def test_the_handlers_answer_is_sent() -> None:
    """The handler's response is sent; a held request and a one-way request get none."""
    assert serve(response(remark="yes")) == [(0, "yes")]
    assert serve(HELD) == []
    assert serve(response(), flag=ONEWAY_FLAG) == []


def test_a_refusal_is_an_answer() -> None:
    """If the handler raises a `Refusal`, the response has its code and remark."""
    assert serve(Refusal(ResponseCode.NO_PERMISSION, "no")) == [(16, "no")]


def test_an_unreadable_request_is_the_clients_fault(caplog: pytest.LogCaptureFixture) -> None:
    """If a request cannot be decoded, the client gets the reason, and nothing is logged."""
    assert serve(MalformedFrame("X without y")) == [(1, "[MALFORMED_FRAME] X without y")]
    assert caplog.records == []


def test_a_fault_of_the_stub_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """If a handler fails, the error is logged and the client gets a system error, as from a real broker."""
    with caplog.at_level(logging.ERROR):
        assert serve(ZeroDivisionError("oops")) == [(1, "ZeroDivisionError: oops")]

    assert [record.message for record in caplog.records] == [f"the stub failed on request {CODE}"]


def test_codes_that_the_release_does_not_know() -> None:
    """If the release does not know a code, it is refused; the name server of 4.9.7 sends no response."""
    lite_pull = RequestCode.LITE_PULL_MESSAGE

    assert serve(response(), code=lite_pull) == [(0, None)]
    assert serve(response(), code=lite_pull, release="4.9.7") == []
    assert serve(response(), code=9999) == [(3, " request type 9999 not supported")]


def test_a_scripted_answer_replaces_the_handlers() -> None:
    """If a response is scripted, it is sent and the handler is not called."""
    script = FaultScript()
    script.add(Fault("busy", CODE, None, 1, make_response=lambda: response(2, remark="busy")))

    assert serve(ZeroDivisionError(), script=script) == [(2, "busy")]
    script.check_reached()
