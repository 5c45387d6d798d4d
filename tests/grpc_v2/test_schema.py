"""Test that the schema of `grpc_v2` equals the official client's schema, and that its messages have the right bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_rocketmq.errors import LocalProtocolError
from pyspark_rocketmq.grpc_v2 import enums, schema
from pyspark_rocketmq.grpc_v2.message_fields import MESSAGE_FIELDS
from pyspark_rocketmq.grpc_v2.methods import METHODS
from pyspark_rocketmq.grpc_v2.schema import message_class

ROOT = Path(__file__).parents[2]
YOUNGER_THAN_THE_CLIENT = ("Settings.client_properties", "Code.INVALID_CLIENT_PROPERTIES")


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the official Python client's schema.

    It is read in another process, because importing that client writes log files to the home directory.
    """
    environment = {**os.environ, "HOME": str(tmp_path_factory.mktemp("home"))}
    command = [sys.executable, "-m", "tests.grpc_v2.official_schema"]
    output = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, timeout=60)
    return dict(json.loads(output.stdout))


def describe_field(field: Any) -> list[Any]:
    """Return the number, type, type name, repetition and `oneof` of a field."""
    kind = field.message_type.name if field.message_type else field.enum_type.name if field.enum_type else ""
    choice = field.containing_oneof.name if field.containing_oneof else None
    return [field.number, field.type, kind.removeprefix("Offset"), field.is_repeated, choice]


def test_every_field_is_the_official_one(official: dict[str, Any]) -> None:
    """The fields of all messages have the official numbers, types, repetition and `oneof`; none is missing or added."""
    ours = {
        f"{name}.{field.name}": describe_field(field)
        for name in MESSAGE_FIELDS
        for field in message_class(name).DESCRIPTOR.fields
    }

    assert {key: value for key, value in ours.items() if key not in YOUNGER_THAN_THE_CLIENT} == official["fields"]


def test_every_number_has_the_official_name(official: dict[str, Any]) -> None:
    """Every value of an enum has the official name and number, except the zeros that mean "not set"."""
    ours = {
        f"{name}.{value.name}": value.value
        for name in enums.__all__
        for value in getattr(enums, name)
        if value.name != "UNSPECIFIED"
    }

    assert {key: value for key, value in ours.items() if key not in YOUNGER_THAN_THE_CLIENT} == official["values"]


def test_every_method_is_the_official_one(official: dict[str, Any]) -> None:
    """Every method has the official request and response messages, and streams where the official one does."""
    ours = {
        method.path: [
            method.request.DESCRIPTOR.name,
            method.response.DESCRIPTOR.name,
            method.is_request_stream,
            method.is_response_stream,
        ]
        for method in METHODS.values()
    }

    assert ours == official["methods"]


@pytest.mark.parametrize(
    ("name", "fields", "data"),
    [
        ("PullMessageResponse", {"next_offset": 0}, "18 00"),
        ("QueryOffsetRequest", {"query_offset_policy": 0}, ""),
        ("ReceiveMessageRequest", {"attempt_id": ""}, "42 00"),
        ("Status", {"code": 20000, "message": "OK"}, "08 a0 9c 01 12 02 4f 4b"),
        ("Message", {"user_properties": {"a": "b"}}, "12 06 0a 01 61 12 01 62"),
    ],
)
def test_bytes(name: str, fields: dict[str, Any], data: str) -> None:
    """A message is encoded to the expected bytes; an empty optional field and a zero in a `oneof` are among them."""
    message = message_class(name)(**fields)

    assert message.SerializeToString().hex(" ") == data
    assert message_class(name).FromString(bytes.fromhex(data)) == message


def test_a_chosen_zero_is_there() -> None:
    """A field of a `oneof` that is set to zero counts as set."""
    assert message_class("PullMessageResponse")(next_offset=0).WhichOneof("content") == "next_offset"


def test_unknown_codes_are_kept() -> None:
    """A status code that this library does not know, as of a newer server, keeps its number."""
    Status = message_class("Status")

    assert Status.FromString(Status(code=49999).SerializeToString()).code == 49999


def test_a_faulty_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a line in the list of fields is wrong, the error shows the line and the name of its message."""
    monkeypatch.setitem(MESSAGE_FIELDS, "Resource", "one name string")

    with pytest.raises(LocalProtocolError, match="no field: 'one name string' of Resource"):
        schema.make_pool()
