"""Run the command line: `python -m pyspark_rocketmq` is the same as `pyspark-rocketmq`."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
