"""Write results as JSON, and derive the JSON Schema of a result from its class.

Results are dataclasses, so document and schema cannot differ: every attribute is a member, in camelCase; a tuple is an
array, which is never null; an attribute that may be None is null then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

__all__ = ["document_of", "schema_of", "write_json"]

_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


_UNUSUAL = re.compile(r"[^\n\x20-\x7e]")


def write_json(value: Any, *, indent: int | None = None, is_ascii: bool = False) -> str:
    """Return a result as JSON text, in which characters that are not printable are escaped; with `is_ascii`, all.

    So no text of a message or a server can act on a terminal, and each line of a stream is one document.
    """
    text = json.dumps(document_of(value), ensure_ascii=is_ascii, indent=indent, allow_nan=False)
    return _UNUSUAL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def document_of(value: Any) -> Any:
    """Return a result as a JSON value: an object for a dataclass, an array for a tuple."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {_camel(each.name): document_of(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): document_of(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [document_of(item) for item in value]
    return value


def schema_of(cls: type, title: str) -> dict[str, Any]:
    """Return the JSON Schema of the documents that results of this class become."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **_schema(cls)}


def _schema(annotation: Any) -> dict[str, Any]:
    if annotation in _SCALARS:
        return {"type": _SCALARS[annotation]}
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (UnionType, Union):
        return {"anyOf": [_schema(each) for each in inner]}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"enum": [each.value for each in annotation]}
    if is_dataclass(annotation) and isinstance(annotation, type):
        return _object(annotation)
    return {}


def _object(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    members = {_camel(each.name): _schema(hints[each.name]) for each in fields(cls)}
    text = (cls.__doc__ or "").partition("\n")[0]
    return {
        "type": "object",
        "description": text,
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
