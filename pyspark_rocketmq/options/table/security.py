"""List the options of access control, of encryption, and of the strictness towards unknown options."""

from __future__ import annotations

from ...net.allowed import AllowedAddresses, parse_allowed
from ..option import Option, section
from ..values import BOOLEAN, PATH, TEXT, Kind, OptionText, choice


def _read_allowed(given: OptionText) -> AllowedAddresses:
    return parse_allowed(given.text, given.option)


ACCESS_KEY = Option(
    "accessKey", "SBWH", TEXT, secret=True, meaning="Access key that signs requests; setting the two keys turns ACL on."
)
SECRET_KEY = Option(
    "secretKey",
    "SBWH",
    TEXT,
    secret=True,
    meaning="Secret that requests are signed with. Spark logs it at DEBUG in SQL statements; prefer `credentialsFile`.",
)
SECURITY_TOKEN = Option("securityToken", "SBWH", TEXT, secret=True, meaning="The token of temporary credentials.")
CREDENTIALS_FILE = Option(
    "credentialsFile",
    "SBWH",
    PATH,
    meaning="A file, on driver and executors, with lines `accessKey=…` or `accessKey: …`, and so for "
    "`secretKey` and `securityToken`. It is read again when it changes; while it cannot be read, the last good "
    "credentials serve for 60 s. Neither it nor its content travels with the job; the secret key is never sent.",
)
ALLOWED_BROKERS = Option(
    "allowedBrokers",
    "SBWH",
    Kind("list of hosts, `host:port` and networks such as `10.1.0.0/16`", _read_allowed),
    otherwise="all brokers in routes",
    meaning="The only brokers to connect to, replicas included, as name servers know them. A network holds "
    "IP addresses and no host names. Name servers and targets of `brokerAddressMap` are allowed anyway.",
)
NAMESPACE = Option(
    "namespace",
    "SBWH",
    TEXT,
    native=True,
    meaning="Prefix `NS%` of topics and groups at the cluster; rows show names without it.",
)
USE_TLS = Option(
    "useTLS", "SBWH", BOOLEAN, "false", native=True, meaning="Encrypt connections to name servers and brokers."
)
TRUST_CERT_PATH = Option(
    "tlsTrustCertPath",
    "SBWH",
    PATH,
    otherwise="system CAs",
    aliases=("tls.client.trustCertPath",),
    meaning="File of trusted CAs.",
)
TRUST_CERT = Option(
    "tlsTrustCert",
    "SBWH",
    Kind("PEM text", TEXT.read),
    otherwise="system CAs",
    meaning="Trusted CAs as PEM text; needs no file on executors.",
)
CLIENT_CERT_PATH = Option(
    "tlsClientCertPath",
    "SBWH",
    PATH,
    aliases=("tls.client.certPath",),
    meaning="File of the client's certificate, for servers that require one.",
)
CLIENT_KEY_PATH = Option(
    "tlsClientKeyPath", "SBWH", PATH, aliases=("tls.client.keyPath",), meaning="File of that certificate's key."
)
CLIENT_KEY_PASSWORD = Option(
    "tlsClientKeyPassword",
    "SBWH",
    TEXT,
    aliases=("tls.client.keyPassword",),
    secret=True,
    meaning="Password of the key file.",
)
VERIFY_SERVER = Option(
    "tlsAuthServer",
    "SBWH",
    BOOLEAN,
    "true",
    aliases=("tls.client.authServer",),
    meaning="Verify the server's certificate, and that it names the host.",
)
STRICT_OPTIONS = Option(
    "strictOptions",
    "SBW",
    choice({"error": "error", "all": "all", "warn": "warn"}),
    "error",
    meaning="Treatment of unknown option names: `error` fails on near misses and logs others, `all` fails on every "
    "one, "
    "`warn` fails on none.",
)

SECTION = section("Security and general", globals())
