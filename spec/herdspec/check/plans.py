"""
Plans: which checks are carried out of a protocol, or of any spec that somebody has written.

A protocol brings its own plan, or has the `usual` one. `of_specs` makes a plan for specs of one's
own: each is explored at a size, its liveness is checked and its promises are proved where it has
such; what its author declares to fail must fail just so.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from herdspec.check.cache import Coverage, Memory, Result
from herdspec.check.digest import hashed
from herdspec.check.proof.proof_verdict import any_number, proved
from herdspec.check.protocol import Protocol, protocol
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
from herdspec.language.errors import HerdspecError
from herdspec.language.specification import Specification
from herdspec.language.surface import LIVE, Expectation

if TYPE_CHECKING:
    from herdspec.check.exploration.exploration import Exploration
    from herdspec.check.mutation.mutate import AcceptedMutant, Mutation
    from herdspec.check.proof.prove import Obligation
    from herdspec.check.refinement.refine import Refinement
    from herdspec.protocols.flaws import Flaw


@dataclass(frozen=True)
class Scale:
    """The size at which a protocol is explored: elements of each sort, faults."""

    elements: int
    faults: int

    def sizes(self, spec: Specification) -> dict[str, int]:
        """The sizes that have this number of elements of each of a spec's sorts."""
        return dict.fromkeys(spec.sorts, self.elements)


FULL = Scale(3, 3)
QUICK = Scale(2, 2)
MISTAKEN = Scale(2, 1)
"""The size at which a protocol is explored for each mistake that is put into it."""
SMALL = 2
"""The number of elements at which the flaws' failures are declared."""


# ── Checks of a spec ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class CheckConfig:
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

    @property
    def effort(self) -> int:
        """The work that there is to do, beside other sizes."""
        return effort_of(self.sizes, self.faults)


def effort_of(sizes: Mapping[str, int], faults: int) -> int:
    """The work that there is to explore at a size, beside others; no more than a guess."""
    return (1 + faults) * prod(sizes.values())


def exploration(looked: CheckConfig) -> Check:
    """Explore a spec: every reachable state of this size."""

    def run(tell: Tell) -> Result:
        from herdspec.check.exploration.explore import explore

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

    name = f"explore {looked.subject}: {looked.size}"
    return Check(name, run, looked.rests_on, effort=looked.effort)


def covered(subject: str, found: Exploration) -> Coverage:
    """The number of times that each action was taken, and the branches that were not."""
    spec = found.spec
    missed = ((b.action, b.line - spec.action(b.action).line) for b in found.branches)
    has_branches = any(a.branches for a in spec.actions)
    return Coverage(subject, tuple(found.taken.items()), tuple(missed) if has_branches else None)


def liveness(looked: CheckConfig) -> Check:
    """The check of promises about every fair behaviour of this size."""

    def run(tell: Tell) -> Result:
        from herdspec.check.liveness.liveness import liveness as judge

        found = judge(
            looked.spec, looked.sizes, faults=looked.faults, bound=looked.bound,
            progress=levels(tell),
        )  # fmt: skip
        findings = lived(looked.subject, found, looked.declared, exactly=looked.exactly)
        return Result(tuple(findings), found.measured)

    name = f"liveness of {looked.subject}: {looked.size}"
    return Check(name, run, looked.rests_on, effort=looked.effort)


PROCESSES = 2
"""The number of mutants that are judged at a time."""
NOTICED = "mistakes are noticed"
"""The row of mutants."""


def mutation(looked: CheckConfig, *, faults: int = 1, further: Sequence[CheckConfig] = ()) -> Check:
    """
    The check that properties notice mistakes: every mutant is explored, with so many faults.

    What is not noticed is looked at once more at the `further` sizes, in turn.
    """

    def run(tell: Tell) -> Result:
        from herdspec.check.mutation.mutate import Bounds, mutate, reasons_of

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
        from herdspec.check.mutation.mutate import reasons_of

        files = {a.file for a in looked.spec.actions}
        modules = {function.file for function in looked.spec.methods.values()} | files
        texts = [hashed(*linecache.getlines(file)) for file in sorted(modules)]
        at = [(dict(at.sizes), at.faults, at.bound) for at in further]
        return (*looked.rests_on(), faults, at, sorted(texts), dict(reasons_of(looked.spec)))

    sizes = [at.size for at in (replace(looked, faults=faults), *further)]
    return Check(f"mutate {looked.subject}: {'; then '.join(sizes)}", run, rests_on)


def noticed(subject: str, found: Mutation) -> Finding:
    """The finding on a spec's mutants; its story names the holes."""
    marks = {
        Standing.HOLDS: Mark.EXHAUSTED, Standing.FAILS: Mark.FAILS, Standing.UNKNOWN: Mark.UNKNOWN,
    }  # fmt: skip
    part = "" if found.score is None else f" ({100 * found.score:.0f} %)"
    score = f"{len(found.killed)} of {found.judged} killed{part}"
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


def survival(hole: AcceptedMutant) -> list[str]:
    """A mistake that nobody notices: what it is, where it shows, and what property is missing."""
    shown = [f"    {line}" for line in (*hole.story, hole.differs) if line]
    return [f"{hole.id} (line {hole.line}): {hole.missing}", *shown]


def proof(
    subject: str, spec: Specification, leave_out: Iterable[str] = (), faults: int = QUICK.faults
) -> Check:
    """
    Prove a spec's promises, but for those that are known to fail.

    Runs to what is not inductive are looked for with so many `faults`.
    """
    omitted = frozenset(leave_out)

    def run(tell: Tell, memory: Memory | None = None) -> Result:
        from herdspec.check.proof.prove import prove

        told = obligations(spec, omitted, tell)
        found = prove(spec, leave_out=omitted, look=faults, progress=told, memory=memory)
        longest = max((o.seconds for o in found.obligations), default=0.0)
        measured = f"{asked(found.obligations)}, the longest {longest:.1f} s"
        return Result(tuple(proved(subject, found)), measured)

    name = f"prove {subject}: {any_number(spec)}"
    return Check(name, run, lambda: (subject, spec, omitted, faults), run)


def asked(found: Sequence[Obligation]) -> str:
    """The number of obligations, and of those that were proved before."""
    from herdspec.check.proof.proof_cache import KEPT

    again = sum(o.reason == KEPT for o in found)
    return counted(len(found), "obligation") + (f" ({again} kept)" if again else "")


def refinement(
    subject: str, through: Refinement, scale: Scale, leave_out: Iterable[str] = (), *,
    sizes: Mapping[str, int] | None = None, bound: int | None = None,
    looked_at: Refinement | None = None,
) -> Check:  # fmt: skip
    """
    Every step of a spec is one of the other's: proved, and seen at a size (the scale's own).

    What is seen may be a smaller instance of what is proved: `looked_at`.
    """
    omitted = frozenset(leave_out)
    sizes, instance = sizes or scale.sizes(through.concrete), looked_at or through

    def run(tell: Tell, memory: Memory | None = None) -> Result:
        from herdspec.check.refinement.refine import refine_by_exploration, refine_by_proof

        tell("by induction", None)
        for_all = refine_by_proof(through, leave_out=omitted, memory=memory, assume=True)
        seen = refine_by_exploration(
            instance, sizes, faults=scale.faults, bound=bound, progress=levels(tell)
        )
        assert seen.exploration is not None, "it was explored"
        both = replace(seen, obligations=for_all.obligations, assumed=for_all.assumed)
        return Result(
            tuple(refined(subject, both)),
            f"{asked(for_all.obligations)}; {measured_by(seen.exploration)}",
        )

    def rests_on() -> tuple[Any, ...]:
        maps = [
            (of.concrete, of.abstract, {leaf.data: e for leaf, e in of.image.items()}, of.actions)
            for of in (through, instance)
        ]
        return subject, maps, omitted, sizes, scale.faults, bound

    return Check(f"refine {subject}: {any_number(through.concrete)}", run, rests_on, run)


def refinement_seen(
    subject: str, through: Refinement, sizes: Mapping[str, int], *, faults: int, bound: int
) -> Check:
    """Every step of a spec is one of the other's: seen at a size at which nothing is cut."""

    def run(tell: Tell) -> Result:
        from herdspec.check.refinement.refine import refine_by_exploration

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
    name = f"{named}: {size}, {counted(faults, 'fault')}"
    return Check(name, run, rests_on, effort=effort_of(sizes, faults))


# ── Plans ───────────────────────────────────────────────────────────────────────────────────


def of_specs(
    name: str, subjects: Sequence[CheckConfig], *, prove: bool = True, mutate: bool = False
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


def checks_of(looked: CheckConfig, prove: bool, mutate: bool = False) -> list[Check]:
    """The checks of a spec: whatever it has promises for."""
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


def if_possible(check: Check, looked: CheckConfig, row: str, advice: str = "") -> Check:
    """A check; where the spec cannot be looked at so, that is unknown, and says why."""

    def run(tell: Tell, memory: Memory | None = None) -> Result:
        try:
            return check.recall(tell, memory) if memory and check.recall else check.run(tell)
        except HerdspecError as error:
            refused = Finding(
                subject=looked.subject, row=row, kind="check", mark=Mark.UNKNOWN, bounds="",
                note=f"{error} ({advice})" if advice else str(error),
            )  # fmt: skip
            return Result((refused,), str(error))

    return replace(check, run=run, recall=run if check.recall else None)


def flawed(subject: str, flaw: Flaw) -> list[Check]:
    """A flawed variant must fail just as it is declared to; it may well get stuck."""
    sizes = flaw.sizes or dict.fromkeys(flaw.spec.sorts, SMALL)
    looked = CheckConfig(
        subject, flaw.spec, sizes, flaw.faults, flaw.failures, may_end=True, bound=flaw.bound,
        within=flaw.within,
    )  # fmt: skip
    lives = any(flaw.spec.promise(name).expectation in LIVE for name in flaw.failures)
    return [exploration(looked), *([liveness(looked)] if lives else [])]


def usual(protocol: Protocol, scale: Scale) -> Plan:
    """The plan of a protocol that has none itself: the checks of anybody's specs."""
    spec, contract, drafted = protocol.verified(), protocol.contract(), protocol.drafted()
    flaws = {**({"drafted": drafted} if drafted else {}), **protocol.flaws()}
    looked = CheckConfig(
        "verified", spec, sizes_for(protocol, spec, scale), scale.faults, protocol.declared(),
        vacuity=True,
    )  # fmt: skip
    checks = checks_of(looked, prove=True)
    if through := protocol.refinement():
        through = replace(through, concrete=spec)
        checks.append(refinement("verified", through, QUICK, looked.declared))
    if contract:
        further = CheckConfig(
            "contract", contract, QUICK.sizes(contract), QUICK.faults, within=protocol.within
        )
        checks += checks_of(further, prove=True)
    variants = protocol.variants()
    for name, form in variants.items():
        checks += checks_of(replace(looked, subject=name, spec=form, declared={}), prove=True)
    checks += [check for name, flaw in flaws.items() for check in flawed(name, flaw)]
    others = {**({"contract": contract} if contract else {}), **variants}
    specs = {"verified": spec, **others}
    assumed, not_modelled = said_of(spec)
    return Plan(
        protocol.name, tuple(checks), drafted="drafted" if drafted else "",
        compared=() if drafted else ("verified",), others=tuple(others),
        flaws=tuple(name for name in flaws if name != "drafted"), assumed=assumed,
        not_modelled=not_modelled, specs=specs | {n: flaw.spec for n, flaw in flaws.items()},
    )  # fmt: skip


def sizes_for(protocol: Protocol, spec: Specification, scale: Scale) -> dict[str, int]:
    """The number of elements of each sort at a scale; never more than the protocol says itself."""
    return {**scale.sizes(spec), **(protocol.sizes or {})}


def plan_of(name: str, scale: Scale, *, mutate: bool = False) -> Plan:
    """
    The plan of a protocol by its name; raises `UsageError` for a name that is none.

    With `mutate`, it is looked at whether the verified spec's properties would notice mistakes: at
    `MISTAKEN` or where the protocol says so, whatever the scale of the rest: there are hundreds.
    """
    plan = protocol(name).planned(scale)
    return plan.also(mistaken(plan)) if mutate else plan


def mistaken(plan: Plan) -> Check:
    """The check that the properties of a protocol's verified spec notice mistakes."""
    spec, source = plan.specs[plan.verified], partial(mistaken_of, plan.protocol)
    looked = CheckConfig(plan.verified, spec, MISTAKEN.sizes(spec), MISTAKEN.faults, source=source)
    further: Sequence[CheckConfig] = ()
    in_turn = protocol(plan.protocol).mistaken
    if in_turn is not None:
        looked, *further = in_turn()
        looked = replace(looked, source=source)
    return mutation(looked, faults=looked.faults, further=further)


def mistaken_of(name: str) -> Specification:
    """The spec of a protocol into which mistakes are put, for processes that make it again."""
    of = protocol(name)
    return of.verified() if of.mistaken is None else of.mistaken()[0].spec


def said_of(spec: Specification) -> tuple[str, str]:
    """Assumptions and omissions that a spec's module names: the lines that begin so."""
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
