"""List the options that say how the cluster is reached."""

from __future__ import annotations

from ...cluster.routes import AddressMap
from ...errors import OptionError
from ...model import parse_address
from ...offsets.strict_json import parse_json, shorten
from ..option import Option, section
from ..values import Kind, OptionText, addresses, duration, size

_LONGEST_NAME = 100


def _read_client_name(given: OptionText) -> str:
    if not given.text.isprintable() or "@" in given.text or len(given.text) > _LONGEST_NAME:
        advice = f"give {_CLIENT_NAME.accepts.replace('`', '')}"
        raise OptionError(given.option, shorten(given.text), "not a part of a client id", advice=advice)
    return given.text


def read_address_map(given: OptionText) -> AddressMap:
    """Return a map from advertised to reachable addresses; the key `*` stands for all others."""
    value = parse_json(given.text, given.option)
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        advice = 'give {"host:port": "host:port"}'
        raise OptionError(given.option, shorten(given.text), "not a map of addresses", advice=advice)
    reachable = {key: parse_address(text, given.option) for key, text in value.items()}
    other = reachable.pop("*", None)
    return AddressMap(tuple((parse_address(key, given.option), value) for key, value in reachable.items()), other)


_CLIENT_NAME = Kind(f"1..{_LONGEST_NAME} printable characters without `@`", _read_client_name)

NAME_SERVER = Option(
    "nameServer",
    "SBWH",
    addresses(),
    otherwise="env `NAMESRV_ADDR` of the driver, only if `endpoints` is absent",
    aliases=("namesrvAddr", "nameServerAddress", "name.srv.addr", "rocketmq.namesrvAddr"),
    meaning="Name servers, or the remoting port of a CLUSTER-mode proxy.",
)
BROKER_ADDRESS_MAP = Option(
    "brokerAddressMap",
    "SBWH",
    Kind('JSON object of `host:port`: advertised → reachable; `"*"` stands for all others', read_address_map),
    meaning="For NAT, containers, or a proxy that advertises an inner address.",
)
CONNECT_TIMEOUT = Option(
    "connectTimeoutMillis",
    "SBWH",
    duration(1, 600_000),
    "3000",
    aliases=("connectTimeoutMs",),
    meaning="Timeout of connecting, TLS included.",
)
API_TIMEOUT = Option(
    "mqClientApiTimeout",
    "SBWH",
    duration(1, 600_000),
    "3000",
    native=True,
    meaning="Timeout of a request that is neither pull nor send.",
)
ROUTE_INTERVAL = Option(
    "pollNameServerInterval",
    "SBW",
    duration(1000, hint=": routes are always cached"),
    "30000",
    aliases=("partition.metadata.cache.ttl.ms",),
    native=True,
    meaning="Cache lifetime of a route; new queues appear at the first planning after it.",
)
MAX_FRAME_SIZE = Option(
    "maxFrameSize",
    "SBWH",
    size("64k", "1g"),
    "16m",
    aliases=("com.rocketmq.remoting.frameMaxLength",),
    meaning="Largest frame that is sent or accepted; a body may unpack to four times as much, at most 1 GiB.",
)
INSTANCE_NAME = Option(
    "instanceName",
    "SBWH",
    _CLIENT_NAME,
    otherwise="`<pid>#<ns>`; `DEFAULT` with BROADCASTING",
    native=True,
    meaning="Part of the client id `<ip>@<instanceName>` of group members, locks and local offset files.",
)
UNIT_NAME = Option(
    "unitName", "SBWH", _CLIENT_NAME, native=True, meaning="Suffix of the client id: `<ip>@<instanceName>@<unitName>`."
)
HEARTBEAT_INTERVAL = Option(
    "heartbeatBrokerInterval",
    "S",
    duration(1000, 60_000),
    "30000",
    native=True,
    meaning="Period of a group member's heartbeats; a broker drops a member after 120 s without one.",
)

SECTION = section("Connection", globals())
