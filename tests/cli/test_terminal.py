"""Test commands in processes of their own: on terminals, interrupted, with a closed output, and what they import."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker_stub import StubCluster
from pyspark_rocketmq.cli.exits import Exit
from tests.cli.fixtures import environment
from tests.house.test_face import HEAVY

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "pyspark_rocketmq"]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
SECONDS = 60


def on_terminal(stub: StubCluster, *words: str, columns: int, **more: str) -> str:
    """Run a command on a terminal of this width, and return what it writes there."""
    ours, theirs = pty.openpty()
    shown = environment(stub, COLUMNS=str(columns), TERM="xterm-256color", **more)
    with subprocess.Popen([*PROGRAM, *words], cwd=ROOT, env=shown, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written = _read_all(ours)
        assert process.wait(SECONDS) == 0, written
    os.close(ours)
    return written.replace("\r\n", "\n")


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


@pytest.mark.parametrize("columns", [80, 200])
def test_tables_fit_the_terminal(cli_stub: StubCluster, columns: int) -> None:
    """On a terminal a table is no wider than it, its titles are bold, and no number or name is lost."""
    written = on_terminal(cli_stub, "lag", "billing", columns=columns)

    plain = ESCAPE.sub("", written)
    assert "\x1b[1m" in written
    assert max(map(len, plain.splitlines())) <= columns
    assert plain.count("orders") == 4 and "broker-b" in plain
    assert re.search(r"^total +12 ", plain, flags=re.MULTILINE)


def test_no_color_means_no_colours(cli_stub: StubCluster) -> None:
    """With NO_COLOR nothing on a terminal has a colour."""
    written = on_terminal(cli_stub, "topics", "list", columns=80, NO_COLOR="1")

    assert re.search(r"\x1b\[[0-9;]*3[0-7]m", written) is None
    assert "orders" in written


def test_an_interruption_is_one_line(cli_stub: StubCluster) -> None:
    """Ctrl-C ends a command with one line and exit code 130."""
    command = [*PROGRAM, "lag", "billing", "--watch", "--interval", "60", "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(cli_stub), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline().startswith('{"group": "billing"')
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)

    assert (process.returncode, said) == (Exit.INTERRUPTED, "interrupted; nothing was changed\n")


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
    """The command `stub` says where it is ready, serves, and ends with exit code 0 at Ctrl-C."""
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
