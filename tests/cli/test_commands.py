"""Test what single commands show, on stubs."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pytest

from broker_stub import NAME_SERVER, StubCluster
from pyspark_rocketmq.broker_errors import NoPermission
from pyspark_rocketmq.cli.commands.lag import watch_lag
from pyspark_rocketmq.cli.connection import Wanted
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.screen import Screen
from pyspark_rocketmq.cli.session import Session
from pyspark_rocketmq.client import PullConsumer, PullConsumerSettings
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.errors import ConnectionLost
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode
from tests.cli.fixtures import GROUP, TOPIC, RunCommand, seed
from tests.flows.world import until


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub of two brokers, each with a replica, that a test may change."""
    with StubCluster(2, 1, topics={TOPIC: 2}) as made:
        seed(made)
        yield made


# --- topics and routes -----------------------------------------------------------------------------------------------


def test_topics_are_summed_over_brokers(on_stub: RunCommand) -> None:
    """`topics list` has one entry per topic with the queues of all brokers; `--all` adds system topics."""
    users = on_stub("topics", "list", "--json").document
    everything = on_stub("topics", "list", "--all", "--json").document

    [orders] = users["topics"]
    assert (orders["topic"], orders["kind"], orders["readQueues"]) == (TOPIC, "user", 4)
    assert (orders["brokers"], orders["permissions"]) == (["broker-a", "broker-b"], ["read", "write"])
    assert len(everything["topics"]) == users["hidden"] + 1 and everything["hidden"] == 0
    assert {each["kind"] for each in everything["topics"]} == {"user", "system"}


def test_a_topic_has_its_queues(on_stub: RunCommand) -> None:
    """`topics show` has bounds and last store time of each queue at each broker."""
    shown = on_stub("topics", "show", TOPIC, "--json").document

    places = [(each["broker"], each["queueId"], each["minOffset"], each["maxOffset"]) for each in shown["queues"]]
    assert places == [(broker, number, 0, 5) for broker in ("broker-a", "broker-b") for number in (0, 1)]
    assert shown["messages"] == 20
    assert all(each["lastStored"]["iso"].endswith("Z") for each in shown["queues"])


def test_a_route_has_every_process(stub: StubCluster, run_command: RunCommand) -> None:
    """`routes` lists masters and replicas with their addresses."""
    shown = run_command("routes", TOPIC, "--json", name_server=stub.name_server).document

    assert [each["broker"] for each in shown["brokers"]] == ["broker-a", "broker-b"]
    assert [place["brokerId"] for place in shown["brokers"][0]["processes"]] == [0, 1]
    assert shown["brokers"][0]["processes"][0]["address"] == stub.broker_address("broker-a")


def test_a_broker_that_does_not_answer_is_told(stub: StubCluster, run_command: RunCommand) -> None:
    """Lists show what the other brokers say, and name the broker that did not answer."""
    stub.faults.cut_reply(at="broker-b", times=None)

    topics = run_command("topics", "list", name_server=stub.name_server)
    brokers = run_command("brokers", "--json").document

    assert topics.code == Exit.DONE
    assert (
        re.search(r"^orders +user +≥ 2 ", topics.out, flags=re.MULTILINE)
        and "broker-b: [CONNECTION_LOST]" in topics.out
    )
    assert [each["answers"] for each in brokers["brokers"]] == [True, True, False, False]
    assert {each["code"] for each in brokers["troubles"]} == {ConnectionLost.code}


def test_brokers_have_release_and_uptime(on_stub: RunCommand) -> None:
    """`brokers` has release, uptime and sizes of each process."""
    [first, second] = on_stub("brokers", "--json").document["brokers"]

    assert (first["broker"], second["broker"], first["release"]) == ("broker-a", "broker-b", "5.3.3")
    assert first["isMaster"] and 0 <= first["upSeconds"] < 3600
    assert (first["storedMessagesTotal"], first["commitLogBytes"] > 0) == (10, True)


def test_times_of_brokers_are_by_their_own_clocks(stub: StubCluster, run_command: RunCommand) -> None:
    """Uptime and age of the oldest message are right if the clock of a broker is wrong."""
    stub.faults.clock_jump(-3_600_000)
    slow = run_command("brokers", "--json", name_server=stub.name_server).document["brokers"][0]
    stub.faults.clock_jump(7_200_000)
    fast = run_command("brokers", "--json").document["brokers"][0]

    assert slow["upSeconds"] < 60 and fast["upSeconds"] < 60
    assert slow["oldestSeconds"] is None  # The message is younger than now, by the clock that stamped it.
    assert 3599 <= fast["oldestSeconds"] < 3660


def test_what_is_unknown_has_a_question_mark(stub: StubCluster, run_command: RunCommand) -> None:
    """Figures of a process that does not report any are unknown, and not empty."""
    stub.faults.answer(1, on=RequestCode.GET_BROKER_RUNTIME_INFO, at="broker-b", times=None)

    ran = run_command("brokers", name_server=stub.name_server)

    assert re.search(r"^broker-b +master +\S+ +\? +\? +\? +\? +\? +\?$", ran.out, flags=re.MULTILINE)


def test_sums_are_bounds_if_a_broker_does_not_answer(stub: StubCluster, run_command: RunCommand) -> None:
    """A broker that does not answer may have more queues and messages than those that are known."""
    stub.faults.cut_reply(at="broker-b", times=None)

    listed = run_command("topics", "list", name_server=stub.name_server).out
    shown = run_command("topics", "show", TOPIC).out
    topics = run_command("topics", "list", "--json").document
    topic = run_command("topics", "show", TOPIC, "--json").document

    assert re.search(r"^orders +user +≥ 2 ", listed, flags=re.MULTILINE)
    assert re.search(r"^messages +≥ 10$", shown, flags=re.MULTILINE)
    assert (topics["isPartial"], topic["unknownBrokers"]) == (True, ["broker-b"])


@pytest.mark.parametrize(
    "words",
    [["topics", "list"], ["groups", "list"], ["groups", "show", GROUP], ["brokers"], ["lag", GROUP]],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_cluster_without_brokers_is_told(stub: StubCluster, run_command: RunCommand, words: list[str]) -> None:
    """If no broker is registered, the error says this, and not that there is no topic or group."""
    stub.faults.broker_down()

    ran = run_command(*words, name_server=stub.name_server)

    assert (ran.code, ran.out) == (Exit.NOT_FOUND, "") and "the name servers know no broker" in ran.err


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_of_rocketmq_itself_are_hidden(on_stub: RunCommand) -> None:
    """`groups list` has the groups of users; `--all` adds RocketMQ's own."""
    users = on_stub("groups", "list", "--json").document
    everything = on_stub("groups", "list", "--all", "--json").document

    assert [each["group"] for each in users["groups"]] == [GROUP]
    assert "TOOLS_CONSUMER" in [each["group"] for each in everything["groups"]]


def test_members_are_shown_with_what_they_subscribe_to(stub: StubCluster, run_command: RunCommand) -> None:
    """`groups show` asks the members themselves, and tells if they subscribe differently."""
    same, other = ({TOPIC: "new"}, {TOPIC: "*"})
    with consumer(stub, same, "one"), consumer(stub, same, "two"):
        until(lambda: len(stub.groups().get(GROUP, ())) == 2, "both are members")
        agreeing = run_command("groups", "show", GROUP, "--json", name_server=stub.name_server).document
    with consumer(stub, same, "three"), consumer(stub, other, "four"):
        until(lambda: len(stub.groups().get(GROUP, ())) == 2, "both are members")
        differing = run_command("groups", "show", GROUP, "--json").document
        shown = run_command("groups", "show", GROUP).out

    assert [each["clientId"].partition("@")[2] for each in agreeing["members"]] == ["one", "two"]
    assert {each["topic"]: each["expression"] for each in agreeing["members"][0]["subscriptions"]}[TOPIC] == "new"
    assert (agreeing["doMembersAgree"], differing["doMembersAgree"]) == (True, False)
    assert "the members subscribe differently" in shown


def test_members_are_asked_where_they_are_known(stub: StubCluster, run_command: RunCommand) -> None:
    """A member is asked through a broker that knows it: another one would say that it is not online."""

    shown: list[Any] = []

    def is_known_at_one_broker() -> bool:
        stub.faults.forget_members(GROUP, "broker-a")
        shown[:] = run_command("groups", "show", GROUP, "--json", name_server=stub.name_server).document["members"]
        return [each["brokers"] for each in shown] == [["broker-b"]]

    with consumer(stub, {TOPIC: "new"}, "one"):
        until(is_known_at_one_broker, "its first heartbeats are over")

    [member] = shown
    assert {each["topic"]: each["expression"] for each in member["subscriptions"]}[TOPIC] == "new"


def test_agreement_is_unknown_if_a_member_does_not_report(stub: StubCluster, run_command: RunCommand) -> None:
    """Two members that agree say nothing about a third one that gives no report."""
    same = {TOPIC: "new"}
    with consumer(stub, same, "one"), consumer(stub, same, "two"), consumer(stub, same, "three"):
        until(lambda: len(stub.groups().get(GROUP, ())) == 3, "all are members")
        stub.faults.answer(16, on=RequestCode.GET_CONSUMER_RUNNING_INFO)
        shown = run_command("groups", "show", GROUP, "--json", name_server=stub.name_server).document

    assert [each["subscriptions"] is None for each in shown["members"]].count(True) == 1
    assert shown["doMembersAgree"] is None


def test_members_are_unknown_if_a_broker_does_not_answer(stub: StubCluster, run_command: RunCommand) -> None:
    """A broker that does not answer may know members; that none is live is not known."""
    stub.faults.cut_reply(on=RequestCode.GET_CONSUMER_CONNECTION_LIST, at="broker-b", times=None)

    shown = run_command("groups", "show", GROUP, name_server=stub.name_server).out
    document = run_command("groups", "show", GROUP, "--json").document

    assert re.search(r"^members +\?$", shown, flags=re.MULTILINE)
    assert document["unknownBrokers"] == ["broker-b"]


def consumer(stub: StubCluster, subscriptions: dict[str, str], name: str) -> PullConsumer:
    """Return a consumer of the group that has not started; a `with` block starts it."""
    settings = PullConsumerSettings(group=GROUP, subscriptions=subscriptions, instance_name=name)
    return PullConsumer(stub.name_server, settings)


# --- lag -------------------------------------------------------------------------------------------------------------


def test_lag_counts_what_waits(on_stub: RunCommand) -> None:
    """`lag` has each queue and the total; queues that are read to their end have nothing waiting."""
    lag = on_stub("lag", GROUP, "--json").document

    messages = {(each["broker"], each["queueId"]): each["messages"]["value"] for each in lag["queues"]}
    assert messages == {("broker-a", 0): 4, ("broker-a", 1): 3, ("broker-b", 0): 0, ("broker-b", 1): 5}
    assert lag["total"]["messages"] == {"value": 12, "unknown": None, "unknownQueues": 0}


def test_lag_above_the_maximum_fails_the_check(on_stub: RunCommand) -> None:
    """With `--max` the exit code tells whether more messages wait; the lag is printed in both cases."""
    assert on_stub("lag", GROUP, "--max", "12").code == Exit.DONE
    above = on_stub("lag", GROUP, "--max", "11", "--json")

    assert (above.code, above.document["total"]["messages"]["value"]) == (Exit.CHECK_FAILED, 12)


def test_unknown_lag_fails_the_check(stub: StubCluster, run_command: RunCommand) -> None:
    """A lag that cannot be known is not below any maximum; it is shown as unknown with the reason, and not as 0."""
    stub.faults.cut_reply(on=RequestCode.GET_CONSUME_STATS, at="broker-b", times=None)

    ran = run_command("lag", GROUP, "--max", "1000", name_server=stub.name_server)

    assert ran.code == Exit.CHECK_FAILED
    assert re.search(r"^orders +broker-b +0 +\? +\? +\? +\? +\? +\?$", ran.out, flags=re.MULTILINE)
    assert re.search(r"^total +≥ 7 ", ran.out, flags=re.MULTILINE)
    assert "2 queues are unknown and not in the total" in ran.out and "? [CONNECTION_LOST]" in ran.out


@pytest.mark.parametrize(("position", "total"), [(4, "≥ 1"), (None, r"\?")], ids=["some is known", "nothing is known"])
def test_a_broker_that_does_not_answer_fails_the_check(
    stub: StubCluster, run_command: RunCommand, position: int | None, total: str
) -> None:
    """The broker may alone have a topic of the group: the total is no more than a bound, and not "not found"."""
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    cluster.admin.create_group(SubscriptionGroupConfig(group_name="apart"))
    places = {MessageQueue(TOPIC, "broker-a", 0): position, MessageQueue("alone", "broker-b", 0): 0}
    stub.put("alone", b"x", queue_id=0, broker="broker-b")
    cluster.offsets.commit("apart", {queue: at for queue, at in places.items() if at is not None})
    stub.faults.cut_reply(on=RequestCode.GET_CONSUME_STATS, at="broker-b", times=None)

    ran = run_command("lag", "apart", "--max", "1000", name_server=stub.name_server)
    told = run_command("lag", "apart", "--json").document["troubles"]

    assert ran.code == Exit.CHECK_FAILED
    assert re.search(f"^total +{total} ", ran.out, flags=re.MULTILINE)
    assert "broker-b may have more queues of the group" in ran.out and "broker-b: [CONNECTION_LOST]" in ran.out
    assert [(each["what"], each["code"]) for each in told] == [("broker-b", "CONNECTION_LOST")]


def test_unknown_bytes_make_bounds(stub: StubCluster, run_command: RunCommand) -> None:
    """If messages are known and may not be read, the check of their number passes, and the other totals are bounds."""
    stub.faults.answer(16, on=RequestCode.PULL_MESSAGE, at="broker-b", times=None)

    ran = run_command("lag", GROUP, "--max", "12", name_server=stub.name_server)

    assert ran.code == Exit.DONE
    assert re.search(r"^total +12 +≥ \S+ KiB +≥ \S+ s +≤ \S+ d$", ran.out, flags=re.MULTILINE)


def test_one_topic_includes_queues_without_a_position(stub: StubCluster, run_command: RunCommand) -> None:
    """`--topic` shows all queues of the topic; those in which the group has no position are unknown."""
    stub.put("other", b"x", queue_id=0, broker="broker-a")
    stub.expire("other", 0, 0, broker="broker-a")

    whole = run_command("lag", GROUP, "--json", name_server=stub.name_server).document
    other = run_command("lag", GROUP, "--topic", "other", "--json").document

    assert {each["topic"] for each in whole["queues"]} == {TOPIC}
    assert {each["topic"] for each in other["queues"]} == {"other"}
    assert other["total"]["messages"]["unknownQueues"] == 1


def test_brokers_that_do_not_tell_the_time_are_named(stub: StubCluster, run_command: RunCommand) -> None:
    """Ages there are by the clock of this machine, and the result says so."""
    stub.faults.answer(16, on=RequestCode.GET_BROKER_RUNTIME_INFO, at="broker-b", times=None)

    shown = run_command("lag", GROUP, name_server=stub.name_server).out
    [told] = run_command("lag", GROUP, "--json").document["withoutClock"]

    assert "broker-b did not tell the time: ages there are by the clock of this machine" in shown
    assert (told["what"], told["code"]) == ("broker-b", "BROKER_NO_PERMISSION")


def test_a_thousand_reasons_are_not_shown(stub: StubCluster, run_command: RunCommand) -> None:
    """Reasons name their queues; people see the first ones, and how many more there are."""
    stub.fill("many", 80, 10)
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    queues = cluster.routes.route("many").readable
    cluster.offsets.commit(GROUP, dict.fromkeys(queues, 0))
    stub.faults.answer(16, on=RequestCode.PULL_MESSAGE, times=None)

    shown = run_command("lag", GROUP, "--topic", "many", name_server=stub.name_server).out

    assert len(queues) > 5 and shown.count("[BROKER_NO_PERMISSION]") == 5
    assert f"? and {len(queues) - 5} more reasons; --json has all" in shown


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--watch", "--interval", "-1"], "0.1 seconds or more"),
        (["--watch", "--interval", "nan"], "0.1 seconds or more"),
        (["--watch", "--interval", "0"], "0.1 seconds or more"),
        (["--watch", "--interval", "1e300"], "at most a day"),
        (["--watch", "--max", "5"], "not together with --watch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_watch_that_makes_no_sense_is_refused(on_stub: RunCommand, words: list[str], complaint: str) -> None:
    """An interval that is no time, and a check that is never made, are usage errors."""
    ran = on_stub("lag", GROUP, *words)

    assert (ran.code, ran.out) == (Exit.USAGE, "") and complaint in ran.err


def test_watching_goes_on_and_forgets_no_queue(stub: StubCluster, run_command: RunCommand) -> None:
    """`--watch` measures again and again; queues of a broker that leaves meanwhile stay, as unknown."""
    watched = watch_lag(Session(Wanted(stub.name_server), Screen(as_json=True)), GROUP, None, 0.0)
    before = next(watched)
    stub.faults.broker_down("broker-b")

    after = next(watched)

    assert (before.total.messages.value, before.total.unknown_queues) == (12, 0)
    assert (after.total.messages.value, after.total.unknown_queues, after.total.queues) == (7, 2, 4)


def test_watching_goes_on_after_a_failure(stub: StubCluster, run_command: RunCommand) -> None:
    """A name server that fails for a while is told, and does not end the watch; a refusal does."""
    said = io.StringIO()
    watched = watch_lag(Session(Wanted(stub.name_server), Screen(err=said, as_json=True)), GROUP, None, 0.0)
    before = next(watched)
    stub.faults.cut_reply(on=RequestCode.GET_BROKER_CLUSTER_INFO, at=NAME_SERVER, times=2)

    after = next(watched)

    assert before.total.messages == after.total.messages
    assert "not measured: [CONNECTION_LOST]" in said.getvalue()
    stub.faults.answer(16, on=RequestCode.GET_CONSUME_STATS, times=None)
    with pytest.raises(NoPermission):
        next(watched)


# --- options and codes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [("STARTINGOFFSETS", "startingOffsets"), ("groupId", "consumerGroup"), ("nameServer", "nameServer")],
)
def test_an_option_is_found_by_any_of_its_names(run_command: RunCommand, name: str, expected: str) -> None:
    """`options NAME` explains one option, by name or alias, in any case."""
    [option] = run_command("options", name, "--json").document["options"]

    assert option["name"] == expected and option["meaning"]


@pytest.mark.parametrize(
    ("name", "advice"), [("startingOfsets", "did you mean startingOffsets"), ("consumeThreadMin", "minPartitions")]
)
def test_an_unknown_option_has_a_suggestion(run_command: RunCommand, name: str, advice: str) -> None:
    """A misspelt option, or one of another product, leads to the option that was probably meant."""
    ran = run_command("options", name)

    assert ran.code == Exit.NOT_FOUND and advice in ran.err


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("[offset_before_earliest]", ["OFFSET_BEFORE_EARLIEST"]),
        ("SUBSCRIPTION_GROUP_NOT_EXIST", ["BROKER_SUBSCRIPTION_GROUP_NOT_EXIST"]),
        ("26", ["BROKER_SUBSCRIPTION_GROUP_NOT_EXIST"]),
        ("NOT_FOUND", ["NOT_FOUND"]),
    ],
)
def test_a_code_is_explained(run_command: RunCommand, code: str, expected: list[str]) -> None:
    """`explain` takes a code as it stands in an error, without its prefix, or as a server's number."""
    found = run_command("explain", code, "--json").document["explanations"]

    assert [each["code"] for each in found] == expected
    assert found[0]["means"] and "`" not in found[0]["do"] and "](" not in found[0]["do"]


def test_a_number_with_several_meanings_has_several_explanations(run_command: RunCommand) -> None:
    """Servers use code 1 for several refusals, and all of them are shown."""
    found = run_command("explain", "1", "--json").document["explanations"]

    assert {"BROKER_SYSTEM_ERROR", "BROKER_CREDENTIALS_REFUSED"} <= {each["code"] for each in found}


def test_an_unknown_code_has_codes_like_it(run_command: RunCommand) -> None:
    """A part of a code leads to the codes that contain it."""
    ran = run_command("explain", "EARLIEST")

    assert ran.code == Exit.NOT_FOUND and "OFFSET_BEFORE_EARLIEST" in ran.err


@pytest.mark.parametrize("words", [["topics", "show", TOPIC], ["groups", "show", GROUP]], ids=lambda words: words[0])
def test_a_silent_broker_is_not_asked_again(stub: StubCluster, run_command: RunCommand, words: list[str]) -> None:
    """A command with several questions does not wait for a broker that was silent at the first; it tells it once."""
    fault = stub.faults.drop_reply(at="broker-b", times=None)

    ran = run_command(*words, "--json", "-o", "mqClientApiTimeout=150", name_server=stub.name_server)

    assert (ran.code, fault.fired) == (Exit.DONE, 2)
    assert ran.document["unknownBrokers"] == [each["what"] for each in ran.document["troubles"]] == ["broker-b"]
