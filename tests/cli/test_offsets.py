"""Test that positions are shown, found, moved, exported and imported; nothing moves without `--apply`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker_stub import NAME_SERVER, StubCluster
from broker_stub.faults import Fault
from pyspark_rocketmq.cli.commands.offsets import Export, StartingOffsets, _show_export, _show_starting
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.positions import nest
from pyspark_rocketmq.cli.values import moment
from pyspark_rocketmq.cli.views import Text
from pyspark_rocketmq.client import PullConsumer, PullConsumerSettings
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from pyspark_rocketmq.wire.codes import RequestCode
from tests.cli.fixtures import (
    GROUP,
    PER_QUEUE,
    POSITIONS,
    PROGRAM,
    ROOT,
    SECONDS,
    TOPIC,
    Ran,
    RunCommand,
    environment,
    seed,
)
from tests.flows.world import until

ENDS = dict.fromkeys(POSITIONS, PER_QUEUE)


@pytest.fixture
def stub() -> Iterator[StubCluster]:
    """A stub that a test may change, with a second group that has no positions."""
    with StubCluster(2, topics={TOPIC: 2}) as made:
        seed(made)
        cluster = open_cluster(ClusterSettings(parse_addresses(made.name_server)))
        cluster.admin.create_group(SubscriptionGroupConfig(group_name="copy"))
        yield made


@pytest.fixture
def run(stub: StubCluster, run_command: RunCommand) -> RunCommand:
    """A function that runs a command on the stub."""
    return lambda *words: run_command(*words, name_server=stub.name_server)


def seek(run: RunCommand, *words: str) -> Ran:
    """Move the group in the topic, with these further words."""
    return run("offsets", "seek", GROUP, "--topic", TOPIC, *words)


def test_positions_are_shown_with_bounds(run: RunCommand) -> None:
    """`offsets show` has each queue's bounds, and the group's position or null."""
    shown = run("offsets", "show", GROUP, "--json").document["queues"]
    nobody = run("offsets", "show", "nobody", "--topic", TOPIC, "--json").document["queues"]

    assert [each["position"] for each in shown] == [1, 2, 5, 0]
    assert {(each["minOffset"], each["maxOffset"]) for each in shown} == {(0, PER_QUEUE)}
    assert [each["position"] for each in nobody] == [None] * 4


@pytest.mark.parametrize(("when", "offset"), [("earliest", 0), ("latest", 5), ("-2h", 0), ("2100-01-01T00:00:00Z", 5)])
def test_offsets_at_a_time_are_starting_offsets(run: RunCommand, when: str, offset: int) -> None:
    """`offsets at` prints the JSON of `startingOffsets`; a time after the last message is the end."""
    printed = run("offsets", "at", when, "--topic", TOPIC)

    assert json.loads(printed.out) == nest(dict.fromkeys(POSITIONS, offset))


def test_a_time_that_cannot_be_read_is_refused(run: RunCommand) -> None:
    """A text that is no time is refused with what is accepted."""
    ran = run("offsets", "at", "yesterday", "--topic", TOPIC)

    assert ran.code == Exit.USAGE and "earliest, latest" in ran.err


@pytest.mark.parametrize("when", ["1767225600", "20260131", "+99999999999"])
def test_seconds_are_not_taken_for_milliseconds(run: RunCommand, stub: StubCluster, when: str) -> None:
    """Seconds since 1970, or a date without dashes, would lead to the first message of every queue."""
    ran = seek(run, "--to", when, "--apply")

    assert ran.code == Exit.USAGE and "which is before all messages" in ran.err and "2026-01-31T" in ran.err
    assert stub.offsets(GROUP) == POSITIONS


def test_a_time_in_the_future_is_told(run: RunCommand) -> None:
    """A time in the future, for example of the wrong zone, skips every message, so there is a warning."""
    ran, epoch = seek(run, "--to", "2100-01-01T00:00:00Z"), seek(run, "--to", "0")

    assert ran.code == Exit.NEEDS_APPLY and "2100-01-01T00:00:00Z is in the future" in ran.err
    assert epoch.code == Exit.NEEDS_APPLY and epoch.err == ""


@pytest.mark.parametrize(("jump_s", "told"), [(-600, "600 s behind"), (600, "600 s ahead of"), (0, None)])
def test_a_time_by_another_clock_is_told(run: RunCommand, stub: StubCluster, jump_s: int, told: str | None) -> None:
    """Messages have times by their broker's clock: where it is behind, `-5m` is in its future, and skips everything."""
    stub.faults.clock_jump(1000 * jump_s)

    ran = seek(run, "--to", "-5m")

    assert ran.code == Exit.NEEDS_APPLY
    if told:
        assert f"the clock of broker-a is {told} the one here" in ran.err
    else:
        assert ran.err == ""


def test_nothing_moves_without_apply(run: RunCommand, stub: StubCluster, tmp_path: Path) -> None:
    """`offsets seek` shows the moves and exits with 6; neither positions nor files change."""
    ran = seek(run, "--to", "latest", "--json")

    assert ran.code == Exit.NEEDS_APPLY
    assert [(each["before"], each["after"]) for each in ran.document["moves"]] == [(1, 5), (2, 5), (0, 5)]
    assert (ran.document["applied"], ran.document["undoFile"]) == (False, None)
    assert stub.offsets(GROUP) == POSITIONS
    assert not (tmp_path / "state").exists()


def test_a_move_is_made_and_undone(run: RunCommand, stub: StubCluster) -> None:
    """With `--apply` positions move; the printed command moves them back to where they were."""
    moved = seek(run, "--to", "latest", "--apply", "--json")
    after = stub.offsets(GROUP)
    program, *undo = shlex.split(moved.document["undo"])
    undone = run(*undo)

    assert (moved.code, moved.document["applied"], after) == (Exit.DONE, True, ENDS)
    assert (program, undone.code, stub.offsets(GROUP)) == ("pyspark-rocketmq", Exit.DONE, POSITIONS)


def test_the_way_back_leads_to_the_same_cluster(
    run_command: RunCommand, stub: StubCluster, cli_stub: StubCluster
) -> None:
    """The printed undo names the cluster, so that it does not follow the environment to another one."""
    words = ("--name-server", stub.name_server, "-o", "mqClientApiTimeout=4s")
    moved = seek(run_command, "--to", "latest", "--apply", "--undo-file", "undo.json", *words, "--json")

    undo = shlex.split(moved.document["undo"])
    assert undo[-4:] == list(words) and Path(undo[4]).is_absolute()
    undone = run_command(*undo[1:], name_server=cli_stub.name_server)
    assert (undone.code, stub.offsets(GROUP)) == (Exit.DONE, POSITIONS)


@pytest.mark.parametrize("place", ["before the first message", "after the last message"])
def test_the_way_back_leads_outside_a_queue(run: RunCommand, stub: StubCluster, place: str) -> None:
    """A position that was outside the queue's bounds comes back all the same, with a warning."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    if place == "before the first message":
        stub.expire(TOPIC, 0, 3, broker="broker-a")
    else:
        cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
        cluster.offsets.commit(GROUP, {queue: 9})
    before = stub.offsets(GROUP)
    moved = seek(run, "--to", "latest", "--apply", "--json")
    after = stub.offsets(GROUP)

    undone = run(*shlex.split(moved.document["undo"])[1:])

    assert (moved.code, undone.code) == (Exit.DONE, Exit.DONE)
    assert before[queue] in (1, 9) and after[queue] == 5 and stub.offsets(GROUP) == before
    assert f"offset {before[queue]} of {queue} lies outside {3 if before[queue] == 1 else 0}..5" in undone.err


def test_the_way_back_names_the_profile(run_command: RunCommand, stub: StubCluster, tmp_path: Path) -> None:
    """If a profile was used, asked for or not, the printed undo asks for it."""
    folder = tmp_path / "config" / "pyspark-rocketmq"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'default = "dev"\n[dev]\nnameServer = "{stub.name_server}"\n')

    moved = seek(run_command, "--to", "latest", "--apply", "--json")

    assert moved.document["undo"].endswith(f" --apply --profile dev --name-server {stub.name_server}")


def test_positions_of_another_cluster_are_refused(
    run: RunCommand, run_command: RunCommand, stub: StubCluster, cli_stub: StubCluster
) -> None:
    """A file from another cluster moves nothing, unless the user says that it may."""
    exported = run_command("offsets", "export", GROUP, name_server=cli_stub.name_server).out
    Path("other.json").write_text(exported)
    seek(run, "--to", "latest", "--apply")

    refused = run("offsets", "import", GROUP, "other.json", "--apply")
    untouched = stub.offsets(GROUP)
    allowed = run("offsets", "import", GROUP, "other.json", "--apply", "--from-other-cluster")

    assert (refused.code, untouched) == (Exit.USAGE, ENDS)
    assert cli_stub.name_server in refused.err and "--from-other-cluster" in refused.err
    assert (allowed.code, stub.offsets(GROUP)) == (Exit.DONE, POSITIONS)


@pytest.mark.parametrize(("cluster", "code"), [("DefaultCluster", Exit.NEEDS_APPLY), ("staging", Exit.USAGE)])
def test_the_name_of_the_cluster_counts_too(run: RunCommand, cluster: str, code: Exit) -> None:
    """Behind the same address, a forwarded port for example, the name tells another cluster."""
    seek(run, "--to", "latest", "--apply", "--undo-file", "undo.json")
    content = json.loads(Path("undo.json").read_text())
    Path("changed.json").write_text(json.dumps({**content, "clusters": [cluster]}))

    assert content["clusters"] == ["DefaultCluster"]
    assert run("offsets", "import", GROUP, "changed.json").code == code


def test_the_undo_file_is_written_first_and_is_private(run: RunCommand, stub: StubCluster, tmp_path: Path) -> None:
    """If the undo file cannot be written, nothing moves; a written one may be read by its owner only."""
    taken = tmp_path / "taken.json"
    taken.write_text("")
    refused = seek(run, "--to", "latest", "--apply", "--undo-file", str(taken))
    untouched = stub.offsets(GROUP)
    chosen = tmp_path / "chosen.json"
    moved = seek(run, "--to", "latest", "--apply", "--undo-file", str(chosen))

    assert (refused.code, untouched) == (Exit.USAGE, POSITIONS) and "nothing was moved" in refused.err
    assert moved.code == Exit.DONE and chosen.stat().st_mode & 0o777 == 0o600


def test_printed_positions_are_json_for_any_terminal() -> None:
    """Names with letters that an output cannot take, or that act on a terminal, are escaped as JSON escapes them."""
    positions = {TOPIC: {"bröker-\u202e\x9b1m": {"0": 1}}}
    export = Export(GROUP, moment(0), (), (), positions)

    [at], [exported] = _show_starting(StartingOffsets(positions)), _show_export(export)

    assert isinstance(at, Text) and at.text.isascii() and json.loads(at.text) == positions
    assert (
        isinstance(exported, Text) and exported.text.isascii() and json.loads(exported.text)["positions"] == positions
    )


def test_the_undo_is_a_line_of_its_own(run: RunCommand) -> None:
    """The command that goes back stands alone in a line, which nothing folds, so that it can be copied."""
    moved = seek(run, "--to", "latest", "--apply")

    *_, heading, undo = moved.out.splitlines()
    assert heading == "moved; undo:" and run(*shlex.split(undo)[1:]).code == Exit.DONE


def test_a_failed_move_says_how_to_go_back(run: RunCommand, stub: StubCluster) -> None:
    """If a broker does not take its positions, the error says that some may have moved, and gives the way back."""
    stub.faults.answer(16, on=RequestCode.UPDATE_CONSUMER_OFFSET, at="broker-b", times=None)

    ran = seek(run, "--to", "latest", "--apply")

    assert ran.code == Exit.NOT_PERMITTED
    assert "some positions may have moved" in ran.err and "offsets import billing" in ran.err


def test_a_repeated_move_does_not_hide_the_first_way_back(run: RunCommand, stub: StubCluster) -> None:
    """After a move that failed half-way, the way back of the repeated command leads to the middle, which is told."""
    stub.faults.answer(16, on=RequestCode.UPDATE_CONSUMER_OFFSET, at="broker-b", times=None)
    failed = seek(run, "--to", "latest", "--apply", "--undo-file", "first.json")
    middle = stub.offsets(GROUP)
    stub.faults.clear()

    repeated = seek(run, "--to", "latest", "--apply", "--json")
    run(*shlex.split(repeated.document["undo"])[1:])
    back_in_the_middle = stub.offsets(GROUP) == middle
    run("offsets", "import", GROUP, "first.json", "--apply")

    assert middle not in (POSITIONS, ENDS) and back_in_the_middle and stub.offsets(GROUP) == POSITIONS
    assert "the undo of a repeated command leads only to where the group is now" in failed.err


def test_an_undo_waits_for_a_broker_that_is_away(run: RunCommand, stub: StubCluster) -> None:
    """An undo moves all queues or none: while a broker is not registered it is refused, and later it works."""
    moved = seek(run, "--to", "latest", "--apply", "--json")
    undo = shlex.split(moved.document["undo"])[1:]
    stub.faults.broker_down("broker-b")
    refused = run(*undo)
    untouched = stub.offsets(GROUP)
    stub.faults.broker_up("broker-b")

    undone = run(*undo)

    assert (refused.code, untouched) == (Exit.USAGE, ENDS)
    assert "bring its broker back, or leave it out" in refused.err
    assert (undone.code, stub.offsets(GROUP)) == (Exit.DONE, POSITIONS)


def test_what_an_undo_leaves_is_told(run: RunCommand, stub: StubCluster) -> None:
    """Queues in which the group had no position before stay where they are moved, and both outputs count them."""
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    cluster.offsets.commit("copy", {MessageQueue(TOPIC, "broker-a", 0): 1})

    moved = run("offsets", "seek", "copy", "--topic", TOPIC, "--to", "latest", "--apply")

    told = "3 queues without a position before stay"
    assert moved.code == Exit.DONE and told in moved.out and told in moved.err


def test_an_interrupted_move_says_how_to_go_back(stub: StubCluster, tmp_path: Path) -> None:
    """Ctrl-C while brokers are told the positions says that some may have moved, and gives the way back."""
    undo = tmp_path / "undo.json"
    stub.faults.drop_reply(on=RequestCode.UPDATE_CONSUMER_OFFSET, times=None)
    words = ["offsets", "seek", GROUP, "--topic", TOPIC, "--to", "latest", "--apply", "--undo-file", str(undo)]
    command = [*PROGRAM, *words, "-o", "mqClientApiTimeout=60s"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: stub.offsets(GROUP) != POSITIONS, "a position has moved")
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=SECONDS)

    assert (process.returncode, out) == (Exit.INTERRUPTED, "")
    before, interrupted = said.splitlines()
    assert "some positions may have moved" in interrupted
    assert all(f"offsets import {GROUP} {undo} --apply" in line for line in (before, interrupted))
    assert json.loads(undo.read_text())["positions"]


def test_an_interruption_after_the_move_says_how_to_go_back(stub: StubCluster) -> None:
    """Ctrl-C while the result is written does not say that nothing was changed."""
    reading, writing = full_pipe()
    asked = stub.faults.delay(0, on=RequestCode.GET_CONSUMER_CONNECTION_LIST, times=None)
    words = ["offsets", "seek", GROUP, "--topic", TOPIC, "--to", "latest", "--apply", "--json"]
    with subprocess.Popen(
        [*PROGRAM, *words], cwd=ROOT, env=environment(stub), stdout=writing, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        until(lambda: asked.fired == 4, "both brokers were asked for members before and after the move")
        process.send_signal(signal.SIGINT)
        said = [process.stderr.readline(), process.stderr.readline()]
        os.close(writing)
        while os.read(reading, 65_536):
            pass  # Whatever is left of the result can be written now.
        os.close(reading)
        process.wait(SECONDS)

    assert (process.returncode, stub.offsets(GROUP)) == (Exit.INTERRUPTED, ENDS)
    assert "interrupted; the positions have moved" in said[1] and f"offsets import {GROUP}" in said[1]


def full_pipe() -> tuple[int, int]:
    """Return the ends of a pipe that takes no more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    return reading, writing


def test_a_closed_output_does_not_hide_how_to_go_back(stub: StubCluster) -> None:
    """If nobody reads the result, the way back stands on stderr all the same."""
    reading, writing = os.pipe()
    os.close(reading)
    words = ["offsets", "seek", GROUP, "--topic", TOPIC, "--to", "latest", "--apply"]

    ran = subprocess.run(
        [*PROGRAM, *words], cwd=ROOT, env=environment(stub), stdout=writing, stderr=subprocess.PIPE, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    os.close(writing)

    assert (ran.returncode, stub.offsets(GROUP)) == (Exit.OUTPUT_CLOSED, ENDS)
    assert f"go back with: pyspark-rocketmq offsets import {GROUP}" in ran.stderr


def test_a_move_that_does_not_stay_fails(run: RunCommand, stub: StubCluster) -> None:
    """Positions are read again after the move; if one is not where it was put, the command fails."""
    stub.faults.answer(0, on=RequestCode.UPDATE_CONSUMER_OFFSET, times=None)

    ran = seek(run, "--to", "latest", "--apply")

    assert ran.code == Exit.FAILED and "stands at 1, not at 5" in ran.err


def test_a_group_that_stands_there_is_not_moved(run: RunCommand) -> None:
    """If no position would change, there is nothing to apply and nothing to undo."""
    ran = seek(run, "--to", f"group:{GROUP}")

    where = "4 queues at broker-a, broker-b"
    assert (ran.code, ran.out) == (Exit.DONE, f"group billing stands there already in {where}: nothing to move\n")


def test_a_group_moves_to_where_another_stands(run: RunCommand, stub: StubCluster) -> None:
    """`--to group:NAME` takes the positions of another group; one without positions is not found."""
    moved = run("offsets", "seek", "copy", "--topic", TOPIC, "--to", f"group:{GROUP}", "--apply")
    missing = seek(run, "--to", "group:nobody")

    assert moved.code == Exit.DONE and "no position before" in moved.out
    assert stub.offsets("copy") == POSITIONS
    assert missing.code == Exit.NOT_FOUND


def test_a_group_with_members_is_not_moved(run: RunCommand, stub: StubCluster) -> None:
    """Live members would overwrite the positions, so that a move is refused, with one of them named."""
    settings = PullConsumerSettings(group=GROUP, subscriptions=TOPIC, instance_name="one")
    with PullConsumer(stub.name_server, settings):
        until(lambda: stub.groups().get(GROUP), "it is a member")
        ran = seek(run, "--to", "latest", "--apply")

    assert ran.code == Exit.FAILED
    assert "[GROUP_IN_USE]" in ran.err and "@one" in ran.err
    assert stub.offsets(GROUP) == POSITIONS


def test_members_are_asked_for_at_every_broker(run: RunCommand, stub: StubCluster) -> None:
    """A member that only one broker knows, because the other has just restarted, is a member."""
    settings = PullConsumerSettings(group=GROUP, subscriptions=TOPIC, instance_name="one")
    with PullConsumer(stub.name_server, settings):
        until(lambda: sum(bool(each.client_ids) for each in stub.connections()) == 2, "both brokers know it")
        stub.faults.forget_members(GROUP, "broker-a")
        ran = seek(run, "--to", "latest", "--apply")

    assert ran.code == Exit.FAILED and "[GROUP_IN_USE]" in ran.err
    assert stub.offsets(GROUP) == POSITIONS


def test_a_broker_that_does_not_tell_its_members_stops_the_move(run: RunCommand, stub: StubCluster) -> None:
    """Members may hide behind a broker that does not answer, so nothing is moved."""
    stub.faults.cut_reply(on=RequestCode.GET_CONSUMER_CONNECTION_LIST, at="broker-b", times=None)

    ran = seek(run, "--to", "latest", "--apply")

    assert ran.code == Exit.UNREACHABLE and "may have live members there, so nothing was moved" in ran.err
    assert stub.offsets(GROUP) == POSITIONS


@pytest.fixture
def still() -> Iterator[StubCluster]:
    """A stub whose clock stands still, so that a delayed reply waits for the test."""
    with StubCluster(2, topics={TOPIC: 2}, frozen_clock=True) as made:
        seed(made)
        yield made


def seek_while(run_command: RunCommand, still: StubCluster, fault: Fault, act: Callable[[], object]) -> Ran:
    """Move the group, and do something while a delayed reply is on its way."""

    def act_and_release() -> None:
        until(lambda: fault.fired, "the request has come")
        act()
        still.clock.advance(1000)

    with ThreadPoolExecutor(1) as threads:
        meanwhile = threads.submit(act_and_release)
        ran = run_command(
            "offsets", "seek", GROUP, "--topic", TOPIC, "--to", "latest", "--apply", "--undo-file", "undo.json",
            name_server=still.name_server,
        )  # fmt: skip
        meanwhile.result()
    return ran


def test_positions_that_move_meanwhile_are_not_overwritten(run_command: RunCommand, still: StubCluster) -> None:
    """A client that commits while the move is prepared, a Spark query for example, stops it; no undo file is left."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    cluster = open_cluster(ClusterSettings(parse_addresses(still.name_server)))
    # The name of the cluster is asked for between reading the positions and writing the undo file.
    fault = still.faults.delay(1000, on=RequestCode.GET_BROKER_CLUSTER_INFO, at=NAME_SERVER)

    ran = seek_while(run_command, still, fault, lambda: cluster.offsets.commit(GROUP, {queue: 4}))

    assert ran.code == Exit.FAILED and "[GROUP_IN_USE]" in ran.err
    assert f"the position in {queue} went from 1 to 4 meanwhile; nothing was moved" in ran.err
    assert still.offsets(GROUP) == {**POSITIONS, queue: 4} and not Path("undo.json").exists()


def test_a_member_that_joins_during_the_move_is_told(run_command: RunCommand, still: StubCluster) -> None:
    """It may have begun at the old positions, and would commit them."""
    settings = PullConsumerSettings(group=GROUP, subscriptions=TOPIC, instance_name="late")
    member = PullConsumer(still.name_server, settings)
    fault = still.faults.delay(1000, on=RequestCode.UPDATE_CONSUMER_OFFSET)

    def join() -> None:
        member.start()
        until(lambda: still.groups().get(GROUP), "it is a member")

    try:
        ran = seek_while(run_command, still, fault, join)
    finally:
        member.close()

    assert ran.code == Exit.FAILED and "@late joined while the positions were moved" in ran.err
    assert f"go back with: pyspark-rocketmq offsets import {GROUP}" in ran.err


def test_a_misspelt_group_is_not_created(run: RunCommand, stub: StubCluster) -> None:
    """Brokers would create it with its first position, so a group that no broker knows is not found."""
    ran = run("offsets", "seek", "biling", "--topic", TOPIC, "--to", "latest", "--apply")

    assert ran.code == Exit.NOT_FOUND and "no broker knows group biling" in ran.err
    assert stub.offsets("biling") == {}


def test_positions_outside_of_queues_are_not_copied_silently(run: RunCommand, stub: StubCluster) -> None:
    """`--to group:NAME` warns of a position that no reader would take as it is."""
    cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
    cluster.offsets.commit("copy", {MessageQueue(TOPIC, "broker-a", 0): 9})

    ran = seek(run, "--to", "group:copy")

    assert ran.code == Exit.NEEDS_APPLY and "offset 9 of orders/broker-a/0 lies outside 0..5" in ran.err


def test_the_brokers_of_a_move_are_listed(run: RunCommand, stub: StubCluster) -> None:
    """A broker that is not registered is missing in the list, since its queues are not moved."""
    both = seek(run, "--to", "latest", "--json").document
    stub.faults.broker_down("broker-b")
    one = seek(run, "--to", "latest").out

    assert (both["queues"], both["brokers"]) == (4, ["broker-a", "broker-b"])
    assert "2 of 2 queues at broker-a" in one


@pytest.mark.parametrize("release", ["5.3.3", "4.9.7"])
def test_topics_that_members_do_not_subscribe_to_are_exported(run_command: RunCommand, release: str) -> None:
    """While a group has members, statistics hide its other topics; a broker that tells no more is named."""
    left = MessageQueue("left", "broker-a", 0)
    with StubCluster(1, topics={TOPIC: 1, "left": 1}, emulate=release) as stub:
        cluster = open_cluster(ClusterSettings(parse_addresses(stub.name_server)))
        cluster.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
        for topic in (TOPIC, "left"):
            stub.put(topic, b"x", queue_id=0)
            cluster.offsets.commit(GROUP, {MessageQueue(topic, "broker-a", 0): 1})
        settings = PullConsumerSettings(group=GROUP, subscriptions=TOPIC, instance_name="one")
        with PullConsumer(stub.name_server, settings):
            until(lambda: stub.groups().get(GROUP), "it is a member")
            exported = run_command("offsets", "export", GROUP, name_server=stub.name_server)

    is_told = "broker-a tells only of topics to which live members of the group subscribe" in exported.err
    assert (left.topic in json.loads(exported.out)["positions"], is_told) == (release != "4.9.7", release == "4.9.7")


def test_an_export_is_imported(run: RunCommand, stub: StubCluster, tmp_path: Path) -> None:
    """`offsets import` puts another group where `offsets export` found one."""
    file = tmp_path / "exported.json"
    file.write_text(run("offsets", "export", GROUP).out)

    shown = run("offsets", "import", "copy", str(file))
    applied = run("offsets", "import", "copy", str(file), "--apply")

    assert (shown.code, applied.code) == (Exit.NEEDS_APPLY, Exit.DONE)
    assert stub.offsets("copy") == POSITIONS


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "FILE"),
        ("[]", "FILE"),
        ("{}", "no positions"),
        ('{"orders": {"broker-a": {"0": 6}}}', "offset 6 of orders/broker-a/0 lies outside 0..5"),
        ('{"orders": {"broker-z": {"0": 1}}}', "topic orders has no queue on broker broker-z"),
        ('{"orders": {"broker-a": {"0": -3}}}', "-2 (earliest), -1 (latest)"),
        ('{"orders": {"0": 1}}', "name the broker"),
    ],
)
def test_a_file_with_errors_is_refused(
    run: RunCommand, stub: StubCluster, tmp_path: Path, text: str, complaint: str
) -> None:
    """A file of positions with an error is refused with what is wrong, and nothing moves."""
    file = tmp_path / "broken.json"
    file.write_text(text)

    ran = run("offsets", "import", GROUP, str(file), "--apply")

    assert ran.code == Exit.USAGE and complaint in ran.err
    assert stub.offsets(GROUP) == POSITIONS


def test_a_missing_file_is_refused(run: RunCommand) -> None:
    """A file that does not exist is named in the error."""
    ran = run("offsets", "import", GROUP, "nowhere.json")

    assert ran.code == Exit.USAGE and "nowhere.json" in ran.err
