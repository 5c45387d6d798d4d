"""What must be known before a cluster is asked anything?"""

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
    """Whom to ask, as whom, and how patiently."""

    name_servers: tuple[Address, ...]
    net: NetSettings = field(default_factory=NetSettings)
    credentials: CredentialsSource | None = None
    namespace: Namespace = field(default_factory=Namespace)
    address_map: AddressMap = field(default_factory=AddressMap)
    route_max_age_s: float = 30.0
    """Age at which a route is fetched again."""
    retries: int = 3
    """How often a request that may be repeated is repeated."""
    pause: Backoff = field(default_factory=Backoff)
    """How long to wait before each repetition."""
    wait_for_brokers_s: float | None = None
    """For how long brokers are asked that cannot be reached or are busy; None: as often as others."""

    def __post_init__(self) -> None:
        if not self.name_servers:
            raise OptionError("nameServer", None, "no address", advice="give host:port, several separated by ';'")
