"""Hold the settings of a cluster: addresses, credentials, and limits for repeated requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import OptionError
from ..model import Address
from ..net.backoff import Backoff
from ..net.settings import NetSettings
from .names import Namespace
from .routes import AddressMap
from .signing import CredentialsSource


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Addresses, credentials, and how often requests are repeated."""

    name_servers: tuple[Address, ...]
    net: NetSettings = field(default_factory=NetSettings)
    credentials: CredentialsSource | None = None
    namespace: Namespace = field(default_factory=Namespace)
    address_map: AddressMap = field(default_factory=AddressMap)
    route_max_age_s: float = 30.0
    """Seconds after which a route is stale and fetched again."""
    retries: int = 3
    """Number of times that a request is repeated, if it may be repeated."""
    pause: Backoff = field(default_factory=Backoff)
    """Pause before each repetition."""
    wait_for_brokers_s: float | None = None
    """Seconds for which requests to unreachable or busy brokers are repeated; None: `retries` limits them, too."""

    def __post_init__(self) -> None:
        if not self.name_servers:
            raise OptionError("nameServer", None, "no address", advice="give host:port, several separated by ';'")
