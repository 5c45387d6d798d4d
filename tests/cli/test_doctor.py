"""Test that `doctor` finds each mistake, says why it matters and what to do, and is content with a healthy cluster."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from broker_stub import Settings, StubCluster
from broker_stub.faults import NAME_SERVER
from pyspark_rocketmq.cli.checks.brokers import _check_retention
from pyspark_rocketmq.cli.checks.findings import Finding, Level, make_report
from pyspark_rocketmq.cli.commands.doctor import _show
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.screen import Screen
from pyspark_rocketmq.cli.session import Session
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import parse_addresses
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig, TopicConfig
from pyspark_rocketmq.wire.codes import RequestCode
from tests.cli.fixtures import GROUP, TOPIC, RunCommand, seed
from tests.net.test_greeting import http_server

HOUR_MS = 3_600_000


class LateSession(Session):
    """A session with a clock that a test sets."""

    time_ms = 0

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self.time_ms


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub of two brokers without a finding, that a test may change."""
    with StubCluster(2, topics={TOPIC: 2}, settings=Settings(auto_create_topics=False)) as made:
        seed(made)
        yield made


def examine(run: RunCommand, address: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code of `doctor`, and its findings that are not ok."""
    ran = run("doctor", "--json", *words, name_server=address)
    return ran.code, [each for each in ran.document["findings"] if each["level"] != "ok"]


def only(findings: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return the only finding; it must say why it matters and what to do."""
    [finding] = findings
    assert finding["why"] and finding["advice"]
    return finding


def test_a_healthy_cluster_has_no_findings(run_command: RunCommand, stub: StubCluster) -> None:
    """Everything that is checked is listed as ok, and the exit code is 0."""
    words = ("--topic", TOPIC, "--group", GROUP, "--recovery", "24h")
    began = time.monotonic()
    code, findings = examine(run_command, stub.name_server, *words)
    spent_s = time.monotonic() - began
    shown = run_command("doctor", *words).out

    assert (code, findings) == (Exit.DONE, [])
    assert spent_s < 5
    assert {"name server", "broker", "retention", "topic", "group"} <= set(shown.replace("  ", "\n").split("\n"))
    assert "0 problems, 0 warnings, 0 unknown" in shown


def test_nothing_is_changed(run_command: RunCommand, stub: StubCluster) -> None:
    """Checking a topic and a group that do not exist creates neither, and moves no position."""
    before = stub.offsets(GROUP)
    examine(run_command, stub.name_server, "--topic", "nowhere", "--group", "nobody")
    examine(run_command, stub.name_server, "--topic", TOPIC, "--group", "nobody")

    groups = [each["group"] for each in run_command("groups", "list", "--json").document["groups"]]
    topics = [each["topic"] for each in run_command("topics", "list", "--json").document["topics"]]
    assert (groups, topics, stub.offsets(GROUP), stub.groups()) == ([GROUP], [TOPIC], before, {})


def test_a_server_of_another_kind_is_recognised(run_command: RunCommand, stub: StubCluster) -> None:
    """A broker, a gRPC port, a TLS port and an HTTP server in the place of the name server are told apart."""
    pytest.importorskip("grpc")
    broker = only(examine(run_command, stub.broker_address())[1])
    grpc = only(examine(run_command, str(stub.endpoints))[1])
    with http_server() as address:
        http = only(examine(run_command, str(address), "-o", "mqClientApiTimeout=500")[1])

    assert broker["what"] == "this is a broker, not a name server" and "9876" in broker["advice"]
    assert "gRPC" in grpc["what"] and "not 8081" in grpc["advice"]
    assert "HTTP server" in http["what"]


def test_tls_without_tls_and_the_reverse_are_recognised(run_command: RunCommand, stub: StubCluster) -> None:
    """A TLS port needs `useTLS`, and `useTLS` needs a TLS port: both findings say so."""
    pytest.importorskip("grpc")
    from broker_stub.server import TlsFiles
    from tests.net.test_greeting import PKI

    with StubCluster(tls=TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))) as encrypted:
        missing = only(examine(run_command, str(encrypted.endpoints))[1])
    needless = only(examine(run_command, stub.name_server, "-o", "useTLS=true")[1])

    assert (missing["what"], "useTLS=true" in missing["advice"]) == ("the server speaks TLS", True)
    assert "no TLS handshake" in needless["what"] and "drop useTLS" in needless["advice"]


def test_a_proxy_is_told_from_a_broker(run_command: RunCommand, stub: StubCluster) -> None:
    """A server that knows routes, and no table of brokers, is a proxy of RocketMQ 5."""
    stub.faults.answer(3, "not supported", on=RequestCode.GET_BROKER_CLUSTER_INFO, at=NAME_SERVER, times=None)

    finding = only(examine(run_command, stub.name_server)[1])

    assert "this is a proxy" in finding["what"] and "behind the proxy" in finding["advice"]


def test_a_name_server_in_a_black_hole_is_told(run_command: RunCommand, stub: StubCluster) -> None:
    """A name server that accepts connections and never answers is told after its deadline."""
    stub.faults.drop_reply(on=RequestCode.GET_BROKER_CLUSTER_INFO, at=NAME_SERVER, times=None)

    code, findings = examine(run_command, stub.name_server, "-o", "mqClientApiTimeout=300")

    assert code == Exit.CHECK_FAILED and "[REQUEST_TIMEOUT]" in only(findings)["what"]


def test_brokers_are_asked_together(run_command: RunCommand) -> None:
    """Slow brokers take no time from each other, and none makes another one look slow."""
    with StubCluster(8, settings=Settings(auto_create_topics=False)) as stub:
        stub.faults.delay(400, on=RequestCode.GET_BROKER_RUNTIME_INFO, times=None)
        began = time.monotonic()
        code, findings = examine(run_command, stub.name_server)
        spent_s = time.monotonic() - began

    assert (code, findings) == (Exit.DONE, [])
    assert 0.4 <= spent_s < 8 * 0.4


def test_a_silent_process_is_the_only_one_blamed(run_command: RunCommand) -> None:
    """A replica or master in a black hole is told as such; the other process is neither slow nor of another time."""
    with StubCluster(1, 1, settings=Settings(auto_create_topics=False)) as stub:
        stub.faults.drop_reply(on=RequestCode.GET_BROKER_RUNTIME_INFO)
        code, findings = examine(run_command, stub.name_server, "-o", "mqClientApiTimeout=500")

    finding = only([each for each in findings if each["level"] == "problem"])
    assert (code, finding["check"]) == (Exit.CHECK_FAILED, "broker")
    assert "[REQUEST_TIMEOUT]" in finding["what"]


def test_an_address_without_a_server_is_told(run_command: RunCommand, refusing_address: str) -> None:
    """If nothing listens at the address of the name server, this is the only finding, and the exit code is 8."""
    code, findings = examine(run_command, refusing_address)

    finding = only(findings)
    assert (code, finding["check"], finding["place"]) == (Exit.CHECK_FAILED, "name server", refusing_address)
    assert "[CONNECT]" in finding["what"]


def test_one_of_two_name_servers_may_be_away(run_command: RunCommand, stub: StubCluster, refusing_address: str) -> None:
    """Each name server is checked by itself; the brokers are checked by what one of them knows."""
    code, findings = examine(run_command, f"{refusing_address};{stub.name_server}")

    assert (code, only(findings)["place"]) == (Exit.CHECK_FAILED, refusing_address)


def test_name_servers_that_differ_are_told(run_command: RunCommand, stub: StubCluster) -> None:
    """A name server that does not know a broker which another one knows is named with the broker."""
    with StubCluster(["broker-z"], settings=Settings(auto_create_topics=False)) as other:
        code, findings = examine(run_command, f"{stub.name_server};{other.name_server}")

    told = {each["place"]: each["what"] for each in findings if each["check"] == "name server"}
    assert code == Exit.DONE and {each["level"] for each in findings} == {"warning"}
    assert "broker-z" in told[stub.name_server] and "broker-a, broker-b" in told[other.name_server]


def test_brokers_of_every_name_server_are_checked(run_command: RunCommand, stub: StubCluster) -> None:
    """A broker that only the second name server knows is checked, too."""
    with StubCluster(["broker-z"], settings=Settings(auto_create_topics=False)) as other:
        other.faults.refuse("broker-z")
        findings = examine(run_command, f"{stub.name_server};{other.name_server}")[1]

    assert [each["place"].split()[0] for each in findings if each["check"] == "broker"] == ["broker-z"]


def test_a_broker_that_cannot_be_reached_is_told(run_command: RunCommand, stub: StubCluster) -> None:
    """A broker at an address that refuses connections is a problem, with the option that leads elsewhere."""
    stub.faults.refuse("broker-b")

    code, findings = examine(run_command, stub.name_server, "-o", "connectTimeoutMillis=2999")

    finding = only(findings)
    assert (code, finding["check"]) == (Exit.CHECK_FAILED, "broker")
    assert "broker-b" in finding["place"] and "brokerAddressMap" in finding["advice"]


def test_another_broker_at_the_address_is_told(run_command: RunCommand, stub: StubCluster) -> None:
    """If the address of a broker leads to another one, its figures are not passed as those of the first."""
    addresses = {stub.broker_address("broker-b"): stub.broker_address("broker-a")}

    code, findings = examine(run_command, stub.name_server, "-o", f"brokerAddressMap={json.dumps(addresses)}")

    finding = only(findings)
    assert (code, finding["check"], finding["place"]) == (Exit.CHECK_FAILED, "broker", "broker-b of DefaultCluster")
    assert finding["what"].endswith("answers broker-a of cluster DefaultCluster")


def test_a_cluster_without_brokers_is_told(run_command: RunCommand, stub: StubCluster) -> None:
    """A name server that knows no broker is a problem."""
    stub.faults.broker_down()

    code, findings = examine(run_command, stub.name_server)

    assert (code, only(findings)["what"]) == (Exit.CHECK_FAILED, "no broker is registered")


@pytest.mark.parametrize(("jump_ms", "told"), [(HOUR_MS, "3600 s ahead of"), (-HOUR_MS, "3600 s behind")])
def test_a_clock_that_differs_is_told(run_command: RunCommand, stub: StubCluster, jump_ms: int, told: str) -> None:
    """A broker whose clock is an hour off is a problem, and the direction is told."""
    stub.faults.clock_jump(jump_ms)

    code, findings = examine(run_command, stub.name_server)

    assert code == Exit.CHECK_FAILED and {each["check"] for each in findings} == {"clock"}
    hours_off = findings[0]["what"]
    assert told.split()[2] in hours_off and abs(int(hours_off.split()[3]) - 3600) <= 3


def test_a_recovery_without_a_unit_is_refused(run_command: RunCommand, refusing_address: str) -> None:
    """A number alone would be milliseconds, and any retention long enough for it."""
    ran = run_command("doctor", "--recovery", "24", name_server=refusing_address)

    assert ran.code == Exit.USAGE and "has no unit; write 24h" in ran.err


def test_a_clock_that_is_not_reported_is_unknown(
    run_command: RunCommand, stub: StubCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not report its time is not passed as one whose clock agrees."""
    monkeypatch.setattr("pyspark_rocketmq.cli.checks.brokers.skew_ms", lambda *_: None)

    code, findings = examine(run_command, stub.name_server)

    assert code == Exit.DONE and [(each["level"], each["check"]) for each in findings] == [("unknown", "clock")] * 2


def test_retention_that_is_not_reported_is_unknown() -> None:
    """Without fileReservedTime the time for which messages are kept is not passed as long enough."""
    [finding] = _check_retention("broker-a", {}, {}, HOUR_MS / 1000)

    assert (finding.level, finding.check) == (Level.UNKNOWN, "retention")


def test_a_disk_that_is_nearly_full_is_told() -> None:
    """Above 85 % of its disk a broker deletes messages of any age, however long it is to keep them."""
    settings = {"fileReservedTime": "72"}

    full, enough = (
        list(_check_retention("broker-a", settings, {"commitLogDiskRatio": ratio}, None)) for ratio in ("0.86", "0.84")
    )

    assert [(each.level, each.check) for each in full] == [(Level.PROBLEM, "retention")]
    assert "messages of any age are deleted" in full[0].what and [each.level for each in enough] == [Level.OK]


def test_positions_are_asked_of_every_broker(run_command: RunCommand, stub: StubCluster) -> None:
    """A broker that refuses the group's positions is told, also if the first one does not."""
    stub.faults.answer(16, "no permission", on=RequestCode.QUERY_CONSUMER_OFFSET, at="broker-b", times=None)

    code, findings = examine(run_command, stub.name_server, "--topic", TOPIC, "--group", GROUP)

    finding = only(findings)
    assert (code, finding["check"]) == (Exit.CHECK_FAILED, "position")
    assert finding["place"] == f"{GROUP} in {TOPIC} at broker-b"


def test_a_group_is_needed_only_where_its_topics_are(run_command: RunCommand, stub: StubCluster) -> None:
    """A broker that holds none of the topics need not know the group."""
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    cluster.admin.create_topic(TopicConfig(topic_name="events"), ["broker-a"])
    cluster.admin.create_group(SubscriptionGroupConfig(group_name="readers"), ["broker-a"])

    alone = examine(run_command, stub.name_server, "--group", "readers")[1]
    with_topic = examine(run_command, stub.name_server, "--group", "readers", "--topic", "events")[1]

    assert (only(alone)["place"], with_topic) == ("readers at broker-b", [])


def test_retention_shorter_than_recovery_is_told(run_command: RunCommand, stub: StubCluster) -> None:
    """If a query may be down for longer than messages are kept, every broker is a problem."""
    assert examine(run_command, stub.name_server, "--recovery", "71h")[0] == Exit.DONE
    code, findings = examine(run_command, stub.name_server, "--recovery", "72h")

    assert code == Exit.CHECK_FAILED and [each["check"] for each in findings] == ["retention"] * 2


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("autoCreateTopicEnable=true", "misspelt topic"),
        ("transientStorePoolEnable=true", "are lost if the process is killed"),
        ("brokerPermission=4", "takes no messages"),
    ],
)
def test_settings_that_harm_are_told(run_command: RunCommand, stub: StubCluster, setting: str, told: str) -> None:
    """A setting that loses or misplaces messages is a warning with its consequence; warnings are no failure."""
    name, _, value = setting.partition("=")
    update(stub, {name: value})

    code, findings = examine(run_command, stub.name_server)

    finding = only(findings)
    assert (code, finding["level"], finding["place"]) == (Exit.DONE, "warning", "broker-a")
    assert setting in finding["what"] and told in finding["what"] + finding["why"]


def update(stub: StubCluster, settings: dict[str, str]) -> None:
    """Change settings of the first broker."""
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    cluster.admin.update_broker_config("broker-a", settings)


def test_missing_topic_and_group_are_told(run_command: RunCommand, stub: StubCluster) -> None:
    """A topic without a route is a problem; a group that brokers do not know is a warning with the way to make it."""
    code, findings = examine(run_command, stub.name_server, "--topic", "nowhere", "--group", "nobody")

    found = {each["check"]: each for each in findings}
    assert code == Exit.CHECK_FAILED
    assert "[TOPIC_NOT_FOUND]" in found["topic"]["what"]
    assert f"mqadmin updateTopic -n {stub.name_server} -c DefaultCluster -t nowhere" in found["topic"]["command"]
    assert found["group"]["level"] == "warning" and "updateSubGroup" in found["group"]["command"]


def test_lines_of_mqadmin_have_the_names_of_the_namespace(run_command: RunCommand, stub: StubCluster) -> None:
    """The lines have the names that brokers know, since mqadmin does not know the option `namespace`."""
    words = ("--topic", "nowhere", "--group", "nobody", "-o", "namespace=dev")

    findings = examine(run_command, stub.name_server, *words)[1]

    found = {each["check"]: each["command"] for each in findings}
    assert " -t dev%nowhere -r" in found["topic"] and found["group"].endswith(" -g dev%nobody")


def test_missing_permissions_are_told(run_command: RunCommand, stub: StubCluster) -> None:
    """Reading and positions that are refused are problems; settings that may not be read are unknown, not problems."""
    for code in (RequestCode.PULL_MESSAGE, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_BROKER_CONFIG):
        stub.faults.answer(16, "no permission", on=code, times=None)

    exit_code, findings = examine(run_command, stub.name_server, "--topic", TOPIC, "--group", GROUP)

    levels = {(each["check"], each["level"]) for each in findings}
    assert exit_code == Exit.CHECK_FAILED
    assert levels == {("reading", "problem"), ("position", "problem"), ("settings", "unknown")}
    assert all("[BROKER_NO_PERMISSION]" in each["what"] for each in findings)


PERMISSIONS = [
    (
        16,
        "User:reader has no permission to access Topic:orders from 127.0.0.1, no matched policies.",
        "user reader lacks the permission Sub for topic orders",
        "actions that the user has for it already (mqadmin getAcl) in -a, too; "
        "mqadmin createAcl -n {ns} -c DefaultCluster -s User:reader -r Topic:orders -a Sub -d Allow",
    ),
    (
        16,
        "User:reader has no permission to access Topic:orders from 127.0.0.1, the decision is deny.",
        "a policy denies user reader the permission Sub for topic orders",
        "see its policies; mqadmin getAcl -n {ns} -c DefaultCluster -s User:reader",
    ),
    (
        1,
        "org.apache.rocketmq.acl.common.AclException: No default permission for topic:orders, org.apache...",
        "the accessKey lacks the permission SUB for topic orders",
        "add orders=SUB to its topicPerms in the file of accounts of each broker",
    ),
    (
        16,
        "the topic[orders] pulling message is forbidden",
        "topic orders may not be read",
        "mqadmin updateTopicPerm -n {ns} -b {broker} -t orders -p 6",
    ),
    (
        16,
        "subscription group no permission, TOOLS_CONSUMER",
        "group TOOLS_CONSUMER may not consume",
        "with the group's other settings in the same line, which sets them to defaults else; "
        "mqadmin updateSubGroup -n {ns} -b {broker} -g TOOLS_CONSUMER -s true",
    ),
    (
        16,
        "the broker[127.0.0.1] pulling message is forbidden",
        "the broker may not be read",
        "mqadmin updateBrokerConfig -n {ns} -b {broker} -k brokerPermission -v 6",
    ),
]


@pytest.mark.parametrize(
    ("code", "remark", "what", "line"), PERMISSIONS, ids=["2.0", "denied", "1.0", "topic", "group", "broker"]
)
def test_the_missing_permission_is_named(
    run_command: RunCommand, stub: StubCluster, code: int, remark: str, what: str, line: str
) -> None:
    """A refused read names the permission that lacks, and what grants it without taking or granting anything else."""
    stub.faults.answer(code, remark, on=RequestCode.PULL_MESSAGE, at="broker-a", times=None)

    exit_code, findings = examine(run_command, stub.name_server, "--topic", TOPIC)

    finding = only(findings)
    of_readers = "TOOLS_CONSUMER" in remark
    assert (exit_code, finding["level"]) == ((Exit.DONE, "warning") if of_readers else (Exit.CHECK_FAILED, "problem"))
    assert (finding["place"], finding["what"]) == (f"{TOPIC} at broker-a", what)
    advice = f"{finding['advice']}; {finding['command']}"
    assert line.format(ns=stub.name_server, broker=stub.broker_address()) in advice


def test_the_line_for_a_group_keeps_its_settings(run_command: RunCommand, stub: StubCluster) -> None:
    """The line has all settings and one broker, since mqadmin sets what a line does not name to defaults."""
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    config = SubscriptionGroupConfig(group_name=GROUP, consume_enable=False, retry_max_times=3, retry_queue_nums=2)
    cluster.admin.create_group(config, ["broker-a"])

    finding = only(examine(run_command, stub.name_server, "--group", GROUP)[1])

    start = f"mqadmin updateSubGroup -n {stub.name_server} -b {stub.broker_address()} -g {GROUP} -s true"
    assert finding["command"] == f"{start} -m true -d true -q 2 -r 3 -i 0 -w 1 -a true"


def test_only_commands_need_the_group_for_readers(run_command: RunCommand, stub: StubCluster) -> None:
    """A query reads under its own group, so a permission that lacks for the readers' group is a warning."""
    remark = "User:reader has no permission to access Group:TOOLS_CONSUMER from 127.0.0.1, no matched policies."
    stub.faults.answer(16, remark, on=RequestCode.PULL_MESSAGE, at="broker-a", times=None)

    code, findings = examine(run_command, stub.name_server, "--topic", TOPIC)

    finding = only(findings)
    assert (code, finding["level"]) == (Exit.DONE, "warning")
    assert "peek" in finding["why"] and "-r Group:TOOLS_CONSUMER -a Sub" in finding["command"]


@pytest.mark.parametrize("release", ["5.3.3", "4.9.7"])
@pytest.mark.parametrize(
    ("keys", "what"),
    [
        (("accessKey=reader", "secretKey=wrong-secret"), "the signature is wrong, so the secretKey is"),
        (("accessKey=nobody", "secretKey=wrong-secret"), "the broker does not know the accessKey"),
        ((), "the broker serves signed requests only"),
    ],
    ids=["secret", "user", "none"],
)
def test_wrong_credentials_are_told_once_per_broker(
    run_command: RunCommand, release: str, keys: tuple[str, ...], what: str
) -> None:
    """Credentials that brokers refuse are a problem, told once for each, without the secret."""
    options = [word for key in keys for word in ("-o", key)]
    with StubCluster(2, topics={TOPIC: 1}, acl={"reader": "right-secret"}, emulate=release) as stub:
        code, findings = examine(run_command, stub.name_server, "--topic", TOPIC, "--group", GROUP, *options)

    assert code == Exit.CHECK_FAILED
    assert [(each["level"], each["check"]) for each in findings] == [("problem", "credentials")] * 2
    assert {each["what"] for each in findings} == {what} and "wrong-secret" not in str(findings)


def test_a_broker_that_serves_no_pulls_is_told(run_command: RunCommand, stub: StubCluster) -> None:
    """A broker that answers administrators and not readers leaves a check unknown, which the last line counts."""
    stub.faults.drop_reply(on=RequestCode.PULL_MESSAGE, at="broker-b", times=None)
    words = ("--topic", TOPIC, "-o", "mqClientApiTimeout=300")

    code, findings = examine(run_command, stub.name_server, *words)
    shown = run_command("doctor", *words).out

    [finding] = findings
    assert (code, finding["check"], finding["level"]) == (Exit.DONE, "reading", "unknown")
    assert finding["place"] == f"{TOPIC} at broker-b" and "1 unknown" in shown


def test_certificates_are_checked(run_command: RunCommand) -> None:
    """Each server's certificate, a replica's too, is told with its days; one that nobody trusts is a problem."""
    from broker_stub.server import TlsFiles
    from tests.net.test_greeting import PKI

    tls = ("-o", "useTLS=true")
    files = TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))
    with StubCluster(1, 1, tls=files, settings=Settings(auto_create_topics=False)) as stub:
        trusted = run_command("doctor", "--json", *tls, "-o", f"tlsTrustCertPath={PKI / 'ca.pem'}",
                              name_server=stub.name_server).document  # fmt: skip
        stranger = only(examine(run_command, stub.name_server, *tls)[1])
        anybody = only(examine(run_command, stub.name_server, *tls, "-o", "tlsAuthServer=false")[1])

    told = [each["what"] for each in trusted["findings"] if each["check"] == "certificate"]
    assert trusted["problems"] == trusted["warnings"] == 0
    assert len(told) == 3 and all("is trusted, names the host, and is valid for" in each for each in told)
    assert "certificate was refused" in stranger["what"] and "tlsTrustCertPath" in stranger["advice"]
    assert (anybody["level"], anybody["check"]) == ("warning", "certificate")


def test_a_certificate_that_ends_soon_is_a_warning() -> None:
    """A certificate is to be renewed within its last thirty days."""
    from broker_stub.server import TlsFiles
    from pyspark_rocketmq.cli.checks.brokers import check_certificates
    from pyspark_rocketmq.cli.connection import Wanted
    from pyspark_rocketmq.net.greeting import fetch_certificate_end
    from tests.net.test_greeting import PKI

    options = ("useTLS=true", f"tlsTrustCertPath={PKI / 'ca.pem'}")
    with (
        StubCluster(tls=TlsFiles(str(PKI / "server.pem"), str(PKI / "server.key"))) as stub,
        LateSession(Wanted(stub.name_server, None, options), Screen()) as session,
    ):
        cluster = session.options.cluster
        end_s = fetch_certificate_end(cluster.name_servers[0], cluster.net)
        assert end_s is not None
        session.time_ms = int(1000 * end_s) - 29 * 24 * HOUR_MS
        [finding] = check_certificates(session, cluster.name_servers)

    assert (finding.level.value, finding.check) == ("warning", "certificate")
    assert "valid for 29 days" in finding.what and "renew" in (finding.advice or "")


def test_a_broker_without_figures_is_not_away(run_command: RunCommand, stub: StubCluster) -> None:
    """A broker that answers with an error, as some do just after their start, is unknown and no problem."""
    stub.faults.answer(1, "NoSuchElementException", on=RequestCode.GET_BROKER_RUNTIME_INFO, at="broker-b", times=None)

    code, findings = examine(run_command, stub.name_server)
    listed = run_command("brokers", "--json").document

    [finding] = findings
    assert (code, finding["level"], finding["check"]) == (Exit.DONE, "unknown", "broker")
    assert "NoSuchElementException" in finding["what"]
    assert [each["answers"] for each in listed["brokers"]] == [True, True] and listed["troubles"]


def test_advice_is_never_cut() -> None:
    """A line of mqadmin for many name servers is longer than a name may be, and whole all the same."""
    line = (
        f"mqadmin updateSubGroup -n {';'.join(f'name-server-{number}.example.com:9876' for number in range(20))} -g x"
    )
    out = io.StringIO()

    Screen(out, out).show(_show(make_report([Finding(Level.WARNING, "group", "x", "what", "why", line)])))

    assert len(line) > 600 and line in out.getvalue()


def test_a_command_is_whole_below_the_table() -> None:
    """A command line that several findings have stands once below the table, in a line that can be copied."""
    out = io.StringIO()
    line = "mqadmin updateSubGroup -n 127.0.0.1:9876 -b 127.0.0.1:10911 -g x -s true"
    finding = Finding(Level.WARNING, "group", "x", "what", "why", "allow it", line)

    Screen(out, out).show(_show(make_report([finding, finding])))

    assert out.getvalue().count("allow it: line [1] below") == 2
    assert out.getvalue().count(f"\n[1] {line}\n") == 1


def test_a_certificate_that_cannot_be_fetched_is_unknown(refusing_address: str) -> None:
    """A server that answered a moment ago and now does not is not passed over in silence."""
    from pyspark_rocketmq.cli.checks.brokers import check_certificates
    from pyspark_rocketmq.cli.connection import Wanted

    with Session(Wanted(refusing_address, None, ("useTLS=true",)), Screen()) as session:
        [finding] = check_certificates(session, session.options.cluster.name_servers)

    assert (finding.level, finding.check, finding.place) == (Level.UNKNOWN, "certificate", refusing_address)
