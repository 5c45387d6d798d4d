"""Test that decompressing broken bodies, again and again, takes no more memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyspark_rocketmq.wire.compression import Compression

MOST_GROWTH_KIB = 3 * 1024
"""Upper bound of what allocators may keep; 1 KiB lost for each of the bodies would be more than this."""

GROWTH_SHOWN = """
import sys
from pathlib import Path
from resource import getpagesize
from pyspark_rocketmq.errors import DecodeError
from pyspark_rocketmq.wire.compression import Compression, compress, decompress

def resident_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize() // 1024

def unpack(count):
    broken = 0
    for _ in range(count):
        for body in bodies:
            try:
                decompress(body, compression)
            except DecodeError:
                broken += 1
    return broken

compression = Compression[sys.argv[1]]
packed = compress(bytes(range(256)) * 80, compression)
bodies = [packed[:-5], packed[: len(packed) // 2], packed[:4] + b"no body"]
unpack(100)
before = resident_kib()
print(unpack(1500), resident_kib() - before)
"""


@pytest.mark.parametrize("compression", list(Compression))
def test_broken_bodies_leave_no_memory_behind(compression: Compression) -> None:
    """After 4,500 broken bodies of each format, a process holds as much memory as before."""
    command = [sys.executable, "-c", GROWTH_SHOWN, compression.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    broken, growth_kib = map(int, done.stdout.split())
    assert broken == 4500
    assert growth_kib < MOST_GROWTH_KIB
