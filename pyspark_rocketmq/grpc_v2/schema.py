"""Make protobuf message classes from the lists of fields, without generated code.

The lists become descriptors in a separate descriptor pool. The official client registers the same names in protobuf's
default pool, and so can run in the same process. The classes are made at run time, so type checkers do not know them.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from ..errors import LocalProtocolError
from . import enums
from .message_fields import MESSAGE_FIELDS

__all__ = ["PACKAGE", "make_pool", "message_class"]

PACKAGE = "apache.rocketmq.v2"

_FIELD = re.compile(r"(?P<number>\d+) (?P<name>\w+) (?P<type>\w+)(?P<mark>[?*])?(?:\|(?P<choice>\w+))?")
_WELL_KNOWN = {"Timestamp": timestamp_pb2, "Duration": duration_pb2}
_SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "float": FieldDescriptorProto.TYPE_FLOAT,
}
_LABELS = {
    "*": FieldDescriptorProto.LABEL_REPEATED,
    "?": FieldDescriptorProto.LABEL_OPTIONAL,
    None: FieldDescriptorProto.LABEL_OPTIONAL,
}
_MAP = "map"
_ENTRY = "1 key string\n2 value string"
_ENUMS: dict[str, type[IntEnum]] = {name: getattr(enums, name) for name in enums.__all__}


def message_class(name: str, package: str = PACKAGE) -> Any:
    """Return the class of a message, by the message's name in the API."""
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{package}.{name}"))


def make_pool() -> DescriptorPool:
    """Return a new descriptor pool with all messages of the API; protobuf's default pool stays as it is."""
    pool = DescriptorPool()
    for module in _WELL_KNOWN.values():
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_describe_file().SerializeToString())
    return pool


def _describe_file() -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto(
        name="pyspark_rocketmq/grpc_v2.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=[module.DESCRIPTOR.name for module in _WELL_KNOWN.values()],
        enum_type=[_describe_enum(enum) for enum in _ENUMS.values()],
        message_type=[_describe_message(name, fields) for name, fields in MESSAGE_FIELDS.items()],
    )


def _describe_enum(enum: type[IntEnum]) -> EnumDescriptorProto:
    """Return the descriptor of an enum.

    UNSPECIFIED gets the enum's name as prefix, because value names must be unique among all enums of a package.
    """
    described = EnumDescriptorProto(name=enum.__name__)
    for value in enum:
        name = f"{enum.__name__}_{value.name}" if value.name == "UNSPECIFIED" else value.name
        described.value.add(name=name, number=value)
    return described


def _describe_message(name: str, fields: str) -> DescriptorProto:
    described = DescriptorProto(name=name)
    for line in filter(None, map(str.strip, fields.splitlines())):
        _add_field(described, line)
    _add_presence(described)
    return described


def _add_field(message: DescriptorProto, line: str) -> None:
    parts = _FIELD.fullmatch(line)
    if parts is None:
        raise LocalProtocolError(f"no field: '{line}' of {message.name}", advice="write number, name and type")
    name, kind, mark, choice = parts["name"], parts["type"], parts["mark"], parts["choice"]
    field = message.field.add(name=name, number=int(parts["number"]), label=_LABELS[mark])
    _set_type(message, field, kind)
    if choice:
        field.oneof_index = _choice_index(message, choice)
    field.proto3_optional = mark == "?"


def _set_type(message: DescriptorProto, field: FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind in _ENUMS:
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, f".{PACKAGE}.{kind}"
    else:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, _message_type_name(message, field, kind)


def _message_type_name(message: DescriptorProto, field: FieldDescriptorProto, kind: str) -> str:
    if kind in _WELL_KNOWN:
        return f".google.protobuf.{kind}"
    if kind == _MAP:
        field.label = FieldDescriptorProto.LABEL_REPEATED
        return f".{PACKAGE}.{message.name}.{_add_entry(message, field.name)}"
    return f".{PACKAGE}.{kind}"


def _add_entry(message: DescriptorProto, field_name: str) -> str:
    """Define, inside the message, the type of one entry of a map field; return the type's name.

    On the wire, a map is a list of entries.
    """
    name = "".join(word.capitalize() for word in field_name.split("_")) + "Entry"
    entry = _describe_message(name, _ENTRY)
    entry.options.map_entry = True
    message.nested_type.append(entry)
    return name


def _choice_index(message: DescriptorProto, choice: str) -> int:
    names = [known.name for known in message.oneof_decl]
    if choice not in names:
        message.oneof_decl.add(name=choice)
        names.append(choice)
    return names.index(choice)


def _add_presence(message: DescriptorProto) -> None:
    """Put each optional field into a `oneof` of its own, as proto3 requires.

    All other fields must be in the message already: protobuf wants these `oneof`s after those of the API itself.
    """
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = _choice_index(message, f"_{field.name}")


_POOL = make_pool()
