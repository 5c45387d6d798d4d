"""Run the code blocks of one page: Python in one namespace, shell commands in one folder, both against a stub.

In a block `localhost:9876` stands for the stub, and so it does in what the block prints.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_stub import StubBroker
from pyspark_rocketmq.cluster.cluster import open_cluster
from pyspark_rocketmq.cluster.settings import ClusterSettings
from pyspark_rocketmq.model import MessageQueue, parse_addresses
from pyspark_rocketmq.wire.bodies import SubscriptionGroupConfig
from tools.page_blocks import ROOT, Block

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ADDRESS = "localhost:9876"
"""The name server that pages show."""
PAGE_S = 90.0
"""Seconds after which the queries of a page are stopped, and its shell commands end."""
GROUP, TOPICS = "etl", {"orders": 4, "payments": 2, "copies": 4}
COMMITTED = 10
"""The position of the group in each queue of `orders`."""
EVENTS = 30


class WrongOutput(AssertionError):
    """A block printed other text than its page shows."""


@contextmanager
def page_stub() -> Iterator[StubBroker]:
    """Run a stub with the topics, messages and group of which pages tell."""
    with StubBroker(TOPICS) as broker:
        for number in range(100):
            tag, shop = "TagB" if number % 2 else "TagA", {"shop": f"shop-{number % 3}"}
            broker.put("orders", b"order-%d" % number, keys=f"key-{number}", tags=tag, properties=shop)
        for number in range(10):
            broker.put("payments", b"payment-%d" % number, keys=f"key-{number}")
        positions = {MessageQueue("orders", "broker-a", queue): COMMITTED for queue in range(TOPICS["orders"])}
        cluster = open_cluster(ClusterSettings(parse_addresses(broker.name_server)))
        cluster.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
        cluster.offsets.commit(GROUP, positions)
        yield broker


@contextmanager
def page_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a page a session with views and settings of its own; stop its queries at the end, or when time is up."""
    session = spark.newSession()
    is_late = threading.Event()

    def stop_queries() -> None:
        for query in (*session.streams.active, *spark.streams.active):
            query.stop()

    def end() -> None:
        is_late.set()
        stop_queries()

    timer = threading.Timer(PAGE_S, end)
    timer.start()
    try:
        yield session
    finally:
        timer.cancel()
        stop_queries()
    assert not is_late.is_set(), f"the queries of the page took more than {PAGE_S:g} s, and were stopped"


def python_names(broker: StubBroker, session: SparkSession | None, folder: Path) -> dict[str, Any]:
    """Return the names that exist when the first Python block of a page runs."""
    names: dict[str, Any] = {
        "__name__": "__main__",
        "name_server": broker.name_server,
        "broker": broker,
        "checkpoint": str(folder / "checkpoint"),
        "folder": folder / "work",
    }
    (folder / "work").mkdir()
    if session is not None:
        names |= {"spark": session, "events": _events(session)}
    return names


def _events(session: SparkSession) -> DataFrame:
    rows = [(f"key-{number % 5}", "TagB" if number % 2 else "TagA", f"event-{number}") for number in range(EVENTS)]
    return session.createDataFrame(rows, "shardingKey STRING, tags STRING, body STRING")


def shell_environment(broker: StubBroker, folder: Path) -> dict[str, str]:
    """Return the environment of shell commands, in which the console commands are those of this checkout."""
    programs = folder / "programs"
    programs.mkdir()
    for name, module in (("pyspark-rocketmq", "pyspark_rocketmq"), ("rocketmq-stub", "broker_stub")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    own = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    return {**os.environ, **own, "PATH": path, "NAME_SERVER": broker.name_server}


def run_block(block: Block, names: dict[str, Any], environment: dict[str, str]) -> None:
    """Run a block; raise what it raises, or `WrongOutput` if it prints other text than its page shows."""
    address = environment["NAME_SERVER"]
    text = block.text.replace(ADDRESS, address)
    run = _run_python if block.language == "python" else _run_shell
    printed = run(block, text, names, environment).replace(address, ADDRESS)
    if block.printed is not None and _lines(printed) != _lines(block.printed):
        raise WrongOutput(f"{block.place} printed\n{printed}\nbut the page shows\n{block.printed}")


def _run_python(block: Block, text: str, names: dict[str, Any], _: dict[str, str]) -> str:
    """Run Python code with the line numbers of its page, and return what it printed."""
    code = compile("\n" * (block.line - 1) + text, str(block.page), "exec", dont_inherit=True)
    with redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue()


def _run_shell(block: Block, text: str, names: dict[str, Any], environment: dict[str, str]) -> str:
    """Run shell commands, which end at the first that fails; return what they printed."""
    command = ["sh", "-e", "-c", text]
    done = subprocess.run(
        command, cwd=names["folder"], env=environment, capture_output=True, text=True, timeout=PAGE_S, check=False
    )
    assert done.returncode == 0, f"{block.place} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]
