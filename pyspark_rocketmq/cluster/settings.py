"""Hold the settings of a cluster: addresses, credentials, and limits for repeated requests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import OptionError
from ..model import Address
from ..net.allowed import AllowedAddresses, parse_allowed
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
    allowed_brokers: AllowedAddresses | str | None = None
    """The only brokers to connect to: hosts, `host:port` and networks, as text with commas between; None: all.

    The name servers, and the addresses to which `address_map` leads, are allowed anyway: the user wrote them.
    """

    def __post_init__(self) -> None:
        if not self.name_servers:
            raise OptionError("nameServer", None, "no address", advice="give host:port, several separated by ';'")
        brokers = _parse_brokers(self.allowed_brokers)
        allowed = brokers.plus((*self.name_servers, *self.address_map.targets)) if brokers else None
        object.__setattr__(self, "allowed_brokers", brokers)
        object.__setattr__(self, "net", replace(self.net, allowed=allowed))


def _parse_brokers(brokers: Any) -> AllowedAddresses | None:
    """Return `allowed_brokers` as an object; raise `OptionError` for a value of another type."""
    if isinstance(brokers, str):
        return parse_allowed(brokers)
    if brokers is None or isinstance(brokers, AllowedAddresses):
        return brokers
    advice = "give text: 'broker-a, broker-b:10911, 10.1.0.0/16'"
    raise OptionError("allowed_brokers", None, f"of type {type(brokers).__name__}", advice=advice)
