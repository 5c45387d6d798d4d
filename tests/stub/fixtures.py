"""Give the stub's own tests the fixture that starts clusters, under a shorter name."""

from __future__ import annotations

from broker_stub.pytest_plugin import make_rocketmq

__all__ = ["make_stub"]

make_stub = make_rocketmq
