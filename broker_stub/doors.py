"""Which other ways lead into the same state?

A door is a module of its own, because what it is built with may not be installed: `grpc_door` needs grpcio. It offers
`open_door`, which gets the state, a way to carry calls into the stub's thread, the address to listen at, and how to
behave.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from pyspark_rocketmq.model import Address

from .faults import Script
from .state import Cluster

GRPC_DOOR = "broker_stub.grpc_door"
GRPC = "grpc"

Run = Callable[[Callable[[], Any]], Any]
"""Carries a call out in the stub's thread and returns its result."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a door answers."""

    like_apache: bool = False
    """As Apache's proxy: no pulling, settings before anything else, and topics without a type take NORMAL only."""
    status_last: bool = False
    """Whether a pull's stream ends with its status instead of beginning with it: both orders are about."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By access key; with them, only calls signed by one of these users are served."""
    tls: tuple[str, str] | None = None
    """Paths of certificate and key; with them, only TLS clients are served."""
    script: Script = field(default_factory=Script, repr=False)
    """What goes wrong on command."""


class Door(Protocol):
    """One way in."""

    @property
    def address(self) -> Address:
        """Where it listens."""

    def close(self) -> None:
        """Let nobody in any more."""


OpenDoor = Callable[[Cluster, Run, Address, Behaviour], Door]


def find_door() -> OpenDoor | None:
    """How to open the gRPC door; None if it is not installed."""
    if not all(map(importlib.util.find_spec, (GRPC, GRPC_DOOR))):
        return None
    return cast(OpenDoor, importlib.import_module(GRPC_DOOR).open_door)
