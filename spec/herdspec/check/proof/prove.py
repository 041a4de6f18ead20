"""
The *prove* reading: invariants that hold for any number of elements, by induction, with z3.

Every invariant (promise or lemma) is assumed before a step; for each action and each promise z3 is
asked for a step that breaks it. No such step: proved. A step: a *counterexample to induction*, two
states and their difference (the first of them need not be reachable; then a lemma is missing). What
was proved on the strength of an invariant that is not proved itself is not: see `leaning`.
Limits are z3's resource count, not seconds, and an `unknown` is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from herdspec.check.cache import Memory
from herdspec.check.proof.counterexample import Counterexample
from herdspec.check.proof.induction import (
    DEFINED,
    RESOURCES,
    Obligation,
    Prover,
    Question,
    SolverAnswer,
    after,
    provable,
)
from herdspec.check.proof.proof_cache import ProofCache
from herdspec.check.proof.quantifiers import warnings_of
from herdspec.language.errors import UsageError
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation

if TYPE_CHECKING:
    from herdspec.check.proof.reachable import Reached

Progress = Callable[[Obligation], None]


@dataclass
class Proof:
    """All obligations of a spec; it is `proved` if each of them is and no action is vacuous."""

    spec: Specification
    promises: tuple[str, ...]
    obligations: list[Obligation] = field(default_factory=list)
    vacuous: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    """Actions of which z3 could not tell whether any state allows them."""
    contradiction: tuple[str, ...] = ()
    """Promises that no state keeps all of, if there are such: then everything is implied."""
    order: bool = False
    """True if naturals were taken from any total order, as far as the proof knows."""
    begins: SolverAnswer = SolverAnswer.PROVED
    """The answer to whether the guards and the axioms allow an initial state (`FAILED`: none)."""
    warnings: tuple[str, ...] = ()
    """Traits of the spec that may keep z3 from an answer."""
    not_asked: tuple[str, ...] = ()
    """Promises about a channel's order or length, which proofs know nothing of."""
    given: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The invariants, not proved, that each of these promises leans on."""
    reached: dict[str, Reached] = field(default_factory=dict)
    """Runs to the counterexamples of what is not inductive, if they were looked for."""

    @property
    def proved(self) -> bool:
        """Tells whether everything was proved."""
        sound = (
            not (self.vacuous or self.unsure or self.given) and self.begins is SolverAnswer.PROVED
        )
        return sound and all(o.outcome is SolverAnswer.PROVED for o in self.obligations)

    def of(self, promise: str) -> SolverAnswer:
        """The outcome of one promise: the worst of its obligations."""
        found = {o.outcome for o in self.obligations if o.promise == promise}
        for worst in (SolverAnswer.FAILED, SolverAnswer.UNKNOWN):
            if worst in found:
                return worst
        return SolverAnswer.PROVED

    @property
    def seconds(self) -> float:
        """The time of all obligations."""
        return sum(o.seconds for o in self.obligations)


def prove(
    spec: Specification,
    *,
    leave_out: frozenset[str] = frozenset(),
    resources: int = RESOURCES,
    order: bool = False,
    explain: bool = False,
    look: int | None = None,
    progress: Progress | None = None,
    memory: Memory | None = None,
) -> Proof:
    """
    Prove a spec's invariants and step promises, but for those left out (also as hypotheses).

    `resources` is z3's limit for each obligation. With `order`, naturals are any total order and
    `+ 1` is some larger element (`herdspec.engine.order`): sound, but more may fail. With
    `explain`, a counterexample names conjuncts that would exclude it
    (`herdspec.check.proof.suggest`); with `look`, a run to it with so many faults is looked for
    (`herdspec.check.proof.reachable`). What the `memory` knows is not proved again.
    """
    explored, spec = spec, spec.for_proof
    prover = prover_of(spec, leave_out=leave_out, resources=resources, order=order)
    proof = Proof(spec, tuple(p.name for p in prover.promises), order=order)
    proof.warnings = warnings_of(spec, prover.promises, order=order)
    proof.not_asked = tuple(p.name for p in spec.properties if not p.provable)
    recall = ProofCache(prover, memory, order=order)
    look_for_vacuity(prover, proof, recall)
    for obligation in map(recall.solve, prover.questions()):
        proof.obligations.append(obligation)
        if progress:
            progress(obligation)
    proof.given = leaning(prover, proof)
    if explain:
        explained(proof, explored)
    if look is not None and any(o.outcome is SolverAnswer.FAILED for o in proof.obligations):
        from herdspec.check.proof.reachable import look_for_runs

        proof.reached = look_for_runs(explored, proof.obligations, look)
    return proof


def leaning(prover: Prover, proof: Proof) -> dict[str, tuple[str, ...]]:
    """
    The promises that are proved only by invariants that are not proved, with these.

    These are taken from the hypotheses, and all else is asked again, until what is proved leans on
    nothing but what is proved (with few resources: what is not shown so is leaning).
    """
    always = [p.name for p in prover.promises if p.expectation is Expectation.ALWAYS]
    unproved = tuple(name for name in always if proof.of(name) is not SolverAnswer.PROVED)
    if not unproved:
        return {}
    sound = {o.promise for o in proof.obligations} - {
        o.promise for o in proof.obligations if o.outcome is not SolverAnswer.PROVED
    }
    found: dict[str, tuple[str, ...]] = {}
    lost = set(unproved)
    while lost:
        kept = [p for p in prover.promises if p.name in sound]
        weaker = Prover(prover.spec, kept, prover.resources, order=proof.order)
        lost = {q.promise for q in weaker.questions() if q.promise in sound and not weaker.keeps(q)}
        sound -= lost
        found |= dict.fromkeys(lost, unproved)
    return found


def prover_of(
    spec: Specification, *, leave_out: frozenset[str] = frozenset(), resources: int = RESOURCES,
    order: bool = False,
) -> Prover:  # fmt: skip
    """The prover of a spec's promises, but for those left out."""
    promises = [p for p in provable(spec) if p.name not in leave_out]
    return Prover(spec, promises, resources, order=order)


def look_for_vacuity(prover: Prover, proof: Proof, recall: ProofCache) -> None:
    """Note the actions that no state allows, or may allow; if none is allowed, why."""
    proof.begins = prover.begins()
    for action in prover.spec.actions:
        match recall.possible(action):
            case SolverAnswer.FAILED:
                proof.vacuous.append(action.name)
            case SolverAnswer.UNKNOWN:
                proof.unsure.append(action.name)
    if len(proof.vacuous) == len(prover.spec.actions):
        proof.contradiction = prover.contradiction()


def explained(proof: Proof, spec: Specification) -> None:
    """Add to the first counterexample of each promise what would exclude it; explores `spec`."""
    from herdspec.check.proof.suggest import Candidates

    failed = [o for o in proof.obligations if o.counterexample and o.action]
    first = {o.promise: o for o in reversed(failed)}
    if not first:
        return
    try:
        candidates = Candidates.of(spec)
    except UsageError:  # a small size of it cannot be explored: nothing is explained then
        return
    for k, obligation in enumerate(proof.obligations):
        if obligation is first.get(obligation.promise) and obligation.counterexample:
            shown = candidates.explain(obligation.counterexample)
            proof.obligations[k] = replace(obligation, counterexample=shown)


# ── What the lemmas are for ─────────────────────────────────────────────────────────────────


def needs_lemmas(
    spec: Specification, promise: str, *, resources: int = RESOURCES, order: bool = False
) -> bool:
    """Tells whether a promise fails induction, or is unknown, without any other as hypothesis."""
    spec = spec.for_proof
    alone = Prover(spec, [spec.promise(promise)], resources, order=order)
    return any(o.outcome is not SolverAnswer.PROVED for o in alone.obligations())


def leave_one_out(
    spec: Specification, *, leave_out: frozenset[str] = frozenset(), resources: int = RESOURCES,
    order: bool = False, progress: Callable[[str], None] | None = None,
) -> dict[str, tuple[str, ...]]:  # fmt: skip
    """
    For each invariant: the promises that are no longer inductive without it.

    None: it is not needed by the others (as a lemma it may go). `progress` is told each name.
    """
    spec = spec.for_proof
    promises = [p for p in provable(spec) if p.name not in leave_out]
    found: dict[str, tuple[str, ...]] = {}
    for without in promises:
        if without.expectation is Expectation.ALWAYS:
            if progress:
                progress(without.name)
            others = [p for p in promises if p is not without]
            found[without.name] = broken(Prover(spec, others, resources, order=order), others)
    return found


def broken(prover: Prover, promises: list[DeclaredProperty]) -> tuple[str, ...]:
    """The promises that some action breaks, or may break."""
    return tuple(
        p.name
        for p in promises
        if any(not prover.keeps(prover.after(a, p)) for a in prover.spec.actions)
    )


__all__ = [
    "DEFINED",
    "RESOURCES",
    "Counterexample",
    "Obligation",
    "Proof",
    "Prover",
    "Question",
    "SolverAnswer",
    "after",
    "leave_one_out",
    "needs_lemmas",
    "provable",
    "prove",
]
