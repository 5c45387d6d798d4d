"""Test that a worker which decodes many batches reuses the memory that it got from the operating system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES_COUNTED = """
from dataclasses import replace
from resource import RUSAGE_SELF, getrusage
from pyspark_rocketmq.decode.decoder import ColumnDecoder
from pyspark_rocketmq.decode.columns import Layout, default_columns
from pyspark_rocketmq.decode.columns import Content
from tests.decode.samples import block, property_text, whole
from tests.decode.samples import PLAIN

text = property_text([(name, "v" * 30) for name in ("KEYS", "UNIQ_KEY", "TAGS", "a", "b", "c")])
message = replace(PLAIN, body=b"x" * 1024, properties_text=text)
blocks = [block([message] * 32) for _ in range(184)]
decoder = ColumnDecoder(default_columns(Layout.ROCKETMQ), Content(system_properties=True))
for batch in range(13):
    if batch == 3:
        before = getrusage(RUSAGE_SELF).ru_minflt
    whole(decoder, blocks)
print((getrusage(RUSAGE_SELF).ru_minflt - before) // 10)
"""


def test_later_batches_touch_no_new_pages() -> None:
    """Later batches cause few page faults.

    A batch of 8 MiB would cause over a thousand if freed memory were returned.
    """
    done = subprocess.run(
        [sys.executable, "-c", PAGES_COUNTED], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert int(done.stdout) < 200
