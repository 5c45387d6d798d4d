"""Who may ask a broker at all?"""

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


def gate(release: str) -> AccessControl:
    """The gate of the recorded brokers: one user."""
    return AccessControl({"rocketmq": SECRET}, find_release(release))


def refusal(release: str, command: Command) -> Command | None:
    """How a request is refused; None if it passes."""
    try:
        gate(release).check(None, ClientRequest(command, RecordingChannel()))
    except Refusal as refused:
        return refused.response
    return None


def recorded(release: str, folder: str) -> list[Any]:
    """The requests to the broker in the recorded authentication scenario, each with its answer."""
    lines = map(json.loads, (FRAMES / folder / "auth_failed.jsonl").read_text().splitlines())
    return [
        pytest.param(release, line, id=f"{release}-{line['seq']}")
        for line in lines
        if line["direction"] == "client->broker"
    ]


@pytest.mark.parametrize(("release", "line"), [*recorded("5.3.3", ""), *recorded("4.9.7", "4.9.7")])
def test_refuses_as_recorded(release: str, line: dict[str, Any]) -> None:
    """Code and remark of each refusal are the recorded ones, and what passed then passes now."""
    command = decode_command(memoryview(base64.b64decode(line["request"]["frame_b64"])))
    refused = refusal(release, command)
    recorded_answer = line["response"]
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
def test_a_stranger_is_named(release: str, code: ResponseCode, remark: str) -> None:
    """A user nobody knows is refused before the signature is looked at."""
    refused = refusal(release, Command(30, fields={"AccessKey": "stranger", "Signature": "x"}))
    assert refused and refused.code == code and remark in (refused.remark or "")


@pytest.mark.parametrize(
    ("release", "version", "passes"), [("5.3.3", 399, True), ("5.3.3", 400, False), ("4.9.7", 400, True)]
)
def test_the_query_flag_is_signed_by_new_clients_of_new_brokers_only(release: str, version: int, passes: bool) -> None:
    """Old clients add the flag of a query by unique key after signing."""
    content = b"rocketmqkT"
    fields = {"AccessKey": "rocketmq", "key": "k", "topic": "T", "_UNIQUE_KEY_QUERY": "true"}
    command = Command(12, fields={**fields, "Signature": sign(SECRET, content)}, version=version)
    assert (refusal(release, command) is None) is passes


def test_the_documented_signatures() -> None:
    """The worked examples of the protocol, one with a security token and a body."""
    body = b'{"clientID":"10.0.0.9@1","consumerDataSet":[],"producerDataSet":[{"groupName":"PG"}]}'
    assert sign(SECRET, b"RocketMQbroker-a0TopicTest") == "IhyIdx+reFuLYFEsxDFac/vPgKU="
    assert sign(SECRET, b"RocketMQtok" + body) == "1XmQucxC/ifaQKkhgz+u9cHnYjs="


def test_secrets_are_not_shown() -> None:
    """A gate that is printed keeps them to itself."""
    assert SECRET not in repr(gate("5.3.3"))
