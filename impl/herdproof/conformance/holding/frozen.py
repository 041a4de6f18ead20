"""
States that cannot be written: they tell quickly, without a copy, what is surely not possible.

An action whose guard fails before its first write is not possible; any other may be.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from types import new_class
from typing import Any, NoReturn, cast

from herdspec.check.running.run import Machine
from herdspec.language.surface import Disabled, Spec


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError("a frozen state is read-only")


def _read_only(kind: type, *methods: str) -> type:
    """A type like this one, whose values cannot be changed in place."""
    return type(f"Frozen{kind.__name__}", (kind,), dict.fromkeys(methods, _refuse))


_Dict = _read_only(
    dict, "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"
)
_List = _read_only(
    list, "__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend",
    "insert", "pop", "remove", "reverse", "sort",
)  # fmt: skip
_Set = _read_only(
    set, "__iand__", "__ior__", "__isub__", "__ixor__", "add", "clear", "difference_update",
    "discard", "intersection_update", "pop", "remove", "symmetric_difference_update", "update",
)  # fmt: skip


@cache
def _frozen_type(of: Hashable) -> type[Spec]:
    """A subclass of a spec whose states cannot be assigned to."""
    body = {"__setattr__": _refuse}
    made = new_class(
        "Frozen", (cast(type[Spec], of),), {"variant": True}, lambda names: names.update(body)
    )
    return cast(type[Spec], made)


def frozen(state: Spec) -> Spec:
    """A read-only copy of a state."""
    made = object.__new__(_frozen_type(cast(Hashable, type(state))))
    made.__dict__.update((name, _value(value)) for name, value in state.__dict__.items())
    return made


def _value(value: Any) -> Any:
    match value:
        case dict():
            return _Dict((key, _value(v)) for key, v in value.items())
        case list():
            return _List(value)
        case set():
            return _Set(value)
        case Spec():
            return frozen(value)
    return value


def may(state: Spec, machine: Machine, action: str, arguments: tuple[Any, ...]) -> bool:
    """Tells whether an action may be possible in a frozen state; False if it surely is not."""
    try:
        machine.method(state, action, arguments)
    except (Disabled, AssertionError):
        return False
    except Exception:  # it got as far as a write, or has no meaning: to take it will show
        return True
    return True
