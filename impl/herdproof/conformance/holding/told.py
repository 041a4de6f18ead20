"""Renders a difference between spec and code: as a story, and as a program to paste."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from herdproof.conformance.adapter import Adapter
from herdproof.conformance.holding.closure import Carried
from herdproof.conformance.holding.deeds import Deed
from herdspec.check.running.run import changed, written
from herdspec.language.specification import Specification
from herdspec.language.surface import Sort

PROGRAM = "As a program:"
HELD = "herdproof.testing"
"""From where a program takes `Held`."""


def story(
    spec: Specification, adapter: type[Adapter], path: Sequence[Carried],
    deeds: Sequence[Deed], ends: Sequence[str],
) -> list[str]:  # fmt: skip
    """
    The steps to a difference, numbered, in the spec's sentences; then what came of the last.

    Between them stands what was done and is no step: a disturbance, a refusal, a wait that ends it.
    """
    told: list[list[str]] = []
    for number, deed in enumerate(deeds, start=1):
        steps = [c for c in path[1:] if c.deed == number]
        told += map(_step, steps)
        if all(c.by_itself for c in steps):
            told += _no_step(spec, adapter, deed, is_last=number == len(deeds))
    lines = [f"{spec.name}, step by step on spec and code ({adapter.__name__}):"]
    for number, (first, *more) in enumerate([*map(_step, _begun(path)), *told], start=1):
        lines += [f"{number:3}. {first}", *more]
    return [*lines, *ends]


def _begun(path: Sequence[Carried]) -> list[Carried]:
    """The steps that the code took by itself before anything was done to it."""
    return [c for c in path[1:] if c.deed == 0]


def _step(carried: Carried) -> list[str]:
    """A step, and what it changed."""
    assert carried.step is not None, "it is no initial state"
    assert carried.before is not None, "a step leads from somewhere"
    alone = "  (by itself)" if carried.by_itself else ""
    changes = changed(carried.before.state, carried.step)
    return [
        f"{carried.step.sentence}  [{carried.step.label}]{alone}",
        f"       {', '.join(changes) or 'nothing changes'}",
    ]


def _no_step(
    spec: Specification, adapter: type[Adapter], deed: Deed, *, is_last: bool
) -> list[list[str]]:
    """The lines on what was done, and led to no step of the spec."""
    match deed.kind:
        case "wait":
            return [["Waiting for what is due.  [wait()]"]] if is_last else []
        case "disturb":
            text = (getattr(adapter, deed.name).__doc__ or deed.name).strip().partition("\n")[0]
            return [[f"{text}  [{deed.name}()]"]]
        case "start" | "put":
            look = deed.arguments[0]
            entries = [f"       {name} = {source(value)}" for name, value in look.items()]
            how = "begins" if deed.kind == "start" else "is put into a state"
            return [[f"The code {how}, all else as it is initially.", *entries]]
    action = spec.action(deed.name)
    of = adapter.chosen.get(deed.name, ())
    given = iter(deed.arguments)
    shown = {name: "…" if name in of else next(given) for name, _ in action.parameters}
    label = f"{deed.name}({', '.join(map(written, deed.arguments))})"
    line = f"{action.sentence.format(**shown)}  [{label}]"
    return [[line] if is_last else [line, "       refused"]]


def program(
    spec: Specification, adapter: type[Adapter], sizes: Mapping[str, int], deeds: Sequence[Deed]
) -> list[str]:
    """A program that does the same again."""
    names = [spec.state.__name__, adapter.__name__]
    arguments = ", ".join([*names, *(f"{sort}={size}" for sort, size in sizes.items())])
    body = [f"    held.{call(deed)}" for deed in deeds] or ["    pass"]
    classes = {spec.state, adapter}
    for deed in deeds:
        for argument in deed.arguments:
            classes |= _classes(argument)
    imports = [f"from {HELD} import Held", *_imported(classes)]
    return [PROGRAM, *imports, "", f"with Held({arguments}) as held:", *body]


def _imported(classes: Collection[type]) -> list[str]:
    """A line of imports for each module that has some of these classes by name."""
    names: dict[str, set[str]] = {}
    for cls in classes:
        module = sys.modules.get(cls.__module__)
        if getattr(module, cls.__name__, None) is cls:
            names.setdefault(_name_of(module), set()).add(cls.__name__)
    return [
        f"from {module} import {', '.join(sorted(some))}"
        for module, some in sorted(names.items())
        if module != "__main__"
    ]


def _name_of(module: Any) -> str:
    """The name by which users import a module: that of its file, if it was read as a spec's."""
    name: str = module.__name__
    return Path(module.__file__).stem if name.startswith("herdproof_spec_") else name


def _classes(value: Any) -> set[type]:
    """The classes that a value's source names."""
    match value:
        case dict():
            return set().union(*(_classes(x) for pair in value.items() for x in pair))
        case set() | list() | tuple():
            return set().union(*map(_classes, value))
        case Sort() | Enum():
            return {type(value)}
    if is_dataclass(value) and not isinstance(value, type):
        inner = (_classes(getattr(value, f.name)) for f in fields(value))
        return {type(value)}.union(*inner)
    return set()


def call(deed: Deed) -> str:
    """The deed as a call of `Held`; with what came of it, if that is not plain."""
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
