"""Find the Java that Spark would start."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["OLDEST_JAVA", "find_java", "java_release"]

OLDEST_JAVA = 17
"""The oldest release that Spark 4 runs on."""
_ANSWER_S = 30.0
_RELEASE = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(env: Mapping[str, str]) -> str | None:
    """Return the path of the Java in JAVA_HOME, or else in the PATH; None if there is none."""
    home = env.get("JAVA_HOME", "").strip()
    return shutil.which("java", path=str(Path(home) / "bin") if home else env.get("PATH"))


def java_release(java: str) -> int | None:
    """Return the release of a Java, such as 17, or 8 for 1.8; None if it does not tell."""
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _RELEASE.search(ran.stderr + ran.stdout)
    return int(found[1]) if found else None
