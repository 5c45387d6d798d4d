"""Build the wheel and check what is in it; slow tests make a whole release and install it with each Python."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import pyspark_rocketmq

ROOT = Path(__file__).parents[2]
PACKAGES = ("pyspark_rocketmq", "broker_stub")
EXTRAS = {"spark", "grpc", "cli", "monitor"}
"""The extras of users; `all` has them together."""
PYTHONS = ("3.11", "3.12", "3.13")
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
_INSTALL_S = 1200


def copy_tree(folder: Path) -> Path:
    """Copy the files of this repository that are, or would be, committed."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(command: list[str], folder: Path, **more: str) -> str:
    """Run a program that knows nothing of this checkout, and return what it prints; fail with its words if it fails."""
    hidden = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=_INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-1500:]} {done.stderr[-3000:]}"
    return done.stdout


def metadata_of(wheel: Path) -> Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


# --- what is in it ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made from a copy of the tree, without the network."""
    tree, out = copy_tree(tmp_path_factory.mktemp("tree")), tmp_path_factory.mktemp("out")
    build = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(out), str(tree)]
    run([sys.executable, *PIP, *build], tree)
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    """The wheel has the files of both packages, data and `py.typed` among them, and nothing else of the repository."""
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES], ROOT).split()
    files = {name for name in listed if (ROOT / name).is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert packed == files
    assert {f"{package}/py.typed" for package in PACKAGES} < packed


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    """Name, version, Python, license and stage are those of a beta, and the description is the README."""
    metadata = metadata_of(wheel)

    assert wheel.name == f"pyspark_rocketmq-{pyspark_rocketmq.__version__}-py3-none-any.whl"
    assert (metadata["Name"], metadata["Version"]) == ("pyspark-rocketmq", pyspark_rocketmq.__version__)
    assert (metadata["Requires-Python"], metadata["License-Expression"]) == (">=3.11", "Apache-2.0")
    assert "Development Status :: 4 - Beta" in metadata.get_all("Classifier", [])
    assert str(metadata.get_payload()).strip() == (ROOT / "README.md").read_text().strip()


def test_the_extra_all_has_the_extras_of_users(wheel: Path) -> None:
    """The extra `all` names every extra of users; each of these needs something."""
    needed = metadata_of(wheel).get_all("Requires-Dist", [])
    by_extra = {extra: [line for line in needed if f'extra == "{extra}"' in line] for extra in (*EXTRAS, "all")}

    assert all(by_extra.values())
    (everything,) = by_extra["all"]
    assert set(re.findall(r"\w+", everything.partition("[")[2].partition("]")[0])) == EXTRAS


def test_every_classified_python_is_one_that_is_tested() -> None:
    """The classifiers name the releases of Python with which the wheel is installed by a test."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    named = re.findall(r"Python :: (3\.\d+)$", config["metadata"]["classifiers"], flags=re.MULTILINE)

    assert tuple(named) == PYTHONS


def test_the_unpacked_wheel_tells_what_is_installed(wheel: Path, tmp_path: Path) -> None:
    """`python -m pyspark_rocketmq` runs from the wheel alone, and names its version."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)

    said = run([sys.executable, "-m", "pyspark_rocketmq"], tmp_path)

    assert said.startswith(f"pyspark_rocketmq {pyspark_rocketmq.__version__}: ")


# --- a whole release -------------------------------------------------------------------------------------------------


READ = """
from pyspark.sql import SparkSession
from broker_stub import StubBroker
import pyspark_rocketmq, sys

assert pyspark_rocketmq.__file__.startswith(sys.prefix), pyspark_rocketmq.__file__
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
with StubBroker(topics={"orders": 1}) as broker:
    options = {"nameServer": broker.name_server, "topic": "orders"}
    spark.createDataFrame([("two lattes",)], "body string").write.format("rocketmq").options(**options).mode(
        "append"
    ).save()
    rows = spark.read.format("rocketmq").options(**options).load().selectExpr("cast(body as string)").collect()
spark.stop()
print([row.body for row in rows])
"""


def python_of(release: str) -> str | None:
    """Return a Python of this release, from the PATH or from pyenv; None if this machine has none."""
    if sys.version.startswith(f"{release}."):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [*sorted(pyenv.glob(f"{release}.*/bin/python")), shutil.which(f"python{release}")]
    return next((str(found) for found in candidates if found), None)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with wheel and sdist of a release, made by the release script from a copy whose suite is green."""
    folder = tmp_path_factory.mktemp("release")
    tree, tools = copy_tree(folder / "tree"), folder / "tools"
    venv.create(tools, with_pip=True)
    run([str(tools / "bin" / "python"), *PIP, "install", "build", "twine"], folder)
    (tree / ".ci" / "run").write_text("#!/bin/sh\n")
    who = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        run(["git", *words], tree, **who)
    said = run([str(tools / "bin" / "python"), "tools/release.py", "--apply"], tree, **who)
    assert f"tagged v{pyspark_rocketmq.__version__}" in said and said.count("PASSED") == 2
    yield tree / "dist"


@pytest.mark.slow
def test_the_sdist_makes_the_same_wheel(distributions: Path, wheel: Path, tmp_path: Path) -> None:
    """A wheel that is built from the sdist has the files of the one that was built from the tree."""
    (sdist,) = distributions.glob("*.tar.gz")
    run([sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(sdist)], tmp_path)
    (made,) = tmp_path.glob("*.whl")

    def contents(path: Path) -> dict[str, int]:
        with zipfile.ZipFile(path) as archive:
            return {each.filename: each.CRC for each in archive.infolist() if not each.filename.endswith("/RECORD")}

    assert contents(made) == contents(wheel)


@pytest.mark.slow
@pytest.mark.parametrize("release", PYTHONS)
def test_without_extras_the_clients_work(distributions: Path, tmp_path: Path, release: str) -> None:
    """The plain wheel has clients, stub and the list of what is missing; its command line says what to install."""
    python = make_environment(tmp_path, release, distributions)
    client = (
        "from broker_stub import StubBroker\nfrom pyspark_rocketmq.client import Message, Producer, ProducerSettings\n"
        "with StubBroker({'orders': 1}) as broker:\n"
        "    with Producer(broker.name_server, ProducerSettings(group='shop')) as producer:\n"
        "        print(producer.send(Message('orders', b'tea')).status.name)\n"
    )

    assert run([python, "-c", client], tmp_path) == "SUCCESS\n"
    said = run([python, "-m", "pyspark_rocketmq"], tmp_path)
    for extra in EXTRAS:
        assert f"pip install 'pyspark-rocketmq[{extra}]'" in said
    refused = subprocess.run(
        [Path(python).with_name("pyspark-rocketmq"), "options"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "pip install 'pyspark-rocketmq[cli]'" in refused.stderr


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("release", PYTHONS)
def test_with_all_extras_spark_reads_and_writes(distributions: Path, tmp_path: Path, release: str) -> None:
    """With the extra `all` nothing is missing or in conflict, the demo is there, and Spark reads and writes."""
    python = make_environment(tmp_path, release, distributions, "[all]")

    run([python, *PIP, "check"], tmp_path)
    assert "not installed" not in run([python, "-m", "pyspark_rocketmq"], tmp_path)
    assert "--seconds" in run([str(Path(python).with_name("pyspark-rocketmq")), "demo", "--help"], tmp_path)
    assert run([python, "-c", READ], tmp_path, PYSPARK_PYTHON=python) == "['two lattes']\n"


def make_environment(folder: Path, release: str, distributions: Path, extras: str = "") -> str:
    """Install the wheel into an environment of its own, and return its Python; skip if there is no such Python."""
    base = python_of(release)
    if base is None:
        pytest.skip(f"there is no Python {release} on this machine")
    python = str(folder / "venv" / "bin" / "python")
    run([base, "-m", "venv", str(folder / "venv")], folder)
    (wheel,) = distributions.glob("*.whl")
    run([python, *PIP, "install", f"{wheel}{extras}"], folder)
    return python
