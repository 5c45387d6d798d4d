"""Sign requests: an HMAC over the values of the header fields, sorted by field name, and then the body.

The same rule serves ACL 1.0 and ACL 2.0. A field added after signing breaks the signature, so signing comes last.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..model import java_order
from ..wire.codes import RequestCode

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


class CredentialsSource(Protocol):
    """A source of the credentials that are valid now; as a part of settings, it must compare and pickle by value."""

    def current(self) -> Credentials:
        """Return the credentials to sign the next request with."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key, its secret, and the token of temporary credentials."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def current(self) -> Credentials:
        """Return these credentials, which never change."""
        return self


def sign(source: CredentialsSource, code: int, fields: Mapping[str, str], body: bytes | memoryview) -> dict[str, str]:
    """Return the header fields of a request with access key, security token (if any) and signature added."""
    credentials = source.current()
    signed = {**fields, "AccessKey": credentials.access_key}
    if credentials.security_token:
        signed["SecurityToken"] = credentials.security_token
    if code == RequestCode.QUERY_MESSAGE:
        # Brokers of 4.9 do not sign this field, later ones do; without it both compute the same signature.
        signed.pop(UNIQUE_KEY_QUERY, None)
    return {**signed, "Signature": signature(credentials.secret_key, signed, body)}


def signature(secret_key: str, fields: Mapping[str, str], body: bytes | memoryview) -> str:
    """Return the HMAC-SHA1 of all values, sorted by field name, and then the body, in Base64."""
    values = "".join(fields[name] for name in sorted(fields, key=java_order) if name != "Signature")
    digest = hmac.new(secret_key.encode(), values.encode(), "sha1")
    digest.update(body)
    return base64.b64encode(digest.digest()).decode("ascii")
