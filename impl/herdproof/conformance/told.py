"""How a difference between spec and code is told: as a story, and as a program to paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from herdproof.conformance.adapter import Adapter
from herdspec.check.run import changed
from herdspec.language.specification import Specification
from herdspec.language.surface import Sort

if TYPE_CHECKING:
    from herdproof.conformance.held import Carried, Deed

PROGRAM = "As a program:"


def story(
    spec: Specification, adapter: type[Adapter], path: Sequence[Carried],
    deeds: Sequence[Deed], ends: Sequence[str],
) -> list[str]:  # fmt: skip
    """The steps to a difference, numbered; then what was done last, and what came of it."""
    lines = [f"{spec.name}, step by step on spec and code ({adapter.__name__}):"]
    for number, carried in enumerate(path[1:], start=1):
        assert carried.step is not None, "it is no initial state"
        assert carried.before is not None, "a step leads from somewhere"
        alone = "  (by itself)" if carried.by_itself else ""
        lines.append(f"{number:3}. {carried.step.sentence}  [{carried.step.label}]{alone}")
        changes = changed(carried.before.state, carried.step)
        lines.append(f"       {', '.join(changes) or 'nothing changes'}")
    if deeds:
        lines.append(f"Then: {call(deeds[-1])}")
    return [*lines, *ends]


def program(
    spec: Specification, adapter: type[Adapter], sizes: Mapping[str, int], deeds: Sequence[Deed]
) -> list[str]:
    """A program that does the same again."""
    names = [spec.state.__name__, adapter.__name__]
    arguments = ", ".join([*names, *(f"{sort}={size}" for sort, size in sizes.items())])
    body = [f"    held.{call(deed)}" for deed in deeds] or ["    pass"]
    return [PROGRAM, f"with Held({arguments}) as held:", *body]


def call(deed: Deed) -> str:
    """What was done, as a call of `Held`; and what came of it, if that is not plain."""
    arguments = [repr(deed.name)] if deed.name else []
    text = f"{deed.kind}({', '.join([*arguments, *map(source, deed.arguments)])})"
    return f"{text}  # refused" if deed.taken is False else text


def source(value: Any) -> str:
    """A value as Python writes it: `Client(0)`, not `client1`."""
    match value:
        case Sort():
            return f"{type(value).__name__}({value.index})"
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case dict():
            return f"{{{', '.join(f'{source(k)}: {source(v)}' for k, v in value.items())}}}"
        case set():
            return f"{{{', '.join(sorted(map(source, value)))}}}" if value else "set()"
        case list():
            return f"[{', '.join(map(source, value))}]"
        case tuple():
            return f"({''.join(f'{source(v)}, ' for v in value)})"
    if is_dataclass(value) and not isinstance(value, type):
        inner = ", ".join(f"{f.name}={source(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__name__}({inner})"
    return repr(value)
