"""Provide the fixtures of the stub's users for its own tests."""

from __future__ import annotations

from broker_stub.fixtures import make_stub, stub_broker

__all__ = ["make_stub", "stub_broker"]
