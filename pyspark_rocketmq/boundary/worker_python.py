"""Check the Python that Spark starts for planners and workers.

Spark starts the Python that `PYSPARK_PYTHON` names, or else the first `python3` of the path. A program that runs in a
virtual environment therefore gets another Python there, with other packages. The check runs in the user's program,
before Spark starts that Python. `doctor --spark` also looks at executors on other machines.

A Python that may do the work is not refused. So it is asked in the environment in which Spark starts it: with the
variables of `spark.executorEnv`, and with the files that the job ships (`--py-files`, `addPyFile`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import SparkSetupError

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["environment_of_workers", "require_worker_python"]

_ANSWER_S = 30.0
_NEEDED = ("pyarrow", "numpy", "sortedcontainers")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_LOOK = (
    "import sys, importlib.util as u; print('%d.%d.%d' % sys.version_info[:3]); "
    "print(*[name for name in sys.argv[1:] if u.find_spec(name) is None])"
)


class _Found(NamedTuple):
    """The release of another Python, and the packages that it lacks."""

    release: str
    missing: list[str]


def environment_of_workers(context: SparkContext) -> dict[str, str]:
    """Return the environment in which Spark starts Python for a session; `PYTHONPATH` has the files of the job, too."""
    from pyspark import SparkFiles

    shipped = SparkFiles.getRootDirectory()  # PySpark adds this folder, and archives in it, to the path of the program.
    paths = [path for path in map(str, sys.path) if path.startswith(shipped)]
    paths += [each["PYTHONPATH"] for each in (context.environment, os.environ) if each.get("PYTHONPATH")]
    return {**os.environ, **context.environment, "PYTHONPATH": os.pathsep.join(paths)}


def require_worker_python(
    command: str, packages: Iterable[str] = ("pyspark_rocketmq",), environment: Mapping[str, str] | None = None
) -> None:
    """Raise `SparkSetupError` if the Python that Spark would start is another one, and cannot do the work.

    Args:
        command: The program that Spark starts, for example `python3`.
        packages: The packages that it needs besides those that the data source imports.
        environment: The variables with which Spark starts it; None stands for those of this program.
    """
    path = shutil.which(command)
    if path is None:
        raise _refuse(command, "there is no such program on the driver")
    if os.path.abspath(path) == os.path.abspath(sys.executable):
        return
    found = _ask(path, [*packages, *_NEEDED], environment)
    if found is None:
        return  # It may still work; if not, Spark says why.
    if _minor(found.release) != _minor(_release()):
        raise _refuse(path, f"it is Python {found.release}, and this program runs Python {_release()}")
    if found.missing:
        raise _refuse(path, f"it lacks {', '.join(found.missing)}")


def _ask(path: str, packages: list[str], environment: Mapping[str, str] | None) -> _Found | None:
    """Ask a Python for its release and the packages that it lacks; return None without an answer to understand."""
    command = [path, "-c", _LOOK, *packages]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_ANSWER_S, check=True,
            stdin=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    release, _, missing = ran.stdout.partition("\n")
    return _Found(release, missing.split()) if _RELEASE.fullmatch(release) else None


def _release() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _minor(release: str) -> list[str]:
    return release.split(".")[:2]


def _refuse(command: str, why: str) -> SparkSetupError:
    what = f"Spark would run its planner and workers with {command}, which cannot do it: {why}"
    advice = (
        f"export PYSPARK_PYTHON={sys.executable} before the session starts; where executors have it elsewhere, give "
        "their path in spark.sql.execution.pyspark.python"
    )
    return SparkSetupError(what, advice=advice)
