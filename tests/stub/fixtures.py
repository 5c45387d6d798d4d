"""Make the fixtures that the stub offers to its users available to the stub's own tests."""

from __future__ import annotations

from broker_stub.fixtures import make_stub, stub_broker

__all__ = ["make_stub", "stub_broker"]
