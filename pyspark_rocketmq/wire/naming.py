"""How is an attribute of a header or body spelled on the wire?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def wire_name(cls: Any, attribute: str) -> str:
    """The name that the class's `wire_names` gives, else the attribute in camelCase."""
    exceptions: Mapping[str, str] = cls.wire_names
    return exceptions.get(attribute) or camel_case(attribute)


def camel_case(name: str) -> str:
    """`queue_id` as `queueId`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
