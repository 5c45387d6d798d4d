"""Test that the Python programs in README.md run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


def programs() -> list[str]:
    """Return the source texts of the Python programs in README.md."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", programs())
def test_programs_of_the_readme_run(program: str) -> None:
    """Each Python program in README.md runs and prints the message that it sent."""
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=180, check=False
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert "two lattes" in done.stdout
