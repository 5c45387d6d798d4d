"""Hold the settings of connections: timeouts, limits and TLS."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..wire.frame import MAX_FRAME_BYTES
from ..wire.header import HeaderType
from .allowed import AllowedAddresses
from .deadline import Deadline


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The certificate authorities (CAs) to trust, by default those of the system, and the client's own certificate."""

    trust_cert_path: str | None = None
    trust_cert: str | None = field(default=None, repr=False)
    """The trusted CAs as PEM text, instead of a file."""
    client_cert_path: str | None = None
    client_key_path: str | None = None
    client_key_password: str | None = field(default=None, repr=False)
    verify_server: bool = True
    """Whether to check that a trusted CA has signed the server's certificate, and that it names the host."""


@dataclass(frozen=True, slots=True)
class NetSettings:
    """The settings of connections; connections with equal settings share a pool."""

    connect_timeout_s: float = 3.0
    request_timeout_s: float = 3.0
    max_idle_s: float = 100.0
    """The time after which a pool closes an unused connection, in seconds; servers do so after 120 s."""
    untaken_s: float = 30.0
    """The time after which a connection ends if the server accepts none of the bytes to be sent, in seconds."""
    max_frame_bytes: int = MAX_FRAME_BYTES
    header_type: HeaderType = HeaderType.JSON
    tls: TlsSettings | None = None
    allowed: AllowedAddresses | None = None
    """The only addresses to which connections may be opened; None: all.

    `ClusterSettings` derives it from `allowed_brokers` and replaces any other value.
    """

    def connect_deadline(self) -> Deadline:
        """Return the deadline of a new connection, TLS handshake included."""
        return Deadline.after(self.connect_timeout_s)

    def request_deadline(self) -> Deadline:
        """Return the deadline of a request whose caller gives none."""
        return Deadline.after(self.request_timeout_s)
