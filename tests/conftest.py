"""Lists the plugin modules: each room's `fixtures.py` is one."""

from __future__ import annotations

from pathlib import Path

pytest_plugins = [f"tests.{found.parent.name}.fixtures" for found in sorted(Path(__file__).parent.glob("*/fixtures.py"))]
