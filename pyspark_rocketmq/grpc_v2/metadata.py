"""What does a client say about itself with every call, and how does it sign?

Only the value of `x-mq-date-time` is signed, by HMAC-SHA1:

    authorization: MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "AUTHORIZATION",
    "CLIENT_ID",
    "CLIENT_VERSION",
    "DATE_TIME",
    "LANGUAGE",
    "Credential",
    "is_signed_by",
    "make_authorization",
    "parse_authorization",
    "sign",
]

CLIENT_ID = "x-mq-client-id"
LANGUAGE = "x-mq-language"
CLIENT_VERSION = "x-mq-client-version"
DATE_TIME = "x-mq-date-time"
AUTHORIZATION = "authorization"

_ALGORITHM = "MQv2-HMAC-SHA1"


class Credential(NamedTuple):
    """Who signed, and how."""

    access_key: str
    signature: bytes


def sign(secret: str, date_time: str) -> bytes:
    """The signature of a call made at this time."""
    return hmac.new(secret.encode(), date_time.encode(), hashlib.sha1).digest()


def make_authorization(access_key: str, secret: str, date_time: str) -> str:
    """The value of `authorization`."""
    signature = sign(secret, date_time).hex()
    return f"{_ALGORITHM} Credential={access_key}, SignedHeaders={DATE_TIME}, Signature={signature}"


def parse_authorization(text: str) -> Credential | None:
    """Read `authorization`; None if it names nobody. Vendors add a region behind the key, which is dropped."""
    _, _, listed = text.partition(" ")
    items = {name: value for name, _, value in (item.strip().partition("=") for item in listed.split(","))}
    access_key = items.get("Credential", "").partition("/")[0]
    try:
        return Credential(access_key, bytes.fromhex(items.get("Signature", ""))) if access_key else None
    except ValueError:
        return None


def is_signed_by(secrets: Mapping[str, str], metadata: Mapping[str, str]) -> bool:
    """Whether one of these users, by access key, has signed a call."""
    credential = parse_authorization(metadata.get(AUTHORIZATION, ""))
    if credential is None or credential.access_key not in secrets:
        return False
    expected = sign(secrets[credential.access_key], metadata.get(DATE_TIME, ""))
    return hmac.compare_digest(expected, credential.signature)
