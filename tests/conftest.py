"""List the plugin modules: each room's `fixtures.py` is one. Let tests press Ctrl-C in processes that they start."""

from __future__ import annotations

import signal
from pathlib import Path

ROOMS = sorted(found.parent.name for found in Path(__file__).parent.glob("*/fixtures.py"))

pytest_plugins = [f"tests.{room}.fixtures" for room in ROOMS]

# A shell's background jobs ignore Ctrl-C, and so would the processes that tests start there.
signal.signal(signal.SIGINT, signal.default_int_handler)
