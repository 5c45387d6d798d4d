"""List the plugin modules: each room's `fixtures.py` is one."""

from __future__ import annotations

from pathlib import Path

ROOMS = sorted(found.parent.name for found in Path(__file__).parent.glob("*/fixtures.py"))

pytest_plugins = [f"tests.{room}.fixtures" for room in ROOMS]
