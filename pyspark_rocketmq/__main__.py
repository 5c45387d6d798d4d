"""Run the command line: `python -m pyspark_rocketmq` is the same as `pyspark-rocketmq`.

Without further words it tells what is installed, for which it needs no extra.
"""

from __future__ import annotations

import os
import sys

from .cli.installation import describe_installation
from .cli.main import main
from .cli.program import COMPLETE_VARIABLE


def run() -> int:
    """Run the command that the words of this process name, or tell what is installed; return the exit code."""
    if sys.argv[1:] or COMPLETE_VARIABLE in os.environ:
        return main()
    print(describe_installation(os.environ))
    return 0


if __name__ == "__main__":
    sys.exit(run())
