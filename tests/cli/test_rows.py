"""Test that every stored message becomes a row, whatever its body and properties hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pyspark_rocketmq.cli.documents import write_json
from pyspark_rocketmq.cli.messages import MessageRow, show_messages, to_row
from pyspark_rocketmq.cli.views import Text
from pyspark_rocketmq.client.message import Pulled, ReceivedMessage
from pyspark_rocketmq.model import MessageQueue
from pyspark_rocketmq.wire.record import Record, encode_record
from tests.client.test_message import PLAIN


def row(form: str | None = None, **changes: Any) -> MessageRow:
    """Return the row of a message with these changes, and with its body in this format."""
    record: Record = replace(PLAIN, **changes)
    queue = MessageQueue("orders", "broker-a", 0)
    pulled = Pulled(queue, memoryview(encode_record(record)), 0, 9, lambda name: name)
    return to_row(ReceivedMessage(pulled, 0), form)


def test_a_message_with_broken_properties_is_shown() -> None:
    """Properties that are not UTF-8 are told, and the message has the id that the broker gave it."""
    made = row(properties_text=b"KEYS\x01\xff\x02")

    assert (made.has_broken_properties, made.properties, made.tags, made.keys) == (True, {}, None, ())
    assert (made.body, made.message_id) == ("hello", PLAIN.offset_message_id)
    [view] = show_messages([made])
    assert isinstance(view, Text) and "(the properties cannot be read)" in view.text


def test_ordinary_properties_are_not_broken() -> None:
    """A message has its tag, keys and unique id."""
    made = row()

    assert (made.has_broken_properties, made.tags, made.keys, made.message_id) == (False, "t", ("k",), "ID")


@pytest.mark.parametrize(
    "body",
    [b"[" * 500 + b"]" * 500, b'{"a":' * 200 + b"1" + b"}" * 200, b"NaN", b"[1e999]", b"-Infinity", b"[" * 100_000],
    ids=["arrays", "objects", "NaN", "too large", "infinite", "open"],
)
def test_a_body_that_json_cannot_pass_on_is_text(body: bytes) -> None:
    """With `--body json`, what is nested too deeply, or has a number that is none of JSON, stays text."""
    made = row("json", body=body)

    assert (made.body_format, made.body) == ("text", body.decode())
    assert json.loads(write_json(made))["body"] == body.decode()


def test_an_ordinary_json_body_is_a_value() -> None:
    """Bodies of up to 99 levels are JSON values."""
    made = row("json", body=b"[" * 99 + b"1.5" + b"]" * 99)

    assert made.body_format == "json" and json.loads(write_json(made))["body"] == made.body
