"""Check that the packages keep each import contract of setup.cfg, and that a forbidden import breaks it."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pyspark_rocketmq", "broker_stub")

# Contract, the module that breaks it, and the import.
WRONG_IMPORTS = [
    ("rooms", "pyspark_rocketmq/wire/planted.py", "import pyspark_rocketmq.net"),
    ("rooms", "pyspark_rocketmq/unplaced/planted.py", ""),
    ("rooms", "pyspark_rocketmq/client/planted.py", "import pyspark_rocketmq.planning"),
    ("deciding", "pyspark_rocketmq/allocation/planted.py", "import pyspark_rocketmq.wire"),
    ("deciding", "pyspark_rocketmq/planning/planted.py", "import pyspark_rocketmq.cluster"),
    ("columns", "pyspark_rocketmq/decode/planted.py", "import pyspark_rocketmq.net"),
    ("sockets", "pyspark_rocketmq/cluster/planted.py", "import socket"),
    ("sockets", "broker_stub/planted.py", "import asyncio"),
    ("arrow", "pyspark_rocketmq/pull/planted.py", "import pyarrow"),
    ("arrow", "pyspark_rocketmq/wire/planted.py", "import pyarrow"),
    ("spark", "pyspark_rocketmq/planning/planted.py", "import pyspark.sql"),
    ("pytest", "broker_stub/planted.py", "import pytest"),
    ("terminal", "pyspark_rocketmq/cluster/planted.py", "import click"),
    ("terminal", "pyspark_rocketmq/lag/planted.py", "import rich.table"),
    ("prometheus", "pyspark_rocketmq/monitor/planted.py", "import prometheus_client"),
    ("grpc", "pyspark_rocketmq/cluster/planted.py", "import grpc"),
    ("protobuf", "pyspark_rocketmq/net/planted.py", "import google.protobuf"),
    ("stub", "broker_stub/planted.py", "import pyspark_rocketmq.net"),
    ("stub-server", "broker_stub/server.py", "import broker_stub.store"),
    ("stub-state", "broker_stub/handlers/planted.py", "import broker_stub.server"),
    ("library", "pyspark_rocketmq/client/planted.py", "import broker_stub"),
    ("library", "pyspark_rocketmq/cli/planted.py", "import broker_stub"),
]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Return the path of a copy of both packages and setup.cfg, to which a test can add modules."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    return tmp_path


def contracts() -> dict[str, str]:
    """Return {identifier: name} of the import contracts in setup.cfg."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    prefix = "importlinter:contract:"
    return {name.removeprefix(prefix): config[name]["name"] for name in config.sections() if name.startswith(prefix)}


def check_imports(house: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter over a copy of the packages, with all contracts or only those given, and return the process."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    command = [sys.executable, "-c", code, "--no-cache", *chosen]
    return subprocess.run(command, cwd=house, capture_output=True, text=True, timeout=60, check=False)


def plant(house: Path, path: str, line: str) -> None:
    """Append the import `line` to the module at `path`; make it and the imported package where they do not exist."""
    imported = line.removeprefix("import ").replace(".", "/")
    for room in (Path(path).parent, Path(imported)):
        if room.parts[:1] in [(package,) for package in PACKAGES] and not (house / f"{room}.py").exists():
            (house / room).mkdir(parents=True, exist_ok=True)
            (house / room / "__init__.py").touch()
    with (house / path).open("a") as module:
        module.write(f"{line}\n")


def test_the_house_keeps_its_contracts(house: Path) -> None:
    """The packages as they are break no import contract."""
    result = check_imports(house)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("contract", "path", "line"), WRONG_IMPORTS)
def test_a_wrong_import_breaks_its_contract(house: Path, contract: str, path: str, line: str) -> None:
    """If a module gets a forbidden import, import-linter fails, and names the contract and the module."""
    plant(house, path, line)

    result = check_imports(house, contract)

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contracts()[contract]} BROKEN" in result.stdout
    assert path.removesuffix(".py").removesuffix("/planted").replace("/", ".") in result.stdout


def test_no_contract_is_left_untried() -> None:
    """Every contract in setup.cfg has a forbidden import in `WRONG_IMPORTS`."""
    assert {contract for contract, _, _ in WRONG_IMPORTS} == set(contracts())
