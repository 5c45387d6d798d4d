"""Print the schema of the gRPC API, as the official Python client defines it, as JSON.

`test_schema` runs this module in a process of its own and compares the output with the schema of `grpc_v2`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

from tests.grpc_v2.test_schema import describe_field

FILES = [importlib.import_module(f"rocketmq.grpc_protocol.{name}_pb2").DESCRIPTOR for name in ("definition", "service")]


def messages() -> Iterator[Any]:
    """Yield the descriptors of all messages that are not nested in another message."""
    for file in FILES:
        yield from file.message_types_by_name.values()


def all_enums() -> Iterator[tuple[str, Any]]:
    """Yield the name (as in `grpc_v2.enums`) and the descriptor of each enum."""
    for file in FILES:
        for enum in file.enum_types_by_name.values():
            yield enum.name, enum
    for message in messages():
        for enum in message.enum_types:
            yield f"Offset{enum.name}", enum


def main() -> None:
    """Print one JSON object with the maps `fields`, `values` (of enums) and `methods`, whose keys are full names."""
    fields = {
        f"{message.name}.{field.name}": describe_field(field) for message in messages() for field in message.fields
    }
    values = {
        f"{name}.{value.name}": value.number
        for name, enum in all_enums()
        for value in enum.values
        if not value.name.endswith("_UNSPECIFIED")
    }
    methods = {
        f"/{service.full_name}/{method.name}": [
            method.input_type.name,
            method.output_type.name,
            method.client_streaming,
            method.server_streaming,
        ]
        for file in FILES
        for service in file.services_by_name.values()
        for method in service.methods
    }
    print(json.dumps({"fields": fields, "values": values, "methods": methods}))


if __name__ == "__main__":
    main()
