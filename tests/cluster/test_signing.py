"""Signatures equal those that Java clients compute and servers accept."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.cluster.signing import Credentials, sign, signature
from tests.wire.exchanges import exchanges

KEYS = Credentials("RocketMQ", "12345678")


def test_header_fields_alone() -> None:
    """If a request has no body, its values are signed in the order of their field names, capital letters first."""
    signed = sign(KEYS, 30, {"topic": "TopicTest", "queueId": "0", "bname": "broker-a"}, b"")
    assert signed["Signature"] == "IhyIdx+reFuLYFEsxDFac/vPgKU="


def test_body_and_security_token() -> None:
    """If credentials are temporary, a heartbeat's access key, security token and body are signed."""
    body = b'{"clientID":"10.0.0.9@1","consumerDataSet":[],"producerDataSet":[{"groupName":"PG"}]}'
    signed = sign(Credentials("RocketMQ", "12345678", "tok"), 34, {}, memoryview(body))
    assert signed == {"AccessKey": "RocketMQ", "SecurityToken": "tok", "Signature": "1XmQucxC/ifaQKkhgz+u9cHnYjs="}


SIGNED = [exchange for exchange in exchanges() if "Signature" in exchange.request.fields]


def test_every_recorded_signature_is_ours() -> None:
    """For every request recorded from a Java client, right or wrong secret, the same signature is computed."""
    assert {exchange.file for exchange in SIGNED} == {"auth_failed.jsonl", "4.9.7/auth_failed.jsonl"}
    for _, request, answer in SIGNED:
        secrets = ("12345678", "wrong-secret")
        ours = [signature(secret, request.fields, request.body) for secret in secrets]
        assert request.fields["Signature"] in ours
        assert not answer or request.code == 105 or (answer.code == 0) == (request.fields["Signature"] == ours[0])


def test_the_unique_key_flag_is_not_sent_with_a_signature() -> None:
    """If a query is signed, its unique-key flag is not sent, since releases disagree whether the flag is signed."""
    fields = {"topic": "T", "key": "k", "_UNIQUE_KEY_QUERY": "true"}
    signed = sign(KEYS, 12, fields, b"")
    assert "_UNIQUE_KEY_QUERY" not in signed
    assert signed["Signature"] == signature("12345678", {"topic": "T", "key": "k", "AccessKey": "RocketMQ"}, b"")


def test_signing_leaves_its_input_alone() -> None:
    """Signing does not change the caller's fields."""
    fields = {"topic": "T"}
    assert sign(KEYS, 30, fields, b"") == sign(KEYS, 30, fields, b"") and fields == {"topic": "T"}


def test_an_old_signature_is_not_signed() -> None:
    """If fields already hold a signature, signing replaces it."""
    signed = sign(KEYS, 30, {"topic": "T"}, b"")
    assert sign(KEYS, 30, signed, b"") == signed


@pytest.mark.parametrize("text", [repr, str])
def test_secrets_are_not_shown(text: type[str]) -> None:
    """The text of credentials shows no part of them."""
    shown = text(Credentials("k3y", "s3cret", "t0ken"))
    assert not any(part in shown for part in ("k3y", "s3cret", "t0ken"))


def test_names_sort_by_utf16_units() -> None:
    """Field names are sorted by UTF-16 code units, as in Java."""
    assert signature("k", {"\U0001f600": "1", "\ue000": "2"}, b"") == signature("k", {"a": "12"}, b"")
