"""
Plans: which checks are carried out of a protocol, or of any spec that somebody has written.

`PLANS` are the protocols of this project. `of_specs` makes a plan for specs of one's own: each is
explored at a size, its liveness is checked and its promises are proved where it has such; what its
author declares to fail must fail just so.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from herdspec.check.cache import Coverage, Memory, Result
from herdspec.check.digest import hashed
from herdspec.check.proof_verdict import any_number, proved
from herdspec.check.verdict import (
    Declared,
    Finding,
    Mark,
    Standing,
    counted,
    explored,
    lived,
    measured_by,
    refined,
    sized,
)
from herdspec.check.verify import Check, Plan, Tell, levels, obligations
from herdspec.language.errors import SpecError, UsageError
from herdspec.language.specification import Specification
from herdspec.language.surface import LIVE, Expectation

if TYPE_CHECKING:
    from herdspec.check.exploration import Exploration
    from herdspec.check.mutate import Mutation, Survivor
    from herdspec.check.prove import Obligation
    from herdspec.check.refine import Refinement
    from herdspec.protocols.flaws import Flaw


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
MISTAKEN = Scale(2, 1)
"""How large a protocol is explored once for each mistake that is put into it."""
SMALL = 2
"""The number of elements at which the flaws' failures are declared."""


# ── Checks of a spec ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Looked:
    """
    One spec, and how it is looked at.

    Its failures must be just those that are `declared`, or, not `exactly` at the size that they are
    declared for, may be those. `bound` is the largest natural (None: raised as far as need be);
    `within` says that the bounds are meant, and nothing is asked of what lies beyond them;
    `vacuity`, that each action must be possible (None: if no failure is declared).
    """

    subject: str
    spec: Specification
    sizes: Mapping[str, int]
    faults: int
    declared: Mapping[str, Declared] = field(default_factory=dict)
    exactly: bool = True
    may_end: bool = False
    bound: int | None = None
    within: bool = False
    vacuity: bool | None = None
    source: Callable[[], Specification] | None = None
    """Makes the spec again in another process, where that can be done."""

    def rests_on(self) -> tuple[Any, ...]:
        """All that an exploration's verdicts depend on."""
        failures = {name: (d.steps, d.last) for name, d in self.declared.items()}
        branches = [(a.name, b.line - a.line) for a in self.spec.actions for b in a.branches]
        return (
            self.subject, self.spec, self.sizes, self.faults, failures, self.exactly, self.may_end,
            self.bound, self.within, self.vacuity, branches,
        )  # fmt: skip

    @property
    def size(self) -> str:
        """The size, as the names of checks say it."""
        return sized(self.spec, self.sizes, self.faults)


def exploration(looked: Looked) -> Check:
    """Explore a spec: every reachable state of this size."""

    def run(tell: Tell) -> Result:
        from herdspec.check.explore import explore

        found = explore(
            looked.spec, looked.sizes, faults=looked.faults, bound=looked.bound,
            within=looked.within, progress=levels(tell),
        )  # fmt: skip
        findings = explored(
            looked.subject, found, looked.declared, exactly=looked.exactly,
            may_end=looked.may_end, vacuity=looked.vacuity,
        )  # fmt: skip
        measured = "; ".join([measured_by(found), *(cut.sentence for cut in found.cuts)])
        return Result(tuple(findings), measured, (covered(looked.subject, found),))

    return Check(f"explore {looked.subject}: {looked.size}", run, looked.rests_on)


def covered(subject: str, found: Exploration) -> Coverage:
    """How often each action was taken, and which branches were not."""
    spec = found.spec
    missed = ((b.action, b.line - spec.action(b.action).line) for b in found.branches)
    has_branches = any(a.branches for a in spec.actions)
    return Coverage(subject, tuple(found.taken.items()), tuple(missed) if has_branches else None)


def liveness(looked: Looked) -> Check:
    """What must happen in every fair behaviour of this size."""

    def run(tell: Tell) -> Result:
        from herdspec.check.liveness import liveness as judge

        found = judge(
            looked.spec, looked.sizes, faults=looked.faults, bound=looked.bound,
            progress=levels(tell),
        )  # fmt: skip
        findings = lived(looked.subject, found, looked.declared, exactly=looked.exactly)
        return Result(tuple(findings), found.measured)

    return Check(f"liveness of {looked.subject}: {looked.size}", run, looked.rests_on)


PROCESSES = 2
"""How many mutants are judged at a time."""
NOTICED = "mistakes are noticed"
"""The row of mutants."""


def mutation(looked: Looked, *, faults: int = 1, further: Sequence[Looked] = ()) -> Check:
    """
    Whether the properties notice mistakes: every mutant is explored, with so many faults.

    What is not noticed is looked at once more at the `further` sizes, in turn.
    """

    def run(tell: Tell) -> Result:
        from herdspec.check.mutate import Bounds, mutate, reasons_of

        found = mutate(
            looked.spec, looked.sizes, faults=faults, bound=looked.bound, within=looked.within,
            further=[Bounds(at.sizes, at.faults, at.bound) for at in further],
            reasons=reasons_of(looked.spec), source=looked.source,
            processes=PROCESSES if looked.source else 1,
            progress=lambda done, of: tell(f"{done} of {of} mutants", done / of),
        )  # fmt: skip
        return Result((noticed(looked.subject, found),), found.summary)

    def rests_on() -> tuple[Any, ...]:
        """Mutants are made of the text; survivors are accepted for the reasons in the module."""
        from herdspec.check.mutate import reasons_of

        files = {a.file for a in looked.spec.actions}
        modules = {function.file for function in looked.spec.methods.values()} | files
        texts = [hashed(*linecache.getlines(file)) for file in sorted(modules)]
        at = [(dict(at.sizes), at.faults, at.bound) for at in further]
        return (*looked.rests_on(), faults, at, sorted(texts), dict(reasons_of(looked.spec)))

    sizes = [at.size for at in (replace(looked, faults=faults), *further)]
    return Check(f"mutate {looked.subject}: {'; then '.join(sizes)}", run, rests_on)


def noticed(subject: str, found: Mutation) -> Finding:
    """What the mutants of a spec come to; the story names the holes."""
    marks = {
        Standing.HOLDS: Mark.EXHAUSTED, Standing.FAILS: Mark.FAILS, Standing.UNKNOWN: Mark.UNKNOWN,
    }  # fmt: skip
    score = f"{len(found.killed)} of {found.judged} killed ({100 * found.score:.0f} %)"
    told = [line for hole in found.holes for line in survival(hole)]
    told += [f"stale, no such mistake survives: {name}" for name in found.stale]
    return Finding(
        subject=subject, row=NOTICED, kind="check", mark=marks[found.standing],
        bounds=f"{score}, {'; then '.join(found.at)}", story=tuple(told),
        sentence="Every mistake in the spec breaks some property, or is accepted with a reason.",
        note="" if found.standing is Standing.HOLDS else unnoticed(found),
    )  # fmt: skip


def unnoticed(found: Mutation) -> str:
    """Why all is not well with the mutants of a spec."""
    stale = [f"{counted(len(found.stale), 'reason')} to be removed"] * bool(found.stale)
    holes = [counted(len(found.holes), "hole")] * bool(found.holes)
    return ", ".join([*holes, *stale, found.summary])


def survival(hole: Survivor) -> list[str]:
    """A mistake that nobody notices: what it is, where it shows, and what property is missing."""
    shown = [f"    {line}" for line in (*hole.story, hole.differs) if line]
    return [f"{hole.id} (line {hole.line}): {hole.missing}", *shown]


def proof(
    subject: str, spec: Specification, leave_out: Iterable[str], faults: int = QUICK.faults
) -> Check:
    """
    Prove a spec's promises, but for those that are known to fail.

    Runs to what is not inductive are looked for with so many `faults`.
    """
    omitted = frozenset(leave_out)

    def run(tell: Tell, memory: Memory | None = None) -> Result:
        from herdspec.check.prove import prove

        told = obligations(spec, omitted, tell)
        found = prove(spec, leave_out=omitted, look=faults, progress=told, memory=memory)
        longest = max((o.seconds for o in found.obligations), default=0.0)
        measured = f"{asked(found.obligations)}, the longest {longest:.1f} s"
        return Result(tuple(proved(subject, found)), measured)

    name = f"prove {subject}: {any_number(spec)}"
    return Check(name, run, lambda: (subject, spec, omitted, faults), run)


def asked(found: Sequence[Obligation]) -> str:
    """How many obligations there were, and how many were proved before."""
    from herdspec.check.recall import KEPT

    again = sum(o.reason == KEPT for o in found)
    return counted(len(found), "obligation") + (f" ({again} kept)" if again else "")


def refinement(subject: str, through: Refinement, scale: Scale, leave_out: Iterable[str]) -> Check:
    """Every step of a spec is one of the other's: proved, and seen at a size."""
    omitted = frozenset(leave_out)
    sizes = scale.sizes(through.concrete)

    def run(tell: Tell, memory: Memory | None = None) -> Result:
        from herdspec.check.refine import refine_by_exploration, refine_by_proof

        tell("by induction", None)
        for_all = refine_by_proof(through, leave_out=omitted, memory=memory, assume=True)
        seen = refine_by_exploration(through, sizes, faults=scale.faults, progress=levels(tell))
        assert seen.exploration is not None, "it was explored"
        both = replace(seen, obligations=for_all.obligations, assumed=for_all.assumed)
        return Result(
            tuple(refined(subject, both)),
            f"{asked(for_all.obligations)}; {measured_by(seen.exploration)}",
        )

    def rests_on() -> tuple[Any, ...]:
        image = {leaf.data: e for leaf, e in through.image.items()}
        specs = (through.concrete, through.abstract)
        return subject, specs, image, through.actions, omitted, sizes, scale.faults

    return Check(f"refine {subject}: {any_number(through.concrete)}", run, rests_on, run)


# ── Plans ───────────────────────────────────────────────────────────────────────────────────


def of_specs(
    name: str, subjects: Sequence[Looked], *, prove: bool = True, mutate: bool = False
) -> Plan:
    """
    The plan of specs of one's own, side by side in one table.

    Those that are declared to fail come first. Without `prove`, nothing is proved; with `mutate`,
    it is looked at whether the properties would notice mistakes.
    """
    ordered = sorted(subjects, key=lambda s: not s.declared)
    columns = tuple(s.subject for s in ordered)
    assumed, not_modelled = said_of(subjects[0].spec)
    return Plan(
        name, tuple(check for s in ordered for check in checks_of(s, prove, mutate)),
        drafted=columns[0] if ordered[0].declared else "", verified=columns[-1],
        compared=columns, assumed=assumed, not_modelled=not_modelled,
        specs={s.subject: s.spec for s in subjects},
    )  # fmt: skip


def checks_of(looked: Looked, prove: bool, mutate: bool) -> list[Check]:
    """What can be checked of a spec: whatever it has promises for."""
    kinds = {p.expectation for p in looked.spec.properties if p.name not in looked.declared}
    checks = [if_possible(exploration(looked), looked, "exploration")]
    if any(p.expectation in LIVE for p in looked.spec.properties):
        checks.append(if_possible(liveness(looked), looked, "liveness"))
    if prove and kinds & {Expectation.ALWAYS, Expectation.STEP}:
        proving = proof(looked.subject, looked.spec, looked.declared, looked.faults)
        checks.append(if_possible(proving, looked, "proof", "or leave the proof out: --no-prove"))
    if mutate and not looked.declared:
        checks.append(mutation(looked))
    return checks


def if_possible(check: Check, looked: Looked, row: str, advice: str = "") -> Check:
    """A check; where the spec cannot be looked at so, that is unknown, and says why."""

    def run(tell: Tell, memory: Memory | None = None) -> Result:
        try:
            return check.recall(tell, memory) if memory and check.recall else check.run(tell)
        except (UsageError, SpecError) as error:
            refused = Finding(
                subject=looked.subject, row=row, kind="check", mark=Mark.UNKNOWN, bounds="",
                note=f"{error} ({advice})" if advice else str(error),
            )  # fmt: skip
            return Result((refused,), str(error))

    return replace(check, run=run, recall=run if check.recall else None)


def election(scale: Scale, verified: Specification | None = None) -> Plan:
    """The plan of the election; another spec may be put in the verified one's place."""
    from herdspec.protocols.election_contract import CONTRACT, REFINEMENT
    from herdspec.protocols.election_flaws import AT_ONCE, DRAFTED, FLAWS
    from herdspec.protocols.election_properties import ELECTION

    spec = verified or ELECTION
    looked = Looked("verified", spec, scale.sizes(spec), scale.faults, AT_ONCE)
    checks = (
        exploration(replace(looked, vacuity=True)),
        proof("verified", spec, AT_ONCE),
        refinement("verified", replace(REFINEMENT, concrete=spec), QUICK, AT_ONCE),
        exploration(Looked("contract", CONTRACT, QUICK.sizes(CONTRACT), QUICK.faults, within=True)),
        proof("contract", CONTRACT, ()),
        *flawed("drafted", DRAFTED),
        *(check for name, flaw in FLAWS.items() for check in flawed(name, flaw)),
    )
    specs = {"verified": spec, "contract": CONTRACT, "drafted": DRAFTED.spec}
    assumed, not_modelled = said_of(ELECTION)
    return Plan(
        "election", checks, others=("contract",), flaws=tuple(FLAWS), assumed=assumed,
        not_modelled=not_modelled, specs=specs | {n: flaw.spec for n, flaw in FLAWS.items()},
    )  # fmt: skip


def central_coordinator(scale: Scale) -> Plan:
    """The plan of system B: the verified protocol, the two drafts, and single mistakes."""
    from herdspec.protocols.central_coordinator_flaws import DRAFTED_000, DRAFTED_002, FLAWS, FOUND
    from herdspec.protocols.central_coordinator_properties import CENTRAL_COORDINATOR, HELD
    from herdspec.protocols.central_coordinator_refinement import REFINEMENT, REFINEMENT_FENCED
    from herdspec.protocols.contract_properties import CONTRACT

    quick = scale == QUICK
    flaws = {"drafted-000": DRAFTED_000, **FLAWS, **FOUND}
    checks = (
        exploration(central(CENTRAL_COORDINATOR, 2, 2, 2, faults=1)),
        exploration(central(CENTRAL_COORDINATOR, 2, 1, 2, faults=2)),
        liveness(central(HELD, 2, 1, 2, faults=1)),
        *(() if quick else (liveness(central(HELD, 2, 2, 1, faults=1)),)),
        proof("verified", CENTRAL_COORDINATOR, ()),
        seen_as("verified", REFINEMENT, faults=1),
        *(() if quick else (seen_as("verified", REFINEMENT_FENCED, faults=2),)),
        exploration(owed(2, 1, 2, faults=2)),
        liveness(owed(2, 1, 1, faults=2)),
        proof("contract", CONTRACT, ()),
        *flawed("drafted", DRAFTED_002),
        *(check for name, flaw in flaws.items() for check in flawed(name, flaw)),
    )
    specs = {"verified": CENTRAL_COORDINATOR, "contract": CONTRACT, "drafted": DRAFTED_002.spec}
    assumed, not_modelled = said_of(CENTRAL_COORDINATOR)
    return Plan(
        "central_coordinator", checks, others=("contract",), flaws=tuple(flaws), assumed=assumed,
        not_modelled=not_modelled, specs=specs | {n: flaw.spec for n, flaw in flaws.items()},
    )  # fmt: skip


def central(
    spec: Specification, members: int, partitions: int, brokers: int, *, faults: int
) -> Looked:
    """The verified central coordinator, at a size at which nothing is cut."""
    sizes = {"Broker": brokers, "Member": members, "Partition": partitions}
    return Looked("verified", spec, sizes, faults, bound=4 + faults)


def central_mistaken() -> list[Looked]:
    """All that the central coordinator promises, at sizes at which most of its mistakes show."""
    from herdspec.protocols.central_coordinator_properties import NOTICING

    return [
        central(NOTICING, 1, 1, 1, faults=1),
        central(NOTICING, 1, 2, 1, faults=1),
        central(NOTICING, 1, 1, 2, faults=2),
        central(NOTICING, 2, 1, 1, faults=1),
    ]


def owed(members: int, partitions: int, brokers: int, *, faults: int) -> Looked:
    """The contract of every group protocol, at a size at which nothing is cut."""
    from herdspec.protocols.contract_properties import CONTRACT

    sizes = {"Broker": brokers, "Member": members, "Partition": partitions}
    return Looked("contract", CONTRACT, sizes, faults, bound=14)


def seen_as(subject: str, through: Refinement, *, faults: int) -> Check:
    """Every step of the central coordinator is the contract's: seen where nothing is cut."""
    sizes, bound = {"Broker": 2, "Member": 2, "Partition": 1}, 4 + faults

    def run(tell: Tell) -> Result:
        from herdspec.check.refine import refine_by_exploration

        seen = refine_by_exploration(
            through, sizes, faults=faults, bound=bound, progress=levels(tell)
        )
        assert seen.exploration is not None, "it was explored"
        return Result(tuple(refined(subject, seen)), measured_by(seen.exploration))

    def rests_on() -> tuple[Any, ...]:
        image = {leaf.data: e for leaf, e in through.image.items()}
        specs = (through.concrete, through.abstract)
        return subject, specs, image, through.actions, sizes, faults, bound

    size = ", ".join([counted(n, name.lower()) for name, n in sizes.items()])
    named = f"refine {subject} to {through.abstract.name}"
    return Check(f"{named}: {size}, {counted(faults, 'fault')}", run, rests_on)


def flawed(subject: str, flaw: Flaw) -> list[Check]:
    """A flawed variant must fail just as it is declared to; it may well get stuck."""
    sizes = flaw.sizes or dict.fromkeys(flaw.spec.sorts, SMALL)
    looked = Looked(
        subject, flaw.spec, sizes, flaw.faults, flaw.failures, may_end=True, bound=flaw.bound,
        within=flaw.within,
    )  # fmt: skip
    lives = any(flaw.spec.promise(name).expectation in LIVE for name in flaw.failures)
    return [exploration(looked), *([liveness(looked)] if lives else [])]


PLANS: dict[str, Callable[[Scale], Plan]] = {
    "election": election,
    "central_coordinator": central_coordinator,
}
"""The protocols, in the order in which they build on each other."""

MISTAKEN_IN_TURN: dict[str, Callable[[], list[Looked]]] = {"central_coordinator": central_mistaken}
"""Where `MISTAKEN` is no good size: the sizes at which mistakes are looked for, in turn."""


def plan_of(protocol: str, scale: Scale, *, mutate: bool = False) -> Plan:
    """
    The plan of a protocol by its name; raises `UsageError` for a name that is none.

    With `mutate`, it is looked at whether the verified spec's properties would notice mistakes: at
    `MISTAKEN` or `MISTAKEN_IN_TURN`, whatever the scale of the rest: there are hundreds of them.
    """
    if protocol not in PLANS:
        known = ", ".join(PLANS)
        raise UsageError(f"there is no protocol {protocol!r}; the known ones: {known}")
    plan = PLANS[protocol](scale)
    return plan.also(mistaken(plan)) if mutate else plan


def mistaken(plan: Plan) -> Check:
    """Whether the properties of a protocol's verified spec notice mistakes."""
    spec, source = plan.specs[plan.verified], partial(verified_of, plan.protocol)
    looked = Looked(plan.verified, spec, MISTAKEN.sizes(spec), MISTAKEN.faults, source=source)
    further: Sequence[Looked] = ()
    if plan.protocol in MISTAKEN_IN_TURN:
        looked, *further = MISTAKEN_IN_TURN[plan.protocol]()
        looked = replace(looked, source=partial(mistaken_of, plan.protocol))
    return mutation(looked, faults=looked.faults, further=further)


def mistaken_of(protocol: str) -> Specification:
    """The spec of a protocol whose mistakes are looked at in turn, for processes that make it."""
    return MISTAKEN_IN_TURN[protocol]()[0].spec


def verified_of(protocol: str) -> Specification:
    """The verified spec of a protocol, for processes that make it again."""
    plan = PLANS[protocol](QUICK)
    return plan.specs[plan.verified]


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
