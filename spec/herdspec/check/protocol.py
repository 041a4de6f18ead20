"""
A protocol, as every command knows it: its verified spec, its variants, what is checked of it.

Protocols are found by entry points of the group `herdproof.protocols`, those of other
distributions like ours: no list of them stands anywhere. An entry's name is the protocol's; it
names a `Protocol`, or something that has one as its `protocol` (an implementation with its spec).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification

if TYPE_CHECKING:
    from herdspec.check.plans import CheckConfig, Scale
    from herdspec.check.refinement.refine import Refinement
    from herdspec.check.sentences import Column
    from herdspec.check.verdict import Declared
    from herdspec.check.verify import Plan
    from herdspec.protocols.flaws import Flaw

GROUP = "herdproof.protocols"
"""The group of entry points in which protocols are found."""
DRAFTED, CONTRACT = "-drafted", "-contract"
"""Endings of a protocol's name where its draft, or its contract, is meant."""


def later(name: str) -> Callable[[], Any]:
    """A function that reads the object under this name (`MODULE:NAME`) when it is asked for it."""
    return partial(resolve_name, name)


def nothing() -> None:
    """Nothing: the part of a protocol that has none."""


def no_failures() -> Mapping[str, Declared]:
    """No failure is declared."""
    return {}


def no_columns() -> Sequence[Column]:
    """It is in no table of what is owed."""
    return ()


def no_variants() -> Mapping[str, Specification]:
    """It has one form."""
    return {}


def no_flaws() -> Mapping[str, Flaw]:
    """No flawed variant is known."""
    return {}


@dataclass(frozen=True)
class Protocol:
    """
    A protocol under its name; all else is asked for by functions, since specs take time to read.

    `NAME` is the verified spec in every command, `NAME-drafted` the draft, `NAME-contract` the
    contract that it refines, `NAME-VARIANT` another form of it, `NAME/FLAW` one with a mistake.
    """

    name: str
    verified: Callable[[], Specification]
    """The protocol as it should be, with all that it promises."""
    declared: Callable[[], Mapping[str, Declared]] = no_failures
    """Promises that even the verified protocol breaks, and how."""
    sizes: Mapping[str, int] | None = None
    """At how many elements of a sort it is looked at where nobody says so, if not at 2."""
    held: Callable[[], CheckConfig] | None = None
    """The size at which code is taken along all of its graph, where nobody says; else `sizes`."""
    contract: Callable[[], Specification | None] = nothing
    within: bool = False
    """True if bounds of the contract's numbers are meant."""
    refinement: Callable[[], Refinement | None] = nothing
    """The refinement of the contract by the verified spec, made on demand."""
    drafted: Callable[[], Flaw | None] = nothing
    variants: Callable[[], Mapping[str, Specification]] = no_variants
    """Its other forms, which promise as much as each says: those of members of another kind."""
    flaws: Callable[[], Mapping[str, Flaw]] = no_flaws
    plan: Callable[[Scale], Plan] | None = None
    """The plan of what `verify` checks of the specs; by default, the checks of anybody's spec."""
    mistaken: Callable[[], Sequence[CheckConfig]] | None = None
    """At which sizes mistakes are looked for, in turn; by default at one small size."""
    columns: Callable[[], Sequence[Column]] = no_columns
    """The columns that show a contract's sentences, one for each form of the protocol."""
    builds_on: tuple[str, ...] = ()
    """Protocols that come before this one in every table."""

    def variant(self, name: str) -> Flaw | None:
        """The variant of this name, or the draft; None where there is no such one."""
        return self.drafted() if name == DRAFTED.removeprefix("-") else self.flaws().get(name)

    def planned(self, scale: Scale) -> Plan:
        """The checks of its specs."""
        from herdspec.check.plans import usual

        plan = usual(self, scale) if self.plan is None else self.plan(scale)
        return replace(plan, sentences=tuple(self.columns()))


@cache
def entries() -> Mapping[str, EntryPoint]:
    """The entry points by the protocols' names; raises `UsageError` where two claim one name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        known = found.setdefault(entry.name, entry)
        if known.value != entry.value:
            raise UsageError(
                f"two protocols are called {entry.name!r}: {known.value} and {entry.value};"
                f" uninstall one of the distributions, or rename its entry point"
            )
    return dict(sorted(found.items()))


def names() -> tuple[str, ...]:
    """The names of all protocols that are installed; none is read for that."""
    return tuple(entries())


@cache
def entry(name: str) -> Any:
    """The object that a protocol's entry point names; raises `UsageError`."""
    if name not in entries():
        known = ", ".join(names()) or "none, as herdproof itself is not installed"
        raise UsageError(f"there is no protocol {name!r}; the known ones: {known}")
    found = entries()[name]
    try:
        return found.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the protocol {name!r} cannot be read from {found.value}: {error}"
        ) from error


def protocol(name: str) -> Protocol:
    """The protocol of this name; raises `UsageError`."""
    made = entry(name)
    found = made if isinstance(made, Protocol) else getattr(made, "protocol", None)
    if not isinstance(found, Protocol) or found.name != name:
        raise UsageError(
            f"the entry point {name!r} ({entries()[name].value}) names no Protocol of that name:"
            f" let it name a herdspec.check.protocol.Protocol({name!r}, …), or an Implementation"
        )
    return found


def variant_of(name: str) -> tuple[str, str]:
    """The protocol that a known spec is of, and which variant: "" is the verified one."""
    of, slash, flaw = name.partition("/")
    if slash or name in names():
        return of, flaw
    before, dash, variant = name.rpartition("-")
    return (before, variant) if dash else (name, "")


def in_order() -> list[str]:
    """The names of all protocols: each after those on which it builds, else by name."""
    found: list[str] = []

    def add(name: str) -> None:
        if name in found or name not in entries():
            return
        for earlier in protocol(name).builds_on:
            add(earlier)
        found.append(name)

    for name in names():
        add(name)
    return found
