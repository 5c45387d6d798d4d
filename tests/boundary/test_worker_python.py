"""A Python that cannot run Spark's workers is named before Spark starts it."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark.cloudpickle
import pytest
from pyspark import SparkFiles
from pyspark.errors import PySparkAttributeError

import pyspark_rocketmq
from pyspark_rocketmq import register
from pyspark_rocketmq.boundary.worker_python import require_worker_python
from pyspark_rocketmq.datasource import RocketMQDataSource
from pyspark_rocketmq.errors import SparkSetupError

CLOUDPICKLE: Any = pyspark.cloudpickle  # It has no types.
HERE = platform.python_version()


class MakePython:
    """Makes programs that tell what another Python would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, says: str, code: int = 0) -> str:
        """Return the path of a program that prints a text and ends."""
        path = self._folder / "python3"
        path.write_text(f'#!/bin/sh\nprintf "{says}"\nexit {code}\n')
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def make_python(tmp_path: Path) -> MakePython:
    """A maker of other Pythons."""
    return MakePython(tmp_path)


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder into which Spark puts the files of the job."""
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "userFiles"))
    return tmp_path / "userFiles"


class Session:
    """A session that notes what is registered in it."""

    def __init__(self, python: str) -> None:
        self.registered: list[Any] = []
        self.sparkContext = SimpleNamespace(pythonExec=python, environment={})
        self.dataSource = SimpleNamespace(register=self.registered.append)


def test_another_release_is_refused(make_python: MakePython) -> None:
    """Another minor version of Python is named, with this one and the variable to set."""
    python = make_python(r"3.6.15\n\n")

    with pytest.raises(SparkSetupError) as refused:
        require_worker_python(python)

    text = str(refused.value)
    assert text.startswith(f"[SPARK_SETUP] Spark would run its planner and workers with {python}")
    assert f"it is Python 3.6.15, and this program runs Python {HERE}" in text
    assert f"export PYSPARK_PYTHON={sys.executable}" in text


def test_missing_packages_are_refused(make_python: MakePython) -> None:
    """A Python of the same release that lacks packages is refused, and the packages are named."""
    with pytest.raises(SparkSetupError, match="it lacks pyspark_rocketmq, pyarrow;"):
        require_worker_python(make_python(rf"{HERE}\npyspark_rocketmq pyarrow\n"))


def test_a_program_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A wrong PYSPARK_PYTHON is named, such as the path of an archive that only executors unpack."""
    with pytest.raises(SparkSetupError, match="there is no such program on the driver") as refused:
        require_worker_python(str(tmp_path / "python9"))

    elsewhere = "where executors have it elsewhere, give their path in spark.sql.execution.pyspark.python"
    assert str(refused.value).endswith(f"export PYSPARK_PYTHON={sys.executable} before the session starts; {elsewhere}")


@pytest.mark.parametrize("code", [0, 1])
def test_an_equal_python_and_an_unknown_one_may_work(make_python: MakePython, code: int) -> None:
    """A Python with everything passes, and so does one that does not answer: Spark has the last word."""
    require_worker_python(make_python(rf"{HERE}\n\n", code))


def test_an_answer_that_nobody_understands_is_no_refusal(make_python: MakePython) -> None:
    """If a wrapper prints a greeting before Python's answer, its release is unknown, and Spark has the last word."""
    require_worker_python(make_python(rf"Welcome!\n{HERE}\npyarrow\n"))


def test_another_path_of_this_python_is_asked(tmp_path: Path) -> None:
    """A link to this Python without its packages is found out by asking it."""
    link = tmp_path / "python3"
    link.symlink_to(Path(sys.executable).resolve())
    found = str(link)

    with pytest.raises(SparkSetupError, match="it lacks no_such_package"):
        require_worker_python(found, ["no_such_package"])


def test_registering_checks_the_python_of_the_session(make_python: MakePython) -> None:
    """`register` refuses a session whose workers would run another Python, and registers nothing."""
    wrong, right = Session(make_python(r"3.6.15\n\n")), Session(sys.executable)

    with pytest.raises(SparkSetupError):
        register(wrong)  # type: ignore[arg-type]  # the part of a session that is used
    register(right)  # type: ignore[arg-type]

    assert (wrong.registered, right.registered) == ([], [RocketMQDataSource])


def test_a_package_that_travels_by_value_may_be_missing(make_python: MakePython) -> None:
    """If the user has chosen to pickle the package by value, workers need not have it."""
    session = Session(make_python(rf"{HERE}\n$(echo $3 | grep -o pyspark_rocketmq)\n"))
    CLOUDPICKLE.register_pickle_by_value(pyspark_rocketmq)
    try:
        register(session)  # type: ignore[arg-type]
    finally:
        CLOUDPICKLE.unregister_pickle_by_value(pyspark_rocketmq)

    assert session.registered == [RocketMQDataSource]
    with pytest.raises(SparkSetupError, match="it lacks pyspark_rocketmq"):
        register(session)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["spark.executorEnv.PYTHONPATH", "addPyFile", "PYTHONPATH"])
def test_packages_that_spark_brings_are_not_missing(
    way: str, make_python: MakePython, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python is asked with the path that Spark gives it: of the program, of executors, and with the job's files."""
    archive = str(shipped / "package.zip")
    session = Session(make_python(rf"{HERE}\n$(echo $PYTHONPATH | grep -q package.zip || echo pyspark_rocketmq)\n"))
    with pytest.raises(SparkSetupError, match="it lacks pyspark_rocketmq"):
        register(session)  # type: ignore[arg-type]

    if way == "addPyFile":
        monkeypatch.syspath_prepend(archive)
    elif way == "PYTHONPATH":
        monkeypatch.setenv(way, archive)
    else:
        session.sparkContext.environment["PYTHONPATH"] = archive
    register(session)  # type: ignore[arg-type]

    assert session.registered == [RocketMQDataSource]


def test_over_connect_the_server_chooses_its_python() -> None:
    """A session of Spark Connect has no context; nothing is checked."""

    class Remote:
        """A session of Spark Connect."""

        def __init__(self) -> None:
            self.registered: list[Any] = []
            self.dataSource = SimpleNamespace(register=self.registered.append)

        @property
        def sparkContext(self) -> Any:
            """Raise, as Spark Connect does."""
            raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "x"})

    session = Remote()
    register(session)  # type: ignore[arg-type]

    assert session.registered == [RocketMQDataSource]


def test_on_databricks_nothing_is_checked(make_python: MakePython, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Databricks the Python of the session may not be the one of its workers; nothing is checked."""
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    session = Session(make_python(rf"{HERE}\npyspark_rocketmq\n"))
    register(session)  # type: ignore[arg-type]

    assert session.registered == [RocketMQDataSource]
