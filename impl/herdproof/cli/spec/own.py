"""
Reads what a file says of its specs beside them: sizes, faults, expected failures.

Plain names of the module, all of them optional:

- `SIZES = {"Client": 3}` and `FAULTS = 1`: the size at which `verify` explores, and for which the
  failures are declared (2 elements of each sort and 2 faults where not said);
- `EXPECTED = {"one_holder": Failure(4, "grant")}`: what must fail, after how many steps, the last
  of them by which action; in a file with several specs, one such table for each, by its name;
- `MAY_END = True`: a state without a next step is no failure;
- `BOUND = 5`: the largest natural of searches; `WITHIN = True`: their bounds are meant, and nothing
  is asked of what lies beyond them.

`Failure` is `herdspec.check.verdict.Failure`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import ModuleType
from typing import TYPE_CHECKING, Any

from herdspec.check.verdict import ALWAYS_A_STEP, Declared
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification
from herdspec.language.surface import Sort

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject


def declared_in(module: ModuleType, subject: Subject, path: str) -> Subject:
    """A subject with what its module declares of it; raises `UsageError` for what is none."""
    wanted: Any = getattr(module, "EXPECTED", {})
    sizes, faults = getattr(module, "SIZES", {}), getattr(module, "FAULTS", subject.faults)
    bound = getattr(module, "BOUND", None)
    return replace(
        subject,
        declared=expected(wanted, subject, module, path),
        sizes=checked_sizes(sizes, subject, module, path),
        faults=natural(faults, f"{path}: FAULTS"),
        may_end=said(module, "MAY_END", path),
        bound=None if bound is None else natural(bound, f"{path}: BOUND", least=1),
        within=said(module, "WITHIN", path),
    )


def said(module: ModuleType, name: str, path: str) -> bool:
    """Tells whether a module says so, by True or False; raises `UsageError` for anything else."""
    value = getattr(module, name, False)
    if not isinstance(value, bool):
        raise UsageError(f"{path}: {name} is {value!r}; write True or False")
    return value


def expected(wanted: Any, subject: Subject, module: ModuleType, path: str) -> dict[str, Declared]:
    """The failures that `EXPECTED` declares of one spec."""
    where = f"{path}: EXPECTED"
    if not isinstance(wanted, Mapping):
        raise UsageError(f'{where}: write {{"property": Failure(steps, "last action")}}')
    if any(isinstance(of, Mapping) for of in wanted.values()):
        for name in wanted:
            if name not in vars(module):
                raise UsageError(f"{where} names {name!r}; write the name of a spec of the file")
        wanted = wanted.get(subject.name, {})
        where = f"{where}[{subject.name!r}]"
    known = [*(p.name for p in subject.spec.properties), ALWAYS_A_STEP]
    actions = ["", *(a.name for a in subject.spec.actions)]
    for name, failure in wanted.items():
        if name not in known:
            raise UsageError(f"{where}: {subject.name} has no property {name!r}{near(name, known)}")
        steps, last = getattr(failure, "steps", None), getattr(failure, "last", None)
        if not isinstance(steps, int) or last not in actions:
            raise UsageError(
                f"{where}[{name!r}] is {failure!r}; write Failure(steps, last), with a number of "
                f"steps and the name of an action of {subject.name}: {', '.join(actions[1:])}"
            )
    return dict(wanted)


def near(name: object, known: list[str]) -> str:
    """The known names, as the end of a sentence; the nearest first."""
    found = get_close_matches(str(name), known, n=1)
    meant = f" (did you mean {found[0]}?)" if found else ""
    return f"{meant}; it has {', '.join(known[:-1]) or 'none'}"


def checked_sizes(sizes: Any, subject: Subject, module: ModuleType, path: str) -> dict[str, int]:
    """The sizes that `SIZES` gives this spec's sorts; what it says of others' is theirs."""
    if not isinstance(sizes, Mapping):
        raise UsageError(f'{path}: SIZES: write {{"Sort": number of its elements}}')
    known = {*subject.spec.sorts, *sorts_in(module)}
    for name in sizes:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise UsageError(f"{path}: SIZES names {name!r}; the sorts of the file: {there}")
    found = {}
    for sort in subject.spec.sorts:
        if sort in sizes:
            found[sort] = natural(sizes[sort], f"{path}: SIZES[{sort!r}]", least=1)
    return found


def sorts_in(module: ModuleType) -> set[str]:
    """The names of the sorts that a module has, or that its specifications have."""
    found: set[str] = set()
    for value in vars(module).values():
        if isinstance(value, Specification):
            found.update(value.sorts)
        elif isinstance(value, type) and issubclass(value, Sort) and value is not Sort:
            found.add(value.__name__)
    return found


def natural(value: Any, what: str, least: int = 0) -> int:
    """A whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{what} is {value!r}; write a whole number of at least {least}")
    return value
