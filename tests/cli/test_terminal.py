"""Test commands on terminals, interrupted and with a closed output; in processes of their own, what they import."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest

from broker_stub import StubCluster
from broker_stub.faults import NAME_SERVER, Fault
from pyspark_rocketmq.cli.exits import Exit
from pyspark_rocketmq.cli.main import main
from pyspark_rocketmq.cli.table import find_command
from pyspark_rocketmq.cli.waiting import WaitingLine
from tests.cli.fixtures import ESCAPE, PROGRAM, ROOT, SECONDS, RunCommand, environment
from tests.cli.test_conventions import CONNECTING, EXAMPLES, first_example, words_of
from tests.house.test_face import HEAVY


def _read_all(terminal: int) -> str:
    parts = []
    deadline = time.monotonic() + SECONDS
    while select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # The other side is closed.
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()


# --- in this process, every example ----------------------------------------------------------------------------------


AS_IT_IS = {"completion", "peek", "tail", "find", "send"}
"""Commands that show lines of text, which a terminal folds."""
RunOnTerminal = Callable[..., tuple[int, str]]


@pytest.fixture
def run_on_terminal(run_command: RunCommand, stub_for: Callable[[str], StubCluster]) -> RunOnTerminal:
    """A function that runs a command in this process on a terminal of some width; it returns code and text.

    `run_command` has cleared the user's settings.
    """

    def run(words: list[str], columns: int = 80, **env: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        parts: list[str] = []
        reader = threading.Thread(target=lambda: parts.append(_read_all(ours)))
        reader.start()
        settings = {
            "NAMESRV_ADDR": stub_for(words[0]).name_server,
            "TERM": "xterm-256color",
            "COLUMNS": str(columns),
            **env,
        }
        with pytest.MonkeyPatch.context() as patch, open(theirs, "w", encoding="utf-8") as stream:
            for name, value in settings.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            code = main(words)
        reader.join(SECONDS)
        os.close(ours)
        return code, parts[0].replace("\r\n", "\n")

    return run


@contextmanager
def closed_stream() -> Iterator[TextIO]:
    """Yield a stream to a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield open(writing, "w", encoding="utf-8")


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_each_example_fits_a_terminal(run_on_terminal: RunOnTerminal, name: str, line: str) -> None:
    """On terminals of 80 and 200 columns no line of a table is wider; colours are there unless NO_COLOR is set."""
    words = words_of(line)
    narrow, wide = run_on_terminal(words, 80), run_on_terminal(words, 200)
    plain = run_on_terminal(words, 80, NO_COLOR="1")

    for (code, text), columns in ((narrow, 80), (wide, 200), (plain, 80)):
        assert code == Exit.DONE and text.strip()
        if name not in AS_IT_IS and "--json" not in line:
            assert max(map(len, ESCAPE.sub("", text).splitlines())) <= columns
    assert re.search(r"\x1b\[[0-9;]*[34][0-7]m", plain[1]) is None


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_each_example_is_plain_in_a_pipe(on_stub: RunCommand, name: str, line: str) -> None:
    """In a file or pipe there are no escapes and no blanks at the ends of lines."""
    ran = on_stub(*words_of(line))

    assert ran.code == Exit.DONE and "\x1b" not in ran.out + ran.err
    assert [each for each in ran.out.splitlines() if each != each.rstrip()] == []


@pytest.mark.parametrize("form", ["", " --json"], ids=["text", "json"])
@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_each_example_ends_silently_when_nobody_reads(
    on_stub: RunCommand,
    stub_for: Callable[[str], StubCluster],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    line: str,
    form: str,
) -> None:
    """If the reader of its output goes away, each command ends with exit code 141, silently if it changed nothing."""
    monkeypatch.setenv("NAMESRV_ADDR", stub_for(name.split()[0]).name_server)
    capsys.readouterr()

    assert run_unread(monkeypatch, *words_of(line + form)) == Exit.OUTPUT_CLOSED
    assert ("the output was closed; " if name == "send" else "") in (said := capsys.readouterr().err)
    assert name == "send" or said == ""


def run_unread(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run a command whose output nobody reads, and return the exit code."""
    with closed_stream() as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        code = main(words)
        stream.close()
    return code


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_process_without_a_stream(stream: str) -> None:
    """A command that is started without one of its streams does its work, and writes nothing to another one."""
    number = ("stdin", "stdout", "stderr").index(stream)
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {number}{"<" if number == 0 else ">"}&-', "sh", *PROGRAM, "explain", "nothing"],
        cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stdout) == (Exit.NOT_FOUND, "")
    assert ran.stderr.count("\n") == (0 if stream == "stderr" else 1)


def test_help_ends_silently_when_nobody_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parser, which writes help, keeps the exit code of a closed output."""
    assert (run_unread(monkeypatch, "--help"), capsys.readouterr().err) == (Exit.OUTPUT_CLOSED, "")


_PRESS_S = 0.05
"""Time after a request at which a key is pressed: while Python begins to wait, it would miss the signal."""


def interrupt_at(fault: Fault) -> None:
    """Press Ctrl-C, as it were, when a request has met a fault."""

    def press() -> None:
        deadline = time.monotonic() + SECONDS
        while not fault.fired and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(_PRESS_S)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()


@pytest.fixture
def mute_stub() -> Iterator[tuple[StubCluster, Fault]]:
    """A stub whose name server never answers, and the fault that counts requests to it."""
    with StubCluster() as stub:
        yield stub, stub.faults.drop_reply(at=NAME_SERVER, times=None)


@pytest.mark.parametrize("name", CONNECTING)
def test_each_command_ends_at_ctrl_c(run_command: RunCommand, mute_stub: tuple[StubCluster, Fault], name: str) -> None:
    """Ctrl-C while a command waits for a server ends it at once, with one line and exit code 130."""
    stub, fault = mute_stub
    interrupt_at(fault)
    began = time.monotonic()

    ran = run_command(*first_example(find_command(name)), name_server=stub.name_server)

    assert (ran.code, ran.out, ran.err.count("\n")) == (Exit.INTERRUPTED, "", 1)
    assert re.match("interrupted; (nothing was changed|0 messages landed)", ran.err)
    assert time.monotonic() - began < 2


def test_ctrl_c_is_json_with_json(run_command: RunCommand, mute_stub: tuple[StubCluster, Fault]) -> None:
    """With `--json` an interruption is an object, too."""
    stub, fault = mute_stub
    interrupt_at(fault)

    ran = run_command("topics", "list", "--json", name_server=stub.name_server)

    assert (ran.error["code"], ran.error["exit"]) == ("INTERRUPTED", 130)


def test_ctrl_c_without_a_reader_of_errors(
    run_command: RunCommand, mute_stub: tuple[StubCluster, Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nobody reads stderr either, as in `2>&1 | head`, Ctrl-C ends the command without a traceback."""
    stub, fault = mute_stub
    interrupt_at(fault)
    with closed_stream() as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        code = run_command("topics", "list", name_server=stub.name_server).code
        stream.close()

    assert code == Exit.OUTPUT_CLOSED


def test_an_idle_stream_notices_that_nobody_reads(
    run_command: RunCommand, cli_stub: StubCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tail` on a topic without new messages ends when its reader is gone, not only at the next message."""
    monkeypatch.setenv("NAMESRV_ADDR", cli_stub.name_server)

    assert run_unread(monkeypatch, "tail", "orders") == Exit.OUTPUT_CLOSED


def test_a_slow_command_tells_that_it_waits(run_on_terminal: RunOnTerminal) -> None:
    """After two seconds a line on the terminal tells what a command waits for, and it disappears."""
    with StubCluster() as stub:
        stub.faults.delay(2300, at=NAME_SERVER)
        code, text = run_on_terminal(["brokers"], NAMESRV_ADDR=stub.name_server)

    assert code == Exit.DONE
    _, waited, rest = text.partition("brokers: waiting for the cluster … 2 s")
    assert waited and rest.startswith("\r\x1b[K") and "broker-a" in rest


@pytest.mark.parametrize("words", [["tail", "orders"], ["lag", "billing", "--watch"]], ids=lambda words: words[0])
def test_a_stream_tells_that_it_waits_for_the_cluster(run_on_terminal: RunOnTerminal, words: list[str]) -> None:
    """A command that goes on tells what it waits for until it has begun, and ends as others if it cannot begin."""
    with StubCluster() as stub:
        stub.faults.delay(2300, at=NAME_SERVER)
        code, text = run_on_terminal([*words], NAMESRV_ADDR=stub.name_server)

    assert code == Exit.NOT_FOUND and f"{words[0]}: waiting for the cluster … 2 s\r\x1b[K" in text


@pytest.mark.parametrize(
    ("columns", "drawn"), [(4, " … "), (20, "brokers: wait … 0 s"), (80, "brokers: waiting for the cluster … 0 s")]
)
def test_the_waiting_line_fits_the_terminal(columns: int, drawn: str) -> None:
    """A line that a narrow terminal folds could not be erased."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(theirs, "w", encoding="utf-8") as terminal:
        with WaitingLine(terminal, "brokers: waiting for the cluster", silent_s=0.01):
            assert select.select([ours], [], [], SECONDS)[0]
        written = b""
        while written.count(b"\x1b[K") < 2:
            written += os.read(ours, 65_536)
    os.close(ours)

    assert written.decode() == f"\r\x1b[K{drawn}\r\x1b[K"


# --- in processes of their own ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pressed", [b"\x03", b"\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_question_can_be_refused(cli_stub: StubCluster, pressed: bytes) -> None:
    """Ctrl-C and Ctrl-D at the question for a secret end the command with one line and exit code 130."""
    ours, theirs = pty.openpty()
    words = ["topics", "list", "-o", "accessKey=-", "-o", "secretKey=-"]
    with subprocess.Popen(
        [*PROGRAM, *words], cwd=ROOT, env=environment(cli_stub), stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:  # fmt: skip
        os.close(theirs)
        written = b""
        while b"accessKey:" not in written:
            assert select.select([ours], [], [], SECONDS)[0]
            written += os.read(ours, 65_536)
        os.write(ours, pressed)
        said = _read_all(ours)
        code = process.wait(SECONDS)
    os.close(ours)

    assert code == Exit.INTERRUPTED
    assert said.strip() == "interrupted; nothing was changed"


@pytest.mark.parametrize("columns", [80, 200])
def test_tables_fit_the_terminal(run_on_terminal: RunOnTerminal, columns: int) -> None:
    """On a terminal a table is no wider than it, its titles are bold, and no number or name is lost."""
    _, written = run_on_terminal(["lag", "billing"], columns)

    plain = ESCAPE.sub("", written)
    assert "\x1b[1m" in written
    assert max(map(len, plain.splitlines())) <= columns
    assert plain.count("orders") == 4 and "broker-b" in plain
    assert re.search(r"^total +[0-9]+ ", plain, flags=re.MULTILINE)


def test_a_terminal_without_a_width_is_a_usual_one(run_on_terminal: RunOnTerminal) -> None:
    """With COLUMNS=0, as some terminals in containers have it, nothing disappears."""
    _, written = run_on_terminal(["lag", "billing"], 0)

    assert ESCAPE.sub("", written).count("orders") == 4


def test_no_color_means_no_colours(run_on_terminal: RunOnTerminal) -> None:
    """With NO_COLOR nothing on a terminal has a colour."""
    _, written = run_on_terminal(["topics", "list"], NO_COLOR="1")

    assert re.search(r"\x1b\[[0-9;]*3[0-7]m", written) is None
    assert "orders" in written


def test_an_interruption_is_one_line(cli_stub: StubCluster) -> None:
    """Ctrl-C ends a command with one line, with `--json` an object, and exit code 130."""
    command = [*PROGRAM, "lag", "billing", "--watch", "--interval", "60", "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(cli_stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline().startswith('{"group": "billing"')
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)

    assert process.returncode == Exit.INTERRUPTED
    assert json.loads(said)["what"] == "interrupted; nothing was changed"


def test_an_output_that_is_closed_early_is_no_error(cli_stub: StubCluster) -> None:
    """If the reader of its output goes away, a command ends silently with exit code 141."""
    reading, writing = os.pipe()
    os.close(reading)

    ran = subprocess.run(
        [*PROGRAM, "options"],
        cwd=ROOT, env=environment(cli_stub), stdout=writing, stderr=subprocess.PIPE, text=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    os.close(writing)

    assert (ran.returncode, ran.stderr) == (Exit.OUTPUT_CLOSED, "")


def test_a_full_disk_is_one_line(cli_stub: StubCluster) -> None:
    """If a result or help cannot be written, a command says so in one line, and exits with 1."""
    for words in (["topics", "list"], ["--help"], ["tail", "orders", "--from", "earliest"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            ran = subprocess.run(
                [*PROGRAM, *words],
                cwd=ROOT, env=environment(cli_stub), stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS,
                check=False,
            )  # fmt: skip

        assert (ran.returncode, ran.stderr.count("\n")) == (Exit.FAILED, 1)
        assert "the result could not be written: No space left on device" in ran.stderr


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", ">&-", "<&- >&- 2>&-"])
def test_a_missing_stream_changes_no_exit_code(cli_stub: StubCluster, streams: str) -> None:
    """A process that was started without a stream, or with a full one for errors, has its exit code all the same."""
    line = f'"$@" topics show nowhere {streams}'

    ran = subprocess.run(
        ["sh", "-c", line, "sh", *PROGRAM],
        cwd=ROOT, env=environment(cli_stub), capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stdout) == (Exit.NOT_FOUND, "") and "unexpected" not in ran.stderr


def test_only_debug_shows_a_traceback_and_no_secret(refusing_address: str, cli_stub: StubCluster) -> None:
    """With `--debug` an error comes with log lines and its traceback, and with no secret."""
    words = ["topics", "list", "--name-server", refusing_address, "-o", "accessKey=me", "-o", "secretKey=tell-nobody"]
    plain, debug = (
        subprocess.run(
            [*PROGRAM, *words, *more], cwd=ROOT, env=environment(cli_stub), capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )
        for more in ([], ["--debug"])
    )  # fmt: skip

    assert plain.returncode == debug.returncode == Exit.UNREACHABLE
    assert "Traceback" not in plain.stderr and "Traceback" in debug.stderr
    assert "tell-nobody" not in plain.stderr + debug.stderr


def test_help_imports_nothing_heavy() -> None:
    """Help comes without the modules of any command, without the network and without tables."""
    code = (
        "import sys; from pyspark_rocketmq.cli.main import main; code = main(['--help']); "
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=True
    )

    loaded = set(ran.stderr.split())
    rooms = {name.split(".")[1] for name in loaded if name.startswith("pyspark_rocketmq.")}
    assert (HEAVY | {"rich"}) & loaded == set()
    assert rooms == {"cli", "errors", "_version"}


@pytest.mark.parametrize("words", [["lag", "billing", "--json"], ["topics", "list"]], ids=lambda words: words[0])
def test_commands_import_neither_spark_nor_arrow(cli_stub: StubCluster, words: list[str]) -> None:
    """A command that talks to a cluster imports neither Spark nor Arrow."""
    code = (
        f"import sys; from pyspark_rocketmq.cli.main import main; code = main({words!r}); "
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=environment(cli_stub), capture_output=True, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip

    assert {"pyspark", "py4j", "pyarrow", "numpy", "pandas", "grpc"} & set(ran.stderr.split()) == set()


def test_words_are_completed(cli_stub: StubCluster) -> None:
    """The completion of bash knows commands, commands of two words, options and choices."""

    def complete(*words: str) -> set[str]:
        asked = {
            "_PYSPARK_ROCKETMQ_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["pyspark-rocketmq", *words]),
            "COMP_CWORD": str(len(words)),
        }
        ran = subprocess.run(
            PROGRAM, cwd=ROOT, env=environment(cli_stub, **asked), capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
        return {line.partition(",")[2] for line in ran.stdout.splitlines()}

    assert {"lag"} == complete("la")
    assert {"list", "show"} == complete("topics", "")
    assert {"--max"} == complete("lag", "--ma")


def test_the_stub_runs_until_it_is_ended(cli_stub: StubCluster) -> None:
    """The command `stub` says where it is ready, serves, and ends with exit code 0 at Ctrl-C.

    Its example in docs/command-line.md differs by the name of the topic only.
    """
    command = [*PROGRAM, "stub", "--port", "0", "--grpc-port", "0", "--topic", "trades:3"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(cli_stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        ready = re.fullmatch(r"nameServer=(\S+) endpoints=\S+\n", process.stdout.readline())
        assert ready
        shown = subprocess.run(
            [*PROGRAM, "topics", "list", "--name-server", ready[1]],
            cwd=ROOT, env=environment(cli_stub), capture_output=True, text=True, timeout=SECONDS, check=True,
        )  # fmt: skip
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)

    assert re.search(r"^trades +user +3 ", shown.stdout, flags=re.MULTILINE)
    assert (process.returncode, said) == (0, "")
