"""
The spec that a command is about: a known name, or a class in a file of the user's own.

A known spec brings the failures that are declared of it, and the size that they are declared for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from herdproof.cli.loading import imported
from herdspec.check.protocol import (
    CONTRACT,
    DRAFTED,
    Protocol,
    in_order,
    names,
    protocol,
    variant_of,
)
from herdspec.check.verdict import Declared, counted
from herdspec.language.declared import defined
from herdspec.language.errors import UsageError
from herdspec.language.outside import unchanged
from herdspec.language.reading.bodies import check_module
from herdspec.language.specification import Specification, specification
from herdspec.language.surface import Property, Spec
from herdspec.language.types import MachineOf, Table

if TYPE_CHECKING:
    from herdproof.report.render import Output
    from herdspec.protocols.flaws import Flaw

DEFAULT_SIZE = 2
"""Elements of a sort, where nobody says how many."""
DEFAULT_FAULTS = 2
NO_SPEC = "{} holds no spec: define a class that derives from Spec"

Specs = dict[str, Specification | type[Spec]]
"""A file's specs by the names that it gives them."""


@dataclass(frozen=True)
class Subject:
    """
    A spec under the name that it was asked for, and the failures that are declared of it.

    They are declared for so many `faults`, and these `sizes` (2 elements of a sort where not said).
    `bound` is the largest natural (None: raised as far as need be); `within`, that it is meant.
    """

    name: str
    spec: Specification
    declared: Mapping[str, Declared] = field(default_factory=dict)
    faults: int = DEFAULT_FAULTS
    sizes: Mapping[str, int] = field(default_factory=dict)
    may_end: bool = False
    bound: int | None = None
    within: bool = False
    module: str = ""
    """The name of the module in its file, if it has one."""
    left_out: tuple[str, ...] = ()
    """Sentences on what stands beside it in its file and is not held to, one for each property."""

    @property
    def expected(self) -> str:
        """The note where it is explored at a size for which no failure is declared."""
        if not self.declared:
            return ""
        size = self._declared_for(self.spec.sorts)
        elements = [counted(many, sort.lower()) for sort, many in size.items()]
        return (
            f"Failures of {self.name} are declared for {', '.join(elements)} and"
            f" {counted(self.faults, 'fault')}; at this size the declared ones may have any"
            f" length, or be missing."
        )

    def exactly_at(self, sizes: Mapping[str, int], faults: int) -> bool:
        """Tells whether the failures are declared for just this size."""
        return faults == self.faults and dict(sizes) == self._declared_for(sizes)

    def _declared_for(self, sorts: Iterable[str]) -> dict[str, int]:
        return {sort: self.sizes.get(sort, DEFAULT_SIZE) for sort in sorts}


def find(name: str) -> Subject:
    """The spec of this name, or of this file and class; raises `UsageError` or `SpecError`."""
    path, colon, attribute = name.rpartition(":")
    if colon and path.endswith(".py"):
        return from_file(Path(path), attribute)
    if name.endswith(".py"):
        return from_file(Path(name), None)
    found = of_protocol(name)
    if found is None and Path(name).is_dir():
        raise UsageError(
            f"{name} is a folder: name a spec's file in it, such as {Path(name) / 'lock.py'}"
        )
    if found is None:
        raise UsageError(f"there is no spec {name!r}{known_specs(name)}")
    return found


def whole_name(asked: str, subject: Subject) -> str:
    """The name that finds just this spec again, where a file alone was asked for."""
    return f"{asked}:{subject.name}" if asked.endswith(".py") else asked


def known_specs(name: str) -> str:
    """The known names, as the end of a sentence; the nearest first."""
    specs = known()
    near = get_close_matches(name, specs, n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return (
        f"{meant}; the known ones: {', '.join(specs)}, election/FLAW (such as election/no_sync), "
        f"or a file and its class: path/to/file.py:ClassName"
    )


# ── Known ones ──────────────────────────────────────────────────────────────────────────────


def known() -> list[str]:
    """The names of all specs of the protocols that are installed, but for single mistakes."""
    found = []
    for name in in_order():
        of = protocol(name)
        endings = {DRAFTED: of.drafted(), CONTRACT: of.contract()}
        found += [name, *(f"{name}{ending}" for ending, spec in endings.items() if spec)]
        found += [f"{name}-{variant}" for variant in of.variants()]
    return found


def of_protocol(name: str) -> Subject | None:
    """A protocol's spec by this name, if it is one; a name that asks for no flaw of it raises."""
    of, variant = variant_of(name)
    if of not in names():
        return None
    found = protocol(of)
    if not variant:
        return Subject(name, found.verified(), found.declared(), sizes=found.sizes or {})
    if name.endswith(CONTRACT):
        contract = found.contract()
        return Subject(name, contract) if contract else None
    if name.endswith(DRAFTED):
        drafted = found.drafted()
        return subject_of(name, drafted) if drafted else None
    if "/" in name:
        return flawed(found, variant)
    form = found.variants().get(variant)
    return Subject(name, form, sizes=found.sizes or {}) if form else None


def flawed(of: Protocol, name: str) -> Subject:
    """A verified protocol with one mistake."""
    flaws = of.flaws()
    if name not in flaws:
        near = get_close_matches(name, flaws, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        ones = ", ".join(flaws) or "none"
        raise UsageError(f"there is no flaw {name!r}{meant}; the known ones: {ones}")
    return subject_of(f"{of.name}/{name}", flaws[name])


def subject_of(name: str, flaw: Flaw) -> Subject:
    """A flawed variant, at the size at which its failures are declared."""
    return Subject(
        name, flaw.spec, flaw.failures, flaw.faults, dict(flaw.sizes or {}), bound=flaw.bound,
        within=flaw.within,
    )  # fmt: skip


# ── A user's own ────────────────────────────────────────────────────────────────────────────


def from_file(path: Path, attribute: str | None) -> Subject:
    """A spec class (or a variant) of a file, held to the properties in that file."""
    module = imported(path)
    found = specs_in(module)
    if attribute is None:
        attribute = the_only(wanted_of(found, module), path)
    if attribute not in found:
        known = ", ".join(f"{path}:{name}" for name in found) or "none"
        raise UsageError(f"{path} has no spec {attribute!r}; its specs: {known}")
    return subject_in(module, attribute, found[attribute], str(path))


def the_only(wanted: Iterable[str], path: Path) -> str:
    """The name of the one spec of a file; raises `UsageError` where there are several, or none."""
    found = list(wanted)
    if not found:
        raise UsageError(NO_SPEC.format(path))
    if len(found) > 1:
        ones = ", ".join(f"{path}:{name}" for name in found)
        raise UsageError(f"{path} holds {len(found)} specs; say which: {ones}")
    return found[0]


def specs_in(module: ModuleType) -> Specs:
    """The spec classes that a module defines, and the variants that it makes, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Specification) or is_spec(value, module)
    }


def all_in_file(path: Path) -> list[Subject]:
    """All specs of a file, but for classes that stand for more: see `wanted_of`."""
    module = imported(path)
    wanted = wanted_of(specs_in(module), module)
    if not wanted:
        raise UsageError(NO_SPEC.format(path))
    return [subject_in(module, name, spec, str(path)) for name, spec in wanted.items()]


def wanted_of(found: Specs, module: ModuleType) -> Specs:
    """
    A file's specs without the classes that it makes specifications of.

    A class of which nothing is promised, and which is a part of another, is no system by itself.
    """
    made = {spec.state for spec in found.values() if isinstance(spec, Specification)}
    wanted = {
        name: spec
        for name, spec in found.items()
        if isinstance(spec, Specification) or spec not in made
    }
    silent = {
        name
        for name, spec in wanted.items()
        if isinstance(spec, type) and not properties_of(module, spec)
    }
    return {n: s for n, s in wanted.items() if n not in silent or n not in parts_of(wanted)}


def parts_of(specs: Specs) -> set[str]:
    """The names of the spec classes that are parts of others."""
    shapes = [s.shape if isinstance(s, Specification) else specification(s).shape
              for s in specs.values()]  # fmt: skip
    kinds = [kind for shape in shapes for kind in shape.rich.values()]
    values = [kind.value if isinstance(kind, Table) else kind for kind in kinds]
    return {value.name for value in values if isinstance(value, MachineOf)}


def subject_in(
    module: ModuleType, name: str, value: Specification | type[Spec], path: str
) -> Subject:
    """One spec of a module, with what the module declares of it."""
    from herdproof.cli.spec.own import declared_in

    check_module(module)
    if isinstance(value, Specification):
        spec = value
    else:
        spec = specification(value, *properties_of(module, value))
    unchanged(spec.shape)
    left_out = left_out_of(module, spec)
    return declared_in(module, Subject(name, spec, module=module.__name__, left_out=left_out), path)


def left_out_of(module: ModuleType, spec: Specification) -> tuple[str, ...]:
    """The module's own properties about a spec to which it is not held, a sentence for each."""
    held = {p.name for p in spec.properties}
    found = (p for p in properties_of(module, defined(spec.state)) if p.name not in held)
    return tuple(
        f"not held to: {p.name}, defined at {place_of(p)} and left out of specification(…)"
        for p in found
        if p.function.__module__ == module.__name__
    )


def place_of(promise: Property) -> str:
    """Where a property is defined: the line of its first decorator."""
    code = promise.function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def read(out: Output, name: str) -> Subject:
    """The spec of this name, with its progress, and a note of what it is not held to."""
    with out.progress("reading the spec"):
        subject = find(name)
    out.note(subject.left_out)
    return subject


def is_spec(value: Any, module: ModuleType) -> bool:
    """Tells whether this is a spec class that the module defines."""
    if not (isinstance(value, type) and issubclass(value, Spec)):
        return False
    return value.__module__ == module.__name__


def properties_of(module: ModuleType, spec: type[Spec]) -> list[Property]:
    """The module's properties, but for those that say that they are about another class."""
    specs = {n for n, v in vars(module).items() if isinstance(v, type) and issubclass(v, Spec)}
    found = (value for value in vars(module).values() if isinstance(value, Property))
    return [p for p in found if is_about(p, spec, specs)]


def is_about(promise: Property, spec: type[Spec], specs: set[str]) -> bool:
    """Tells whether a property's annotations name this one of the module's specs, or none."""
    hints = [hint for of, hint in promise.function.__annotations__.items() if of != "return"]
    names = {getattr(hint, "__name__", hint) for hint in hints}
    return names & specs <= {spec.__name__}


# ── Sizes ───────────────────────────────────────────────────────────────────────────────────


def sizes_of(spec: Specification, given: list[str]) -> dict[str, int]:
    """The sizes of a spec's sorts from `Sort=N`; raises `UsageError`."""
    sizes = dict.fromkeys(spec.sorts, DEFAULT_SIZE)
    for text in given:
        sort, _, number = text.partition("=")
        if sort not in sizes:
            known = ", ".join(sizes) or "none"
            raise UsageError(f"{spec.name} has no sort {sort!r}; its sorts: {known}")
        if not (number.isascii() and number.isdigit() and int(number) > 0):
            raise UsageError(f"--size {text}: write {sort}=N with a whole number N of at least 1")
        sizes[sort] = int(number)
    return sizes


def promise_of(spec: Specification, name: str) -> str:
    """A property's name, blanks or underscores as it pleases; raises `UsageError`."""
    wanted = name.replace(" ", "_")
    names = [p.name for p in spec.properties]
    if wanted not in names:
        known = ", ".join(names) or "none"
        raise UsageError(f"{spec.name} has no property {name!r}; its properties: {known}")
    return wanted
