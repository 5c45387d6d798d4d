"""Check the signatures of requests.

A client signs each request with its secret: HMAC-SHA1 over the values of all header fields except the signature, in the
order of the fields' names, and then the body. 5.x and 4.9.7 check the same signature and refuse differently: 5.x with
NO_PERMISSION and a plain reason, 4.9.7 with SYSTEM_ERROR and a Java exception. A user with a valid signature may do
everything. Name servers check no signatures.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_rocketmq.model import java_order
from pyspark_rocketmq.wire.codes import ResponseCode
from pyspark_rocketmq.wire.header import Command

from .releases import Release
from .requests import ClientRequest, Refusal

ACCESS_KEY, SIGNATURE = "AccessKey", "Signature"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
LAST_VERSION_WITHOUT_QUERY_KEY = 399
"""Last client version (4.9.3) that adds the field `_UNIQUE_KEY_QUERY` only after it has signed the request."""


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Refuses requests that carry no valid signature of a known user."""

    secrets: Mapping[str, str] = field(repr=False)
    """Each user's secret, by access key."""
    release: Release

    def check(self, broker: object, request: ClientRequest) -> None:
        """Raise a `Refusal` if the request has no access key, an unknown one, or a wrong signature."""
        fields = request.command.fields or {}
        user = fields.get(ACCESS_KEY)
        if not user:
            raise self._refusal("username cannot be null.", "No accessKey is configured", 663)
        secret = self.secrets.get(user)
        if secret is None:
            raise self._refusal(f"User:{user} is not found.", f"No acl config for {user}", 667)
        expected = sign(secret, self._signed_content(request.command, fields))
        if not hmac.compare_digest(expected.encode(), fields.get(SIGNATURE, "").encode()):
            raise self._refusal("check signature failed.", f"Check signature failed for accessKey={user}", 683)

    def _signed_content(self, command: Command, fields: Mapping[str, str]) -> bytes:
        unsigned = {SIGNATURE}
        if not self.release.is_5x or command.version <= LAST_VERSION_WITHOUT_QUERY_KEY:
            unsigned.add(UNIQUE_KEY_QUERY)
        names = sorted(fields.keys() - unsigned, key=java_order)
        return "".join(fields[name] for name in names).encode() + bytes(command.body)

    def _refusal(self, reason_5x: str, reason_4x: str, line_4x: int) -> Refusal:
        if self.release.is_5x:
            return Refusal(ResponseCode.NO_PERMISSION, reason_5x)
        place = f"org.apache.rocketmq.acl.plain.PlainPermissionManager.validate(PlainPermissionManager.java:{line_4x})"
        remark = f"org.apache.rocketmq.acl.common.AclException: {reason_4x}, {place}"
        return Refusal(ResponseCode.SYSTEM_ERROR, remark)


def sign(secret: str, content: bytes) -> str:
    """Return the signature of a request's content: HMAC-SHA1 with the user's secret, as base64 text."""
    return base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha1).digest()).decode()
