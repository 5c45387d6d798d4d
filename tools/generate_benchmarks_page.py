"""Write docs/benchmarks/README.md, the overview of all goals, from the saved figures beside it.

With `--check` nothing is written; the exit status is 1 if the file is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench.report import summary  # noqa: E402  # the script runs from a plain checkout
from tests.bench.results import load_all  # noqa: E402
from tools.generated import keep  # noqa: E402

FOLDER = ROOT / "docs" / "benchmarks"


if __name__ == "__main__":
    sys.exit(keep(FOLDER / "README.md", summary(load_all(FOLDER / "results")) + "\n"))
