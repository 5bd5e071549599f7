"""Enumerations of the notebook, with each member as it is: its value, its aliases and its attributes.

cloudpickle makes the members anew from their values, before the class has its methods. So it loses aliases,
and what `__init__` and `__new__` gave the members. Records name the functions below, so these keep their
meaning.
"""

from __future__ import annotations

from enum import Enum, EnumMeta, Flag
from typing import Any

from nbckpt._private_apis import boundary_of, data_type_of

_OF_ENUM = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})

_MADE_FROM = ("_new_member_", "_use_args_")
"""The attributes that say how members were made. cloudpickle leaves them out."""

Members = dict[str, tuple[Any, tuple[Any, ...]]]
"""The names in their order, aliases too: the value of each, and what the `__new__` of its data type takes."""


def reduce_enumeration(kind: Any, reduced: Any) -> Any:
    """Return cloudpickle's form of an enumeration with all of each member."""
    _, (bases, name, qualname, _, module, number, _), (attributes, slots), *rest = reduced
    members: Members = {name: (member.value, _payload(member)) for name, member in kind.__members__.items()}
    own = {name: _attributes(member) for name, member in kind.__members__.items() if _attributes(member)}
    extra = {"boundary": boundary_of(kind)} if issubclass(kind, Flag) else {}
    arguments = bases, name, qualname, members, module, number, extra
    attributes.update({name: vars(kind)[name] for name in _MADE_FROM if name in vars(kind)})
    for member in kind.__members__:  # an alias, which cloudpickle takes for a class attribute
        attributes.pop(member, None)
    return make_enumeration, arguments, (attributes, slots, own), *rest[:2], fill_enumeration


def _payload(member: Enum) -> tuple[Any, ...]:
    """Return what the `__new__` of a member's data type needs for the data of the member."""
    kind = data_type_of(type(member))
    if hasattr(kind, "__getnewargs__"):
        return tuple(kind.__getnewargs__(member))
    if kind.__reduce__ is not object.__reduce__:
        return tuple(kind.__reduce__(member)[1])
    return ()


def _attributes(member: Enum) -> dict[str, Any]:
    return {name: value for name, value in vars(member).items() if name not in _OF_ENUM}


def make_enumeration(
    bases: tuple[type, ...],
    name: str,
    qualname: str,
    members: Members,
    module: str,
    _number: str | None,
    extra: dict[str, Any],
) -> EnumMeta:
    """Make an enumeration whose members have their values and data, and nothing else yet."""
    metaclass: Any = type(bases[-1])
    body = metaclass.__prepare__(name, bases)

    def new(cls: Any, at: str) -> Any:
        value, payload = members[at]
        member = data_type_of(cls).__new__(cls, *payload)
        member._value_ = value
        return member

    body["__new__"] = new
    body["__init__"] = _nothing  # that of a data type would run
    for at in members:
        body[at] = at
    made: Any = metaclass.__new__(metaclass, name, bases, body, **extra)
    type.__delattr__(made, "__init__")
    made.__module__, made.__qualname__ = module, qualname
    return made  # type: ignore[no-any-return]  # what the metaclass made


def fill_enumeration(kind: Any, state: tuple[dict[str, Any], Any, dict[str, dict[str, Any]]]) -> Any:
    """Set the attributes of an enumeration and of its members."""
    attributes, _, own = state
    for name in ("__new_member__", *_MADE_FROM):
        if name not in attributes and name in vars(kind):
            type.__delattr__(kind, name)
    for name, value in attributes.items():
        setattr(kind, name, value)
    for name, values in own.items():
        vars(kind.__members__[name]).update(values)
    return kind


def _nothing(*_: Any) -> None:
    pass
