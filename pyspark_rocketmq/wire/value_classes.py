"""Make over a hundred small value classes (headers and bodies) without compiling methods for each class at import.

A frozen dataclass compiles half a dozen methods, which takes most of a millisecond. Spark starts processes for every
query, and each of them imports all headers and bodies. So the base class `Members` has these methods once for all
classes: values are frozen, made with keyword arguments, and equal if their members are equal. The initializer of a
class is compiled when its first value is made, since a process uses few of the classes. The functions `fields` and
`replace` of the standard library treat them as dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields, make_dataclass
from typing import Any, ClassVar, NoReturn, TypeVar, cast, dataclass_transform

__all__ = ["Members", "members", "wire_name"]

M = TypeVar("M", bound="Members")


class Members:
    """Base class of value classes; the decorator `members` completes a class."""

    __slots__ = ()
    wire_names: ClassVar[Mapping[str, str]] = {}
    """Names on the wire of those attributes whose wire name is not the attribute's name in camelCase."""
    _names: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Members) and type(other) is type(self):
            return _values(self) == _values(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def members(cls: type[M]) -> type[M]:
    """Return `cls` as a value class: a slot for each annotated member, frozen instances made with keyword arguments."""
    made = cast(Any, dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True)(cls))
    made._names = tuple(member.name for member in fields(made))
    made.__init__ = _init_first
    return cast(type[M], made)


def wire_name(cls: type[Members], attribute: str) -> str:
    """Return the name of an attribute on the wire: from the class's `wire_names`, or the attribute in camelCase."""
    return cls.wire_names.get(attribute) or _camel_case(attribute)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _init_first(self: Any, **given: Any) -> None:
    """Initialize the first instance of a class with an initializer compiled now, which later ones use directly."""
    _compile_init(type(self))(self, **given)


def _compile_init(cls: Any) -> Callable[..., None]:
    """Compile the initializer of a value class, as a frozen dataclass has it; set it in the class and return it."""
    same = [(each.name, Any, field(default=each.default, default_factory=each.default_factory)) for each in fields(cls)]
    twin: Any = make_dataclass(cls.__name__, same, frozen=True, kw_only=True, repr=False)
    init: Callable[..., None] = twin.__init__
    cls.__init__ = init
    return init


def _values(whole: Members) -> tuple[Any, ...]:
    return tuple(getattr(whole, name) for name in whole._names)
