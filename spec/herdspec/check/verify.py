"""
`verify`: a plan of checks, carried out in order, and the verdicts that come of it.

A plan belongs to one protocol. Its checks know each other only through the table that their
findings end up in: one row for each property, one column for each subject, and a table of flaws.
Whoever has more to check (runs of an implementation, say) adds a `Check`: `plan.also(check)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from herdspec.check.verdict import (
    Declared,
    Finding,
    Mark,
    Standing,
    any_number,
    counted,
    explored,
    measured_by,
    proved,
    refined,
    standing_of,
)
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification
from herdspec.language.surface import Expectation

if TYPE_CHECKING:
    from herdspec.check.prove import Obligation
    from herdspec.check.refine import Refinement
    from herdspec.protocols.election_flaws import Flaw

Tell = Callable[[str, float | None], None]
"""Told how far a check is: a few words, and which fraction is done, where that is known."""


@dataclass(frozen=True)
class Result:
    """What a check found, and one line of what it looked at: sizes, counts."""

    findings: tuple[Finding, ...]
    measured: str


@dataclass(frozen=True)
class Check:
    """One thing to do: a name for people, and a function that does it and tells its progress."""

    name: str
    run: Callable[[Tell], Result]


@dataclass(frozen=True)
class Plan:
    """
    The checks of one protocol.

    The table compares `drafted`, `verified` and the `others`; `flaws` have a table of their own.
    `assumed` and `not_modelled` are the spec's own words.
    """

    protocol: str
    checks: tuple[Check, ...]
    drafted: str = "drafted"
    verified: str = "verified"
    others: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()
    assumed: str = ""
    not_modelled: str = ""

    def also(self, *checks: Check) -> Plan:
        """The same plan with further checks at its end."""
        return replace(self, checks=(*self.checks, *checks))


@dataclass(frozen=True)
class Done:
    """A check that was carried out."""

    check: str
    result: Result
    seconds: float


@dataclass(frozen=True)
class Report:
    """What came of a plan."""

    plan: Plan
    done: tuple[Done, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all checks, in order."""
        return tuple(f for done in self.done for f in done.result.findings)

    @property
    def standing(self) -> Standing:
        """What it all comes to."""
        return standing_of(self.findings)

    @property
    def seconds(self) -> float:
        """The time of all checks."""
        return sum(done.seconds for done in self.done)

    def of(self, *subjects: str) -> list[Finding]:
        """The findings of these subjects."""
        return [f for f in self.findings if f.subject in subjects]


Watch = Callable[[Check], AbstractContextManager[Tell]]
"""Opened around each check: where its progress goes."""


def nobody(words: str, fraction: float | None) -> None:
    """Whom to tell the progress that nobody wants to know."""


@contextmanager
def unwatched(check: Check) -> Iterator[Tell]:
    """Nobody is told of any progress."""
    del check
    yield nobody


def verify(
    plan: Plan, watch: Watch = unwatched, survived: tuple[type[Exception], ...] = ()
) -> Report:
    """
    Carry out a plan.

    An error of a class in `survived` makes its check unknown and does not end the others; any other
    error is the caller's.
    """
    done = []
    for check in plan.checks:
        begun = perf_counter()
        with watch(check) as tell:
            result = attempt(plan, check, tell, survived)
        done.append(Done(check.name, result, perf_counter() - begun))
    return Report(plan, tuple(done))


def attempt(plan: Plan, check: Check, tell: Tell, survived: tuple[type[Exception], ...]) -> Result:
    """One check's result; one that fails to run or to find anything is unknown."""
    try:
        result = check.run(tell)
    except survived as error:
        result = Result((), str(error))
    if result.findings:
        return result
    note = result.measured or "nothing was checked"
    unknown = Finding(
        subject=plan.verified, row=check.name, kind="check", mark=Mark.UNKNOWN,
        bounds="", note=note,
    )  # fmt: skip
    return Result((unknown,), note)


@dataclass(frozen=True)
class Scale:
    """How large the verified protocol is explored: elements of each sort, faults."""

    elements: int
    faults: int

    def sizes(self, spec: Specification) -> dict[str, int]:
        """So many elements of each of a spec's sorts."""
        return dict.fromkeys(spec.sorts, self.elements)


FULL = Scale(3, 3)
QUICK = Scale(2, 2)
SMALL = 2
"""The number of elements at which the flaws' failures are declared."""


# ── Checks of a spec ────────────────────────────────────────────────────────────────────────


def exploration(
    subject: str, spec: Specification, sizes: dict[str, int], faults: int,
    declared: dict[str, Declared], may_end: bool = False,
) -> Check:  # fmt: skip
    """Explore a spec; its failures must be just those that are declared (deadlock: `may_end`)."""

    def run(tell: Tell) -> Result:
        from herdspec.check.explore import explore

        result = explore(spec, sizes, faults=faults, progress=levels(tell))
        findings = explored(subject, result, declared, may_end=may_end)
        return Result(tuple(findings), measured_by(result))

    size = ", ".join(counted(n, name.lower()) for name, n in sizes.items())
    return Check(f"explore {subject}: {size}, {counted(faults, 'fault')}", run)


def levels(tell: Tell) -> Callable[[int, int, int], None]:
    """The progress of an exploration in words."""

    def told(depth: int, states: int, waiting: int) -> None:
        tell(f"level {depth}, {counted(states, 'state')}, {waiting:,} to expand", None)

    return told


def proof(subject: str, spec: Specification, leave_out: Iterable[str]) -> Check:
    """Prove a spec's promises, but for those that are known to fail."""

    def run(tell: Tell) -> Result:
        from herdspec.check.prove import prove

        omitted = frozenset(leave_out)
        result = prove(spec, leave_out=omitted, progress=obligations(spec, omitted, tell))
        number = counted(len(result.obligations), "obligation")
        longest = max((o.seconds for o in result.obligations), default=0.0)
        measured = f"{number}, the longest {longest:.1f} s"
        return Result(tuple(proved(subject, result)), measured)

    return Check(f"prove {subject}: {any_number(spec)}", run)


def obligations(
    spec: Specification, leave_out: frozenset[str], tell: Tell
) -> Callable[[Obligation], None]:
    """The progress of a proof in words, and as a fraction of its obligations."""
    from herdspec.check.prove import provable

    promises = [p for p in provable(spec) if p.name not in leave_out]
    initially = sum(p.expectation is Expectation.ALWAYS for p in promises)
    total = initially + len(promises) * len(spec.actions)
    number = count(1)

    def told(obligation: Obligation) -> None:
        words = f"{obligation.promise}: {obligation.action or 'initially'}"
        tell(words, next(number) / total)

    return told


def refinement(subject: str, through: Refinement, scale: Scale, leave_out: Iterable[str]) -> Check:
    """Every step of a spec is one of the other's: proved, and seen at a size."""

    def run(tell: Tell) -> Result:
        from herdspec.check.refine import refine_by_exploration, refine_by_proof

        sizes = scale.sizes(through.concrete)
        tell("by induction", None)
        for_all = refine_by_proof(through, leave_out=frozenset(leave_out))
        seen = refine_by_exploration(through, sizes, faults=scale.faults, progress=levels(tell))
        assert seen.exploration is not None, "it was explored"
        number = counted(len(for_all.obligations), "obligation")
        return Result(
            (*refined(subject, for_all), *refined(subject, seen)),
            f"{number}; {measured_by(seen.exploration)}",
        )

    return Check(f"refine {subject}: {any_number(through.concrete)}", run)


# ── Plans ───────────────────────────────────────────────────────────────────────────────────


def election(scale: Scale, verified: Specification | None = None) -> Plan:
    """The plan of the election; another spec may be put in the verified one's place."""
    from herdspec.protocols.election_contract import CONTRACT, REFINEMENT
    from herdspec.protocols.election_flaws import AT_ONCE, DRAFTED, FLAWS
    from herdspec.protocols.election_properties import ELECTION

    spec = verified or ELECTION
    checks = (
        exploration("verified", spec, scale.sizes(spec), scale.faults, {**AT_ONCE}),
        proof("verified", spec, AT_ONCE),
        refinement("verified", replace(REFINEMENT, concrete=spec), QUICK, AT_ONCE),
        exploration("contract", CONTRACT, QUICK.sizes(CONTRACT), QUICK.faults, {}),
        proof("contract", CONTRACT, ()),
        flawed("drafted", DRAFTED),
        *(flawed(name, flaw) for name, flaw in FLAWS.items()),
    )
    assumed, not_modelled = said_of(ELECTION)
    return Plan(
        "election", checks, others=("contract",), flaws=tuple(FLAWS), assumed=assumed,
        not_modelled=not_modelled,
    )  # fmt: skip


def flawed(subject: str, flaw: Flaw) -> Check:
    """A flawed variant must fail just as it is declared to; it may well get stuck."""
    sizes = dict.fromkeys(flaw.spec.sorts, SMALL)
    return exploration(subject, flaw.spec, sizes, flaw.faults, {**flaw.failures}, may_end=True)


PLANS: dict[str, Callable[[Scale], Plan]] = {"election": election}
"""The protocols, in the order in which they build on each other."""


def plan_of(protocol: str, scale: Scale) -> Plan:
    """The plan of a protocol by its name; raises `UsageError` for a name that is none."""
    if protocol not in PLANS:
        known = ", ".join(PLANS)
        raise UsageError(f"there is no protocol {protocol!r}; the known ones: {known}")
    return PLANS[protocol](scale)


def said_of(spec: Specification) -> tuple[str, str]:
    """What a spec's module says is assumed, and is not modelled: the lines that begin so."""
    said = {"Assumed": "", "Not modelled": ""}
    present = None
    for line in (sys.modules[spec.state.__module__].__doc__ or "").splitlines():
        heading, colon, rest = line.partition(":")
        if colon and heading in said:
            present, line = heading, rest
        elif not line.strip():
            present = None
        if present:
            said[present] = f"{said[present]} {line.strip()}".strip()
    return said["Assumed"], said["Not modelled"]
