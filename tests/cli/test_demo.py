"""Test the command `demo`: its figures, what is missing, Ctrl-C, and that nothing is left behind.

The examples in docs/command-line.md differ by their seconds and name server only.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cli.commands import demo
from pyspark_rocketmq.cli.commands.demo import Play
from pyspark_rocketmq.cli.connection import Wanted
from pyspark_rocketmq.cli.demo.state import SHOPS, Sums
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.java import java_release
from pyspark_rocketmq.cli.screen import Screen
from pyspark_rocketmq.cli.session import Session
from pyspark_rocketmq.errors import RocketMQError
from pyspark_rocketmq.wire.codes import RequestCode, ResponseCode
from tests.cli.fixtures import ESCAPE, PROGRAM, ROOT, SECONDS, RunCommand
from tests.flows.world import until

DEMO = [*PROGRAM, "demo"]


def demo_environment(directory: Path, **more: str) -> dict[str, str]:
    """Return the environment of a demo that keeps its files in a directory."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "NAMESRV_ADDR")}
    return {**kept, "TMPDIR": str(directory), **more}


def processes_of(directory: Path) -> list[str]:
    """Return the command lines of processes that name a directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(directory) in words:
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


# --- figures ---------------------------------------------------------------------------------------------------------


def test_a_repeated_batch_counts_once() -> None:
    """Sums are those that were told last, so a batch that is told twice changes nothing."""
    sums = Sums()
    for now_s, batch in ((0.0, 7), (1.0, 7), (2.0, 8)):
        sums.add({"batch": batch, "sums": [[5_000, SHOPS[0], 3, 900], [0, SHOPS[1], 2, 100 * batch]]}, now_s)

    total = sums.total()
    assert (total.orders, total.cents, total.window_orders, total.window_cents) == (5, 1_700, 3, 900)
    assert sums.window and sums.window.ms == 5_000


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """The rate forgets what is older than five seconds."""
    sums = Sums()
    for second in range(20):
        orders = 1_000 if second < 10 else 1_000 + 50 * (second - 9)
        sums.add({"batch": second, "sums": [[0, SHOPS[0], orders, 0]]}, float(second))

    assert sums.rate(19.0) == 50


# --- the course -------------------------------------------------------------------------------------------------------


def make_state(sent: int, orders: int, lag: int = 0) -> Any:
    """Return the figures of a demo."""
    return SimpleNamespace(sent=sent, lag=lag, is_bound=False, total=SimpleNamespace(orders=orders))


def test_lost_orders_are_no_success() -> None:
    """If brokers hold fewer orders than were sent, the demo does not say that every order is read, and fails."""
    flow: Any = SimpleNamespace(stop=lambda: None)
    scene: Any = SimpleNamespace(incidents=())
    play = Play(scene, flow, seconds=1.0, begun_s=0.0)
    for now_s in (0.0, 1.0, 2.0):
        play.advance(now_s, make_state(sent=10, orders=8))
    assert not play.is_over
    with pytest.raises(RocketMQError, match="2 orders were not read within 60 s"):
        play.advance(62.0, make_state(sent=10, orders=8))

    play.advance(62.0, make_state(sent=10, orders=10))
    assert play.is_over


@pytest.mark.parametrize(("seconds", "times"), [(10.0, (2.5, 5.0)), (3_600.0, (900.0, 920.0))])
def test_a_broker_is_away_briefly(seconds: float, times: tuple[float, ...]) -> None:
    """In a long demo, too, the broker returns before its orders are too late for the job's watermark."""
    with demo._embedded(seconds) as scene:
        assert tuple(each[0] for each in scene.incidents) == times


def test_topics_that_are_left_are_told(run_command: RunCommand) -> None:
    """If topics cannot be removed, an interruption names them and does not say that they are removed."""
    with StubCluster(1) as stub:
        screen = Screen()
        session = Session(Wanted(stub.name_server), screen)
        ended = threading.Event()
        with demo._on_cluster(session, ended) as scene:
            assert scene.describe_end() == "Spark has ended, and the demo's topics are removed"
            stub.faults.answer(
                ResponseCode.NO_PERMISSION, on=RequestCode.DELETE_TOPIC_IN_BROKER, at="broker-a", times=1
            )

        assert scene.describe_end() == f"Spark has ended; topics that are left: {scene.orders}"


def test_topics_are_removed_although_a_broker_is_busy(run_command: RunCommand) -> None:
    """The end of the demo waits for brokers that cannot remove topics yet, and tries again."""
    with StubCluster(1) as stub:
        with demo._on_cluster(Session(Wanted(stub.name_server), Screen()), threading.Event()) as scene:
            stub.faults.busy(on=RequestCode.DELETE_TOPIC_IN_BROKER, at="broker-a", times=5)
        left = stub.run(lambda: {topic.topic_name for topic in stub.state.brokers[0].topics})

    assert scene.left == []
    assert not {scene.orders, scene.sums} & left


def test_a_demo_that_could_not_start_does_not_insist(run_command: RunCommand, refusing_address: str) -> None:
    """Where no topic could be made, their removal is tried once."""
    begun = time.monotonic()

    run_command("demo", "--name-server", refusing_address)

    assert time.monotonic() - begun < demo._REMOVAL_S / 2


def test_next_steps_can_be_started_and_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands after the demo begin as the user's shell finds the program, on 80 columns also in a checkout."""
    monkeypatch.setenv("PATH", os.defpath)
    program = Path(sys.executable).with_name("pyspark-rocketmq")
    monkeypatch.chdir(program.parents[2])
    with demo._embedded(10.0) as scene:
        pass

    assert all(f"  {step}".startswith(f"  {program.relative_to(Path.cwd())} ") for step in scene.next_steps)
    assert max(len(f"  {step}") for step in scene.next_steps) <= 80


def test_an_interruption_ends_the_wait_for_a_topic() -> None:
    """A demo that was interrupted does not wait until name servers know its topics."""
    with StubCluster(1) as stub:
        stub.faults.answer(ResponseCode.TOPIC_NOT_EXIST, on=RequestCode.GET_ROUTEINFO_BY_TOPIC, times=999)
        ended = threading.Event()
        threading.Timer(0.2, ended.set).start()
        begun = time.monotonic()
        with demo._on_cluster(Session(Wanted(stub.name_server), Screen()), ended):
            assert time.monotonic() - begun < 5
        stub.faults.clear()


def test_a_secret_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of the options need a secret, which the user types once."""
    typed = iter(["hidden"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(typed))
    monkeypatch.setattr(Screen, "may_ask", True)
    words = ("accessKey=me", "secretKey=-")
    session = Session(Wanted("127.0.0.1:1", None, words), Screen())

    assert session.options and session.raw_options["secretKey"] == "hidden"


def test_a_java_that_cannot_be_run_is_left_to_spark(tmp_path: Path) -> None:
    """A java that does not tell its release does not end the demo with an unexpected error."""
    assert java_release(str(tmp_path)) is None


# --- what is missing -------------------------------------------------------------------------------------------------


def test_missing_java_is_told(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java the demo says where it looked and what to do, before it starts anything."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    ran = run_command("demo")

    assert (ran.code, ran.out) == (Exit.FAILED, "")
    assert f"there is no Java in JAVA_HOME ({tmp_path})" in ran.err and "Java 17" in ran.err
    assert ran.err.count("\n") == 1


def test_old_java_is_told(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Java that is too old for Spark is refused with its release."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert "is of release 8; Spark needs Java 17" in run_command("demo").err


@pytest.mark.parametrize(
    ("found", "what", "advice"),
    [
        ("None", "PySpark is not installed for ", "pip install 'pyspark-rocketmq[spark]'"),
        ("type('', (), {'__version__': '3.5.6', '__spec__': ''})", "PySpark is 3.5.6, ", "pip install 'pyspark>=4.1"),
    ],
)
def test_a_pyspark_that_will_not_do_is_told(tmp_path: Path, found: str, what: str, advice: str) -> None:
    """Without PySpark, or with an old one, the demo names the command that installs it, before it starts Spark."""
    run = "from pyspark_rocketmq.cli.main import main; print(main(['demo']))"
    code = f"import sys; sys.modules['pyspark'] = {found}; {run}"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=demo_environment(tmp_path), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stdout) == (0, f"{int(Exit.FAILED)}\n")
    assert f"[SPARK_SETUP] {what}" in ran.stderr and advice in ran.stderr


def test_a_wrong_duration_is_told(run_command: RunCommand) -> None:
    """A duration of nothing is refused."""
    ran = run_command("demo", "--seconds", "0")

    assert ran.code == Exit.USAGE and "--seconds = '0': out of range" in ran.err


def test_an_unreachable_cluster_is_told(run_command: RunCommand, refusing_address: str) -> None:
    """On a cluster that cannot be reached the demo starts no Spark, and says so in one line for each of its topics."""
    ran = run_command("demo", "--name-server", refusing_address)

    assert (ran.code, ran.out) == (Exit.UNREACHABLE, "")
    assert ran.err.splitlines()[-1].startswith("[CONNECT] ")


# --- with Spark ------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_run_in_a_pipe_adds_up(run_command: RunCommand, tmp_path: Path) -> None:
    """Every state adds up; a broker dies and returns, and at the end every order that was sent is in a sum."""
    directory = tmp_path / "demo"
    directory.mkdir()
    ran = subprocess.run(
        [*DEMO, "--seconds", "2", "--json"],
        cwd=ROOT, env=demo_environment(directory), capture_output=True, text=True, timeout=SECONDS * 6, check=False,
    )  # fmt: skip
    states = [json.loads(line) for line in ran.stdout.splitlines()]

    assert (ran.returncode, ran.stderr) == (Exit.DONE, "")
    schema = run_command("demo", "--schema").document
    for state in states:
        jsonschema.validate(state, schema)
        require_sums(state)
    notes = list(dict.fromkeys(state["note"] for state in states))
    assert notes[0] == "Spark is starting, orders are waiting"
    assert notes.index("broker-b has died; orders go elsewhere") < notes.index(
        "broker-b is back; Spark reads what it missed"
    )
    last = states[-1]
    assert notes[-1] == last["note"] == "done: every order that was sent is read"
    assert last["sent"] == last["stored"] == last["total"]["orders"] > 0 and last["written"] > 0
    assert last["nextSteps"] and not any(state["nextSteps"] for state in states[:-1])
    assert (processes_of(directory), list(directory.iterdir())) == ([], [])


def require_sums(state: Any) -> None:
    """Check that the rows of a state add up to its total, and that what is stored is read or waits."""
    for figure in ("windowOrders", "windowCents", "orders", "cents"):
        assert sum(row[figure] for row in state["shops"]) == state["total"][figure]
    assert state["stored"] == state["total"]["orders"] + state["lag"]


class Shown:
    """A demo on a terminal of 80 columns, and what it has written there."""

    def __init__(self, directory: Path, command: Sequence[str] = DEMO) -> None:
        self._terminal, theirs = pty.openpty()
        environment = demo_environment(directory, COLUMNS="80", TERM="xterm-256color")
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.text = ""

    def wait_for(self, text: str) -> None:
        """Read until a text is shown, or the demo ends."""
        deadline = time.monotonic() + 2 * SECONDS
        while text not in self.text and select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                part = os.read(self._terminal, 65_536)
            except OSError:  # The other side is closed.
                return
            self.text += part.decode(errors="replace").replace("\r\n", "\n")

    def interrupt(self) -> None:
        """Press Ctrl-C, which reaches all processes that the terminal's shell would have started."""
        os.killpg(self.process.pid, signal.SIGINT)

    def last_picture(self) -> str:
        """Return what is left on the terminal: the last table, and what follows it."""
        return ESCAPE.sub("", self.text).split("\x1b[J")[-1]

    def close(self) -> None:
        """End the demo if a test has left it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._terminal)


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    """A demo on a terminal."""
    made = Shown(tmp_path)
    yield made
    made.close()


@pytest.mark.spark
@pytest.mark.parametrize("moment", ["Spark is starting", pytest.param("batch 0", marks=pytest.mark.slow)])
def test_an_interruption_is_one_line_and_leaves_nothing(shown: Shown, tmp_path: Path, moment: str) -> None:
    """Ctrl-C ends the demo at any time: the table stays, one line follows, and no process and no file is left."""
    shown.wait_for(moment)
    shown.interrupt()
    shown.wait_for("\0")

    assert shown.process.wait(SECONDS) == Exit.INTERRUPTED
    table, said = shown.last_picture().split("\n\ninterrupted; ")
    assert said == "the embedded brokers and Spark have ended\n"
    lines = [line for line in table.splitlines() if line.strip()]
    assert lines[0].startswith("Orders by shop, in ") and max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[3:8]] == [*SHOPS, "total"]
    until(lambda: not processes_of(tmp_path), "Spark's processes have ended")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.slow
def test_make_adds_no_line_to_an_interruption(tmp_path: Path) -> None:
    """Ctrl-C in `make demo` of README.md leaves the table and the line of the demo, as in the demo itself."""
    environment = Path(sys.executable).parents[1]
    make = ["make", "--no-print-directory", f"VENV={environment}", f"--old-file={environment}/.has-demo", "demo"]
    shown = Shown(tmp_path, make)
    try:
        shown.wait_for("Spark is starting")
        shown.interrupt()
        shown.wait_for("\0")

        assert shown.process.wait(SECONDS) == -signal.SIGINT
        assert shown.last_picture().endswith("\n\ninterrupted; the embedded brokers and Spark have ended\n")
    finally:
        shown.close()
