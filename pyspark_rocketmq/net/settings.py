"""What must be known before anything connects?"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..wire.frame import MAX_FRAME_BYTES
from ..wire.header import HeaderType
from .deadline import Deadline


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Whom to trust, and how to prove who we are; without own CAs the system's are trusted."""

    trust_cert_path: str | None = None
    trust_cert: str | None = field(default=None, repr=False)
    """Trusted CAs as PEM text, for machines that hold no file."""
    client_cert_path: str | None = None
    client_key_path: str | None = None
    client_key_password: str | None = field(default=None, repr=False)
    verify_server: bool = True
    """Check the server's certificate and that it names the host we asked for."""


@dataclass(frozen=True, slots=True)
class NetSettings:
    """How to connect and how long to wait; equal settings share a pool."""

    connect_timeout_s: float = 3.0
    request_timeout_s: float = 3.0
    max_idle_s: float = 100.0
    """An unused connection older than this is replaced: servers close theirs after 120 s."""
    untaken_s: float = 30.0
    """A server that takes nothing of what is to be sent for so long loses the connection."""
    max_frame_bytes: int = MAX_FRAME_BYTES
    header_type: HeaderType = HeaderType.JSON
    tls: TlsSettings | None = None

    def connect_deadline(self) -> Deadline:
        """Until when a connection must stand, TLS included."""
        return Deadline.after(self.connect_timeout_s)

    def request_deadline(self) -> Deadline:
        """Until when a request must be answered if its caller has no deadline."""
        return Deadline.after(self.request_timeout_s)
