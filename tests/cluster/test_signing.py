"""Signatures are those that Java computes and servers accept."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.signing import Credentials, sign, signature
from tests.wire.exchanges import exchanges

KEYS = Credentials("RocketMQ", "12345678")


def test_header_fields_alone() -> None:
    """A request without body is signed over its values by the order of their names, capitals first."""
    signed = sign(KEYS, 30, {"topic": "TopicTest", "queueId": "0", "bname": "broker-a"}, b"")
    assert signed["Signature"] == "IhyIdx+reFuLYFEsxDFac/vPgKU="


def test_body_and_security_token() -> None:
    """A heartbeat with temporary credentials is signed over key, token and body."""
    body = b'{"clientID":"10.0.0.9@1","consumerDataSet":[],"producerDataSet":[{"groupName":"PG"}]}'
    signed = sign(Credentials("RocketMQ", "12345678", "tok"), 34, {}, memoryview(body))
    assert signed == {"AccessKey": "RocketMQ", "SecurityToken": "tok", "Signature": "1XmQucxC/ifaQKkhgz+u9cHnYjs="}


SIGNED = [exchange for exchange in exchanges() if "Signature" in exchange.request.fields]


def test_every_recorded_signature_is_ours() -> None:
    """Each request that a Java client signed gets the same signature here, with the right and the wrong secret."""
    assert {exchange.file for exchange in SIGNED} == {"auth_failed.jsonl", "4.9.7/auth_failed.jsonl"}
    for _, request, answer in SIGNED:
        secrets = ("12345678", "wrong-secret")
        ours = [signature(secret, request.fields, request.body) for secret in secrets]
        assert request.fields["Signature"] in ours
        assert not answer or request.code == 105 or (answer.code == 0) == (request.fields["Signature"] == ours[0])


def test_the_unique_key_flag_is_not_sent_with_a_signature() -> None:
    """Releases disagree whether the flag is signed, so a signed query goes without it."""
    fields = {"topic": "T", "key": "k", "_UNIQUE_KEY_QUERY": "true"}
    signed = sign(KEYS, 12, fields, b"")
    assert "_UNIQUE_KEY_QUERY" not in signed
    assert signed["Signature"] == signature("12345678", {"topic": "T", "key": "k", "AccessKey": "RocketMQ"}, b"")


def test_signing_leaves_its_input_alone() -> None:
    """The caller's fields can be signed again."""
    fields = {"topic": "T"}
    assert sign(KEYS, 30, fields, b"") == sign(KEYS, 30, fields, b"") and fields == {"topic": "T"}


def test_an_old_signature_is_not_signed() -> None:
    """Signing anew replaces the signature."""
    signed = sign(KEYS, 30, {"topic": "T"}, b"")
    assert sign(KEYS, 30, signed, b"") == signed


@pytest.mark.parametrize("text", [repr, str])
def test_secrets_are_not_shown(text: type[str]) -> None:
    """The access key is shown; secret and token are not."""
    shown = text(Credentials("me", "s3cret", "t0ken"))
    assert "me" in shown and "s3cret" not in shown and "t0ken" not in shown


def test_names_sort_by_utf16_units() -> None:
    """Names sort by UTF-16 units as in Java: an emoji sorts before the private-use area."""
    assert signature("k", {"\U0001f600": "1", "\ue000": "2"}, b"") == signature("k", {"a": "12"}, b"")
