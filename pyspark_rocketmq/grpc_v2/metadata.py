"""Define the names of a call's metadata, and sign calls.

Only the value of `x-mq-date-time` is signed, with HMAC-SHA1; the metadata item `authorization` holds the signature:

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
    """The access key and the signature of a call."""

    access_key: str
    signature: bytes


def sign(secret: str, date_time: str) -> bytes:
    """Return the signature of a call whose `x-mq-date-time` is `date_time`."""
    return hmac.new(secret.encode(), date_time.encode(), hashlib.sha1).digest()


def make_authorization(access_key: str, secret: str, date_time: str) -> str:
    """Return the value of the metadata item `authorization` for a call whose `x-mq-date-time` is `date_time`."""
    signature = sign(secret, date_time).hex()
    return f"{_ALGORITHM} Credential={access_key}, SignedHeaders={DATE_TIME}, Signature={signature}"


def parse_authorization(text: str) -> Credential | None:
    """Return the credential in a value of `authorization`; None without an access key or a hexadecimal signature.

    The region that vendors append to the key is dropped.
    """
    _, _, listed = text.partition(" ")
    items = {name: value for name, _, value in (item.strip().partition("=") for item in listed.split(","))}
    access_key = items.get("Credential", "").partition("/")[0]
    try:
        return Credential(access_key, bytes.fromhex(items.get("Signature", ""))) if access_key else None
    except ValueError:
        return None


def is_signed_by(secrets: Mapping[str, str], metadata: Mapping[str, str]) -> bool:
    """Return whether the metadata of a call have the right signature; `secrets` maps access keys to secrets."""
    credential = parse_authorization(metadata.get(AUTHORIZATION, ""))
    if credential is None or credential.access_key not in secrets:
        return False
    expected = sign(secrets[credential.access_key], metadata.get(DATE_TIME, ""))
    return hmac.compare_digest(expected, credential.signature)
