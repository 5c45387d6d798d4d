"""Run a query in a process of its own: read one batch, print "reads", and stop when standard input ends.

    python -m tests.source.other_query NAME_SERVER OPTIONS

`OPTIONS` is a JSON object of options of a streaming read.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

from tests.source.driving import Run, options_for

if __name__ == "__main__":
    with Run(options_for(SimpleNamespace(name_server=sys.argv[1]), **json.loads(sys.argv[2]))) as run:
        run.trigger()
        print("reads", flush=True)
        sys.stdin.read()
