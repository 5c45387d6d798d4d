"""Test `grpc_v2.metadata` with signatures that were recorded on the wire."""

from __future__ import annotations

import pytest

from pyspark_rocketmq.grpc_v2.metadata import (
    AUTHORIZATION,
    DATE_TIME,
    is_signed_by,
    make_authorization,
    parse_authorization,
    sign,
)

NOON = "20261118T091847Z"
SIGNATURE = "e584258edaefdededfbe9e7c2d8bb45e470ab76c"
SECRETS = {"ak1": "sk1"}


@pytest.mark.parametrize(
    ("secret", "date_time", "signature"),
    [("sk1", NOON, SIGNATURE), ("12345678", "20260101T000000Z", "744d438196af86606d44b8c9a7c8e0e0b2ffb22b")],
)
def test_signature(secret: str, date_time: str, signature: str) -> None:
    """The signature is the HMAC of the time, and of nothing else."""
    assert sign(secret, date_time).hex() == signature


def test_authorization_is_written_as_the_official_client_does() -> None:
    """The value of `authorization` equals that of the official client byte for byte."""
    expected = f"MQv2-HMAC-SHA1 Credential=ak1, SignedHeaders=x-mq-date-time, Signature={SIGNATURE}"

    assert make_authorization("ak1", "sk1", NOON) == expected


@pytest.mark.parametrize(
    "authorization",
    [
        f"MQv2-HMAC-SHA1 Credential=ak1, SignedHeaders=x-mq-date-time, Signature={SIGNATURE}",
        f"MQv2-HMAC-SHA1 Credential=ak1, SignedHeaders=x-mq-date-time, Signature={SIGNATURE.upper()}",
        f"MQv2-HMAC-SHA1 Signature={SIGNATURE},Credential=ak1/region/RocketMQ,More=x",
    ],
)
def test_signed(authorization: str) -> None:
    """A call is accepted if its signature has capital or small digits, its key a region, or the list an extra name."""
    assert is_signed_by(SECRETS, {AUTHORIZATION: authorization, DATE_TIME: NOON})


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=00",
        f"MQv2-HMAC-SHA1 Credential=ak2, SignedHeaders=x-mq-date-time, Signature={SIGNATURE}",
        f"MQv2-HMAC-SHA1 Credential=ak1, SignedHeaders=x-mq-date-time, Signature={SIGNATURE[:-1]}0",
        "MQv2-HMAC-SHA1 Credential=ak1, SignedHeaders=x-mq-date-time, Signature=none",
        "nonsense",
    ],
)
def test_not_signed(authorization: str) -> None:
    """A call is refused if its access key is missing or unknown, or its signature is wrong or missing."""
    assert not is_signed_by(SECRETS, {AUTHORIZATION: authorization, DATE_TIME: NOON})


def test_a_signature_is_for_its_time() -> None:
    """A call is refused if its signature was made for another time."""
    signed = {AUTHORIZATION: make_authorization("ak1", "sk1", NOON), DATE_TIME: "20261118T091848Z"}

    assert not is_signed_by(SECRETS, signed)


def test_what_was_written_can_be_read() -> None:
    """`parse_authorization` returns the key and the signature from which `make_authorization` made the value."""
    assert parse_authorization(make_authorization("ak1", "sk1", NOON)) == ("ak1", bytes.fromhex(SIGNATURE))
