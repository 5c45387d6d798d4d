"""Run the programs in docs/client.md, and compare their output with the output in the page."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tools.page_blocks import ROOT, find_blocks

GUIDE = ROOT / "docs" / "client.md"
TIMEOUT_S = 120.0
_ADDRESS, _TOPIC = "localhost:9876", "orders"
_TAKES_CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Code that makes a program end at Ctrl-C; shells let programs in the background ignore it."""
_GROUP = re.compile(r'(group=|letters = DeadLetters\("[^"]*", )"(\w+)"')


class Program(NamedTuple):
    """A program of the guide, and the lines that it should print."""

    code: str
    lines: list[str]


def sections() -> dict[str, list[Program]]:
    """Return the programs of each section that has any, by the section's title."""
    found: dict[str, list[Program]] = {}
    for program, output in pairwise(find_blocks(GUIDE)):
        if (program.language, output.language) == ("python", "text"):
            found.setdefault(program.heading, []).append(Program(program.text, output.text.splitlines()))
    return found


def run_section(title: str, directory: Path, name_server: str, *, topic: str = _TOPIC, group_prefix: str = "") -> None:
    """Run a section's programs one after the other; raise if the output of one differs from the page.

    Programs that wait for messages are ended by Ctrl-C.
    """
    for program in sections()[title]:
        code = program.code.replace(_ADDRESS, name_server).replace(f'"{_TOPIC}"', f'"{topic}"')
        code = _GROUP.sub(rf'\1"{group_prefix}\2"', code)
        lines = _run(code, directory, program.lines)
        assert lines == program.lines, f"{title} prints {lines}"


def _run(code: str, directory: Path, expected: list[str]) -> list[str]:
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", _TAKES_CTRL_C + code],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = _read(process, len(expected))
        waits = "consumer.wait()" in code
        if waits:
            process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == (-signal.SIGINT if waits else 0), errors
        return lines + rest.splitlines()
    finally:
        process.kill()
        process.wait()


def _read(process: subprocess.Popen[str], count: int) -> list[str]:
    """Return the first `count` lines of a program's output; fewer if the program ends before."""
    assert process.stdout is not None
    arrived: queue.SimpleQueue[str] = queue.SimpleQueue()
    stdout = process.stdout

    def read() -> None:
        for _ in range(count):
            arrived.put(stdout.readline())

    threading.Thread(target=read, daemon=True).start()
    lines, end = list[str](), time.monotonic() + TIMEOUT_S
    while len(lines) < count and (line := arrived.get(timeout=max(0.0, end - time.monotonic()))):
        lines.append(line.rstrip("\n"))
    return lines
