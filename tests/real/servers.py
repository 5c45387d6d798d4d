"""Start official servers, and send them requests.

    with RealCluster("5.3.3") as cluster:              # one name server, one broker, ready when this returns
        cluster.name_server                            # "127.0.0.1:21234", several joined by ';'
        cluster.create_topic("orders", queues=4)
        cluster.admin("clusterList")                   # any mqadmin command; returns its output
        cluster.broker.stop(); cluster.broker.start()  # keeps its port and its store
        cluster.broker.expire("orders", 0)             # raises the minimum offset as retention does

Shapes are keywords: `brokers=2`, `slaves=1` (one for each broker), `name_servers=2`, `acl=True` (the release's own
generation; the user is `ACCESS_KEY` with `SECRET_KEY`), `tls=True` (servers refuse plain connections; the authority is
`PKI / "ca.pem"`), `options={...}` (lines of broker.conf, such as DISK_ANSWERS), `properties={...}` (Java system
properties of every server), `profile="default"` (RocketMQ's own defaults instead of the quick settings of most tests;
both profiles are files of `conf/brokers`). A 5.x broker takes twelve seconds to `stop`; `kill` is quick and loses no
message.

Tests take fixtures instead (`tests/real/fixtures.py`): `real_cluster`, `real_master_slave`, `real_two_brokers`,
`real_two_name_servers`, `real_acl`, `real_tls`. To experiment by hand, in the foreground until Ctrl-C:

    python -m tests.real.servers --version 5.3.3 --option accessMessageInMemoryMaxRatio=0
                                 [--profile default] [--brokers 2] [--slaves 1] [--name-servers 2] [--acl] [--tls]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from pyspark_rocketmq.cluster.signing import Credentials, sign
from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from pyspark_rocketmq.wire.header import Command

from .artefacts import CONF, DEFAULT_VERSION, Release, class_path, java_home_tool, releases
from .probe import Caller, ask
from .processes import JavaProcess

HOST = "127.0.0.1"
CLUSTER_NAME = "RealCluster"
ACCESS_KEY, SECRET_KEY = "rocketmq", "12345678"
PKI = Path(__file__).with_name("pki")
TOPICS_FILE = Path("store/config/topics.json")
READY_SECONDS = 120
ADMIN_SECONDS = 120
QUICK, DEFAULT = "quick", "default"
"""The profiles of brokers: the settings of most tests, and RocketMQ's own defaults."""
EXPIRE_SECONDS = 240
"""The timeout of retention, in seconds; a broker first looks for expired files a minute after its start."""

DISK_ANSWERS = {"accessMessageInMemoryMaxRatio": "0"}
"""The broker options that make every pull be answered as if from disk (8 messages or 64 KiB)."""

_given_ports: set[int] = set()
_FILLER_BYTES = 200 * 1024
_COMMIT_LOG_FILE_BYTES = 16 * 1024 * 1024


class AdminFailed(AssertionError):
    """The error that an mqadmin command failed or printed an exception."""


@dataclass(frozen=True)
class Site:
    """The settings that all servers of one cluster have in common."""

    release: Release
    home: Path
    acl: bool = False
    tls: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    profile: str = QUICK

    @property
    def client_tls(self) -> ssl.SSLContext | None:
        """The TLS context that clients of these servers need, or None if the servers have no TLS."""
        return ssl.create_default_context(cafile=str(PKI / "ca.pem")) if self.tls else None

    def fill(self, template: str, target: Path, **words: object) -> Path:
        """Write a template of `conf/brokers` to `target` with its placeholders replaced; return `target`."""
        text = Template((CONF / template).read_text(encoding="utf-8"))
        known = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "pki": PKI, **words}
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.substitute(known), encoding="utf-8")
        return target

    def java_arguments(self, home: Path, heap_mb: int) -> list[str]:
        """Return the JVM arguments of a server: home, memory, logging, TLS and class path."""
        logging = home / "conf" / "logback.xml"
        properties = {"user.home": home, "rmq.logback.configurationFile": logging, **self.properties}
        if self.tls:
            tls_conf = self.fill("tls.conf", home / "conf" / "tls.conf")
            properties |= {"tls.enable": "true", "tls.server.mode": "enforcing", "tls.config.file": tls_conf}
        else:  # Without this each server spends seconds on making a certificate.
            properties |= {"tls.server.mode": "disabled"}
        memory = [f"-Xmx{heap_mb}m", f"-Xms{heap_mb // 4}m", f"-XX:MaxDirectMemorySize={heap_mb}m"]
        switches = [f"-D{name}={value}" for name, value in properties.items()]
        return [*memory, *switches, "-cp", class_path(self.release.version)]


class Server(ABC):
    """A server process with a home directory and port of its own, which it keeps when it is stopped and started."""

    heap_mb = 256

    def __init__(self, site: Site, name: str, port: int) -> None:
        self.site = site
        self.name = name
        self.address = Address(HOST, port)
        self.home = site.home / name
        self.process: JavaProcess | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.site.release.version} at {self.address}, {self._state}>"

    @property
    def _state(self) -> str:
        return "running" if self.running else "stopped"

    @property
    def running(self) -> bool:
        """Whether the server's process runs."""
        return self.process is not None and self.process.running

    @property
    def log_tail(self) -> str:
        """The last lines of the server's log."""
        return self.process.log_tail() if self.process else ""

    def launch(self) -> None:
        """Start the process, and do not wait until it is ready."""
        for name in ("logback.xml", "logback_namesrv.xml", "logback_broker.xml", "logback_tools.xml"):
            self.site.fill("logback.xml", self.home / "conf" / name)
        arguments = [*self.site.java_arguments(self.home, self.heap_mb), *self._main()]
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.home)}
        self.process = JavaProcess(self.name, arguments, log=self.home / "out.log", environment=environment)

    def wait_ready(self) -> None:
        """Wait until the server answers requests; raise `ProcessFailed` if it ends or takes too long."""
        assert self.process is not None, f"{self.name} was never launched"
        self.process.wait_until(lambda: _answers(self._ready), READY_SECONDS)

    def start(self) -> None:
        """Start the server and wait until it is ready; do nothing if it runs already."""
        if not self.running:
            self.launch()
            self.wait_ready()

    def stop(self) -> None:
        """Shut the server down in order; its stored messages are there again after `start`."""
        if self.process:
            self.process.terminate()

    def kill(self) -> None:
        """Kill the server, as a power cut does; its stored messages are there again after `start`."""
        if self.process:
            self.process.kill()

    def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Send one request over a new connection, signed if needed; return the response."""
        if self.site.acl:
            fields = sign(Credentials(ACCESS_KEY, SECRET_KEY), code, fields or {}, body)
        return ask(self.address, code, fields, body, tls=self.site.client_tls)

    @abstractmethod
    def _main(self) -> list[str]:
        """Write the server's configuration files; return its main class and arguments."""

    @abstractmethod
    def _ready(self) -> bool:
        """Return whether the server answers requests now."""


class NameServer(Server):
    """An official name server."""

    def _main(self) -> list[str]:
        conf = self.site.fill("namesrv.conf", self.home / "conf" / "namesrv.conf", port=self.address.port)
        return ["org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf)]

    def _ready(self) -> bool:
        return self.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == ResponseCode.SUCCESS

    def knows(self, address: Address) -> bool:
        """Return whether a broker with this address is registered with this name server."""
        return f'"{address}"'.encode() in bytes(self.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)


class Broker(Server):
    """An official broker process: a master (broker id 0) or a slave."""

    heap_mb = 512

    def __init__(self, site: Site, name: str, broker_id: int, name_servers: Sequence[NameServer]) -> None:
        super().__init__(site, f"{name}-{broker_id}", free_ports(-2, 0, 1))
        self.broker_name = name
        self.broker_id = broker_id
        self.name_servers = name_servers

    def _main(self) -> list[str]:
        conf = self.home / "conf" / "broker.conf"
        self.site.fill("default.conf", conf, **self._words())
        parts = [*self._profile_parts(), *self._acl_parts()]
        lines = [self.site.fill(name, self.home / "conf" / name).read_text("utf-8") for name in parts]
        lines += [f"{option}={value}\n" for option, value in self._own_options().items()]
        with conf.open("a", encoding="utf-8") as file:
            file.writelines(["\n", *lines])
        leases = ["-Drocketmq.broker.rebalance.lockMaxLiveTime=5000"] if self._profile_parts() else []
        return [*leases, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf)]

    def _profile_parts(self) -> list[str]:
        return ["quick.conf"] if self.site.profile == QUICK else []

    def _words(self) -> dict[str, object]:
        return {
            "name": self.broker_name,
            "broker_id": self.broker_id,
            "role": "SLAVE" if self.broker_id else "ASYNC_MASTER",
            "port": self.address.port,
            "name_server": ";".join(str(server.address) for server in self.name_servers),
            "home": self.home,
        }

    def _acl_parts(self) -> list[str]:
        if not self.site.acl:
            return []
        if self.site.release.acl == "2.0":
            return ["acl2.conf"]
        self.site.fill("plain_acl.yml", self.home / "conf" / "plain_acl.yml")
        return ["acl1.conf"]

    def _own_options(self) -> dict[str, str]:
        bind = {"bindAddress": HOST} if self.site.release.can_bind else {}
        return {**bind, **self.site.options}

    def _ready(self) -> bool:
        """Return whether the broker is registered and answers.

        Both are needed, because a registration may be left over from before a kill.
        """
        registered = all(server.knows(self.address) for server in self.name_servers if server.running)
        if not registered:
            self._register_again()
        return registered and self.ask(RequestCode.GET_ALL_TOPIC_CONFIG) is not None

    def _register_again(self) -> None:
        """Change a setting, so that a 5.x broker registers at once instead of after ten seconds."""
        self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6")

    def knows_topic(self, topic: str) -> bool:
        """Return whether this broker has a configuration of the topic."""
        return f'"{topic}"'.encode() in bytes(self.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)

    def has_caught_up(self, master: Broker, topic: str, queues: int) -> bool:
        """Return whether this slave has all messages of a topic that the master has."""
        return all(self.max_offset(topic, q) == master.max_offset(topic, q) for q in range(queues))

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the maximum offset of a queue, which the next message gets."""
        return self._offset(RequestCode.GET_MAX_OFFSET, topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the minimum offset of a queue: that of the first message still stored."""
        return self._offset(RequestCode.GET_MIN_OFFSET, topic, queue_id)

    def expire(self, topic: str, queue_id: int) -> int:
        """Delete the oldest messages of a queue, as retention does; return the new minimum offset, above 0.

        Large messages fill the commit log until it has three files. Then a retention of 0 hours lets the broker delete
        the first two.
        """
        before = self.min_offset(topic, queue_id)
        self._fill_log(topic, queue_id, 2 * _COMMIT_LOG_FILE_BYTES + _FILLER_BYTES)
        self._update_config("fileReservedTime=0")
        wait_until(lambda: self._has_expired(topic, queue_id, before), "the minimum offset rises", EXPIRE_SECONDS)
        self._update_config("fileReservedTime=72")
        return self.min_offset(topic, queue_id)

    def _offset(self, code: RequestCode, topic: str, queue_id: int) -> int:
        response = self.ask(code, {"topic": topic, "queueId": str(queue_id)})
        return int((response.fields or {})["offset"])

    def _fill_log(self, topic: str, queue_id: int, total_bytes: int) -> None:
        fields = {"a": "filler", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id)}
        fields |= {"f": "0", "g": "0", "h": "0", "i": "", "j": "0", "k": "false", "l": "0", "m": "false"}
        body = random.randbytes(_FILLER_BYTES)
        with Caller(self.address, tls=self.site.client_tls) as caller:
            for _ in range(total_bytes // _FILLER_BYTES + 1):
                _succeed(caller.ask(RequestCode.SEND_MESSAGE_V2, {**fields, "g": str(_now_ms())}, body), "fill the log")

    def _update_config(self, line: str) -> None:
        _succeed(self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=line.encode()), f"set {line}")

    def _has_expired(self, topic: str, queue_id: int, minimum: int) -> bool:
        delete_expired_commit_log = 329
        _succeed(self.ask(delete_expired_commit_log), "expire")
        return self.min_offset(topic, queue_id) > minimum


class RealCluster:
    """Name servers and brokers of one release; a `with` block starts them and removes them at its end."""

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        *,
        brokers: int = 1,
        slaves: int = 0,
        name_servers: int = 1,
        acl: bool = False,
        tls: bool = False,
        options: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        profile: str = QUICK,
    ) -> None:
        self.version = version
        home = Path(tempfile.mkdtemp(prefix=f"rocketmq-{version}-"))
        self.site = Site(releases()[version], home, acl, tls, options or {}, properties or {}, profile)
        self.name_servers = [NameServer(self.site, f"namesrv-{n}", free_ports(0)) for n in range(name_servers)]
        names = [f"broker-{chr(ord('a') + n)}" for n in range(brokers)]
        self.brokers = [Broker(self.site, name, 0, self.name_servers) for name in names]
        self.slaves = [Broker(self.site, name, 1 + n, self.name_servers) for name in names for n in range(slaves)]

    def __repr__(self) -> str:
        return f"<RealCluster {self.version} {self.site.profile}: {', '.join(map(repr, self.servers))}>"

    def __enter__(self) -> RealCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def servers(self) -> list[Server]:
        """All servers in the order in which they are started."""
        return [*self.name_servers, *self.brokers, *self.slaves]

    @property
    def name_server(self) -> str:
        """The addresses of the name servers, joined by ";"."""
        return ";".join(str(server.address) for server in self.name_servers)

    @property
    def broker(self) -> Broker:
        """The first master of the cluster."""
        return self.brokers[0]

    @property
    def slave(self) -> Broker:
        """The first slave of the cluster."""
        return self.slaves[0]

    def start(self) -> None:
        """Start every stopped server, and wait until every broker is registered with every name server.

        Name servers are started first, because a broker that cannot reach one tries again only after ten seconds.
        """
        for group in (self.name_servers, [*self.brokers, *self.slaves]):
            for server in group:
                if not server.running:
                    server.launch()
            for server in group:
                server.wait_ready()

    def close(self) -> None:
        """Kill all servers and delete their files."""
        for server in reversed(self.servers):
            server.kill()
        shutil.rmtree(self.site.home, ignore_errors=True)

    def admin(self, *arguments: str) -> str:
        """Run an mqadmin command for this cluster; return its output, or raise `AdminFailed`."""
        done = subprocess.run(
            self._admin_command(arguments),
            capture_output=True,
            text=True,
            timeout=ADMIN_SECONDS,
            stdin=subprocess.DEVNULL,
            cwd=self.site.home,
            env={**os.environ, "ROCKETMQ_HOME": str(self.site.home / "admin")},
        )
        printed = done.stdout + done.stderr
        if done.returncode or "Exception" in printed:
            raise AdminFailed(f"mqadmin {' '.join(arguments)} ended with {done.returncode}\n{printed}")
        return done.stdout

    def create_topic(self, topic: str, *, queues: int = 4, permission: int = 6) -> None:
        """Create or change a topic on every master; wait until every name server has its route."""
        for broker in self.brokers:
            response = broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues, permission))
            _succeed(response, f"make topic {topic}")
        wait_until(lambda: self._is_routed(topic), f"topic {topic} is routed")

    def wait_replicated(self, topic: str, *, queues: int) -> None:
        """Wait until every slave has all messages of the topic that its master has."""
        for master in self.brokers:
            for slave in self.slaves:
                if slave.broker_name == master.broker_name:
                    _wait_caught_up(slave, master, topic, queues)

    def _is_routed(self, topic: str) -> bool:
        responses = [server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}) for server in self.name_servers]
        names = [f'"{broker.broker_name}"'.encode() for broker in self.brokers]
        return all(name in bytes(response.body) for response in responses for name in names)

    def _admin_command(self, arguments: Sequence[str]) -> list[str]:
        home = self.site.home / "admin"
        if not home.exists():
            self.site.fill("logback.xml", home / "conf" / "logback.xml")
            self.site.fill("logback.xml", home / "conf" / "logback_tools.xml")
            if self.site.acl:
                self.site.fill("tools.yml", home / "conf" / "tools.yml")
        java = [java_home_tool("java"), "-XX:TieredStopAtLevel=1", "-Xshare:auto", *self.site.java_arguments(home, 256)]
        return [*java, "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments, "-n", self.name_server]


def free_ports(*offsets: int) -> int:
    """Return a port P below the ephemeral range such that P + offset is free for each of the offsets."""
    while True:
        port = random.randrange(20000, 32000)
        wanted = {port + offset for offset in offsets}
        if wanted.isdisjoint(_given_ports) and all(map(_is_free, wanted)):
            _given_ports.update(wanted)
            return port


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Wait until the condition is true; raise `AssertionError` with `what` as text at the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.05)


def _wait_caught_up(slave: Broker, master: Broker, topic: str, queues: int) -> None:
    """Wait until a slave has all messages of a topic.

    A 5.x slave copies the list of topics only once a minute, so a slave without the topic gets its master's file.
    """
    if not slave.knows_topic(topic):
        slave.kill()
        (slave.home / TOPICS_FILE).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(master.home / TOPICS_FILE, slave.home / TOPICS_FILE)
        slave.start()
    wait_until(lambda: slave.has_caught_up(master, topic, queues), f"{slave.name} holds all of {topic}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _answers(condition: Callable[[], bool]) -> bool:
    """Return the result of the condition, or False if the server cannot be reached."""
    try:
        return condition()
    except OSError:
        return False


def _succeed(response: Command, what: str) -> None:
    assert response.code == ResponseCode.SUCCESS, f"could not {what}: {response.code} {response.remark}"


def topic_fields(topic: str, queues: int, permission: int) -> dict[str, str]:
    """Return the header fields of a request that creates a topic."""
    counts = {"readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": str(permission)}
    rest = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    return {"topic": topic, **counts, **rest}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a cluster in the foreground until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.real.servers", description="Run official RocketMQ servers.")
    parser.add_argument("--version", default=DEFAULT_VERSION, choices=list(releases()))
    for name in ("brokers", "slaves", "name-servers"):
        parser.add_argument(f"--{name}", type=int, default=int(name != "slaves"))
    parser.add_argument("--profile", default=QUICK, choices=[QUICK, DEFAULT], help="of brokers, see conf/brokers")
    parser.add_argument("--acl", action="store_true")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="a line of broker.conf")
    parsed = parser.parse_args(arguments)
    options = dict(option.split("=", 1) for option in parsed.option)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    shape = {name: getattr(parsed, name) for name in ("brokers", "slaves", "name_servers", "acl", "tls", "profile")}
    with RealCluster(parsed.version, options=options, **shape) as cluster:
        print(f"nameServer={cluster.name_server}", flush=True)
        for server in cluster.servers:
            print(f"{server!r} log {server.home / 'out.log'}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopping")


if __name__ == "__main__":
    main()
