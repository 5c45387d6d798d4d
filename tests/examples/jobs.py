"""Load the jobs of `docs/examples` as modules."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
JOBS = sorted(EXAMPLES.glob("*.py"))


def load(name: str) -> ModuleType:
    """Return the job of this name as a module; it does not run."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse(job: ModuleType, *words: str | Path) -> argparse.Namespace:
    """Return the arguments of a job as it parses them."""
    given: argparse.Namespace = job.make_parser().parse_args([str(word) for word in words])
    return given
