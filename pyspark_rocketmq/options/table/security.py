"""List the options of access control, encryption, and the strictness towards other options."""

from __future__ import annotations

from ..option import Option, section
from ..values import BOOLEAN, PATH, TEXT, Kind, choice

ACCESS_KEY = Option(
    "accessKey", "SBWH", TEXT, secret=True, meaning="Access key that signs requests; setting the two keys turns ACL on."
)
SECRET_KEY = Option("secretKey", "SBWH", TEXT, secret=True, meaning="Secret that requests are signed with.")
SECURITY_TOKEN = Option("securityToken", "SBWH", TEXT, secret=True, meaning="The token of temporary credentials.")
CREDENTIALS_FILE = Option(
    "credentialsFile",
    "SBWH",
    PATH,
    meaning="A file, on driver and executors, with lines `accessKey=…` or `accessKey: …`, and so for "
    "`secretKey` and `securityToken`. It is read again whenever it changes, and never travels with the job; the secret "
    "key is never sent.",
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
