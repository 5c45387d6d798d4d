"""How is the cluster reached?"""

from __future__ import annotations

from ...cluster.routes import AddressMap
from ...errors import OptionError
from ...model import parse_addresses
from ...offsets.strict_json import shorten
from ..option import Option, section
from ..values import Entry, Kind, checked_list, duration, read_json, size, to_come

_LONGEST_NAME = 100


def _read_client_name(entry: Entry) -> str:
    if "@" in entry.text or len(entry.text) > _LONGEST_NAME:
        advice = f"give {_CLIENT_NAME.accepts.replace('`', '')}"
        raise OptionError(entry.option, shorten(entry.text), "no part of a client id", advice=advice)
    return entry.text


_CLIENT_NAME = Kind(f"1..{_LONGEST_NAME} characters without `@`", _read_client_name)

NAME_SERVER = Option(
    "nameServer",
    "SBWH",
    "T1",
    checked_list("list of `host:port`, `;` or `,` between them", parse_addresses),
    otherwise="env `NAMESRV_ADDR` of the driver, only if `endpoints` is absent",
    aliases=("namesrvAddr", "nameServerAddress", "name.srv.addr", "rocketmq.namesrvAddr"),
    meaning="Name servers, or the remoting port of a CLUSTER-mode proxy.",
)
ENDPOINTS = Option(
    "endpoints",
    "SBWH",
    "T2",
    to_come("list of `host:port`, `;` or `,` between them"),
    planned=True,
    meaning="Servers that speak RocketMQ 5's gRPC API.",
)
BROKER_ADDRESS_MAP = Option(
    "brokerAddressMap",
    "SBWH",
    "T1",
    read_json('JSON object of `host:port`: advertised → reachable; `"*"` stands for all others', AddressMap.parse),
    meaning="For NAT, containers, or a proxy that advertises an inner address.",
)
CONNECT_TIMEOUT = Option(
    "connectTimeoutMillis",
    "SBWH",
    "T1",
    duration(1, 600_000),
    "3000",
    aliases=("connectTimeoutMs",),
    meaning="Longest wait for a connection, TLS included.",
)
API_TIMEOUT = Option(
    "mqClientApiTimeout",
    "SBWH",
    "T1",
    duration(1, 600_000),
    "3000",
    native=True,
    meaning="Longest wait for the answer to a request that is neither pull nor send.",
)
ROUTE_INTERVAL = Option(
    "pollNameServerInterval",
    "SBW",
    "T1",
    duration(1000, hint=": routes are always cached"),
    "30000",
    aliases=("partition.metadata.cache.ttl.ms",),
    native=True,
    meaning="Age at which a route is fetched again; new queues show at the next planning after it.",
)
MAX_FRAME_SIZE = Option(
    "maxFrameSize",
    "SBWH",
    "T1",
    size("64k", "1g"),
    "16m",
    aliases=("com.rocketmq.remoting.frameMaxLength",),
    meaning="Largest frame that is sent or accepted; a body may unpack to four times as much.",
)
INSTANCE_NAME = Option(
    "instanceName",
    "SBWH",
    "T2",
    _CLIENT_NAME,
    otherwise="`pyspark#<pid>#<ns>`; `DEFAULT` with BROADCASTING",
    native=True,
    meaning="Part of the client id `<ip>@<instanceName>` that group members, locks and local offset files bear.",
)
UNIT_NAME = Option(
    "unitName",
    "SBWH",
    "T3",
    _CLIENT_NAME,
    native=True,
    meaning="Suffix of the client id: `<ip>@<instanceName>@<unitName>`.",
)
HEARTBEAT_INTERVAL = Option(
    "heartbeatBrokerInterval",
    "S",
    "T2",
    duration(1000, 60_000),
    "30000",
    native=True,
    meaning="Period of a group member's heartbeat; brokers drop a member after 120 s.",
)

SECTION = section("Connection", globals())
