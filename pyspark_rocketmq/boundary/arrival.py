"""Pickle objects for Spark's workers so that a worker without the package says so in one sentence.

Spark sends readers and writers to executors as pickled objects that name their classes. A Python without this package
then fails with the name of a module, in the middle of Spark's frames. So an object is wrapped into a small function
that is pickled by value. The function opens the object, and tells which Python on which host lacks what, on stderr
of the worker and in its error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .calls import runs_in_spark

__all__ = ["travel", "travel_whole"]


def travel(make: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """Return what `__reduce__` has to return for an object that `make` makes again from these arguments.

    Outside of Spark's own processes nothing is wrapped, because only Spark's pickler takes functions by value.
    """
    if not runs_in_spark():
        return make, arguments
    from pyspark import cloudpickle

    pickler: Any = cloudpickle  # It has no types.
    return _make_opener(), (pickler.dumps((make, arguments)),)


def travel_whole(each: object) -> tuple[Any, ...]:
    """Return what `__reduce__` has to return for an object that is restored from its attributes, as pickle does it."""
    return travel(_restore, type(each), vars(each).copy())


def _restore(kind: type[Any], state: dict[str, Any]) -> Any:
    each = object.__new__(kind)
    vars(each).update(state)
    return each


def _make_opener() -> Callable[[bytes], Any]:
    """Return a function that is pickled by value, because no module has it; it therefore uses no global name."""

    def open_here(packed: bytes) -> Any:
        import os
        import pickle
        import platform
        import sys

        try:
            make, arguments = pickle.loads(packed)
        except ModuleNotFoundError as error:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            name = error.name or ""
            package = name.partition(".")[0]
            if sys.modules.get(package):  # A module of it is missing.
                what = f"has another release of {package}, without {name}; install the driver's release on that host"
            else:
                what = f"lacks {package}, which reads and writes messages there; "
                what += "pip install pyspark-rocketmq on that host"
            where = f"{sys.executable} (Python {platform.python_version()}) on host {platform.node()}"
            text = f"[SPARK_SETUP] {where} {what}, or ship an environment with spark.archives"
            print(text, file=sys.stderr, flush=True)
            raise RuntimeError(text) from None
        return make(*arguments)

    return open_here
