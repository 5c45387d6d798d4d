"""Tests of `broker_stub.access_control`."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from broker_stub.access_control import AccessControl, sign
from broker_stub.releases import find_release
from broker_stub.requests import ClientRequest, Refusal
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.header import Command, decode_command
from tests.stub.recording_channel import RecordingChannel

FRAMES = Path(__file__).parents[1] / "golden" / "frames"
SECRET = "12345678"


def access(release: str) -> AccessControl:
    """Return the access control of a release with the one user that the recorded brokers had."""
    return AccessControl({"rocketmq": SECRET}, find_release(release))


def refusal(release: str, command: Command) -> Command | None:
    """Return the response that refuses a request; None if access control accepts the request."""
    try:
        access(release).check(None, ClientRequest(command, RecordingChannel()))
    except Refusal as refused:
        return refused.response
    return None


def recorded(release: str, folder: str) -> list[Any]:
    """Return each request of the recorded authentication scenario, with its response."""
    lines = map(json.loads, (FRAMES / folder / "auth_failed.jsonl").read_text().splitlines())
    return [
        pytest.param(release, client, id=f"{release}-{client['seq']}")
        for client in lines
        if client["direction"] == "client->broker"
    ]


@pytest.mark.parametrize(("release", "client"), [*recorded("5.3.3", ""), *recorded("4.9.7", "4.9.7")])
def test_refuses_as_recorded(release: str, client: dict[str, Any]) -> None:
    """If a recorded request was refused, it is refused with the recorded code and remark; otherwise it is accepted."""
    command = decode_command(memoryview(base64.b64decode(client["request"]["frame_b64"])))
    refused = refusal(release, command)
    recorded_answer = client["response"]
    if recorded_answer["code"] == 0:
        assert refused is None
    else:
        assert refused is not None
        assert (refused.code, refused.remark, refused.fields) == (
            recorded_answer["code"],
            recorded_answer["remark"],
            recorded_answer["header"],
        )


@pytest.mark.parametrize(
    ("release", "code", "remark"),
    [
        ("5.3.3", ResponseCode.NO_PERMISSION, "User:stranger is not found."),
        ("4.9.7", ResponseCode.SYSTEM_ERROR, "AclException: No acl config for stranger"),
    ],
)
def test_an_unknown_user_is_named(release: str, code: ResponseCode, remark: str) -> None:
    """If the access key is unknown, the refusal names it, whatever the signature is."""
    refused = refusal(release, Command(30, fields={"AccessKey": "stranger", "Signature": "x"}))
    assert refused and refused.code == code and remark in (refused.remark or "")


@pytest.mark.parametrize(
    ("release", "version", "passes"), [("5.3.3", 399, True), ("5.3.3", 400, False), ("4.9.7", 400, True)]
)
def test_the_query_flag_is_signed_by_new_clients_of_new_brokers_only(release: str, version: int, passes: bool) -> None:
    """The flag of a query by unique key is part of the signed content for 5.x brokers and clients after 4.9.3 only."""
    content = b"rocketmqkT"
    fields = {"AccessKey": "rocketmq", "key": "k", "topic": "T", "_UNIQUE_KEY_QUERY": "true"}
    command = Command(12, fields={**fields, "Signature": sign(SECRET, content)}, version=version)
    assert (refusal(release, command) is None) is passes


def test_the_documented_signatures() -> None:
    """For the protocol's worked examples, one with a security token and a body, `sign` returns their signatures."""
    body = b'{"clientID":"10.0.0.9@1","consumerDataSet":[],"producerDataSet":[{"groupName":"PG"}]}'
    assert sign(SECRET, b"RocketMQbroker-a0TopicTest") == "IhyIdx+reFuLYFEsxDFac/vPgKU="
    assert sign(SECRET, b"RocketMQtok" + body) == "1XmQucxC/ifaQKkhgz+u9cHnYjs="


def test_secrets_are_not_shown() -> None:
    """The repr of the access control does not contain the users' secrets."""
    assert SECRET not in repr(access("5.3.3"))
