"""
Verdicts of proofs: what induction showed of each promise, and what it leans on.

Proved is what holds initially and after every step, by hypotheses that are proved themselves. What
some step may break is *not inductive*: unknown, unless a run is known that breaks it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdspec.check.verdict import (
    DEFINEDNESS,
    Finding,
    Mark,
    Shown,
    few,
    kind_of,
    shown_by,
    taken_in,
    told,
)
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation

if TYPE_CHECKING:
    from herdspec.check.proof.prove import Obligation, Proof

ALLOWED = "the promises allow every action"
"""The row of actions that no state allows which keeps all promises: they would be vacuous."""
NOT_INDUCTIVE = "not inductive"


def any_number(spec: Specification) -> str:
    """The world that a proof speaks about, in words."""
    if not spec.sorts:
        return "any numbers"
    names = [f"{name.lower()}s" for name in spec.sorts]
    if spec.relational:
        names = ["messages in flight" if name == "tags" else name for name in names]
    *first, last = names
    several = f"{', '.join(first)} and {last}" if first else last
    return f"one or more {several}"


def proved(subject: str, proof: Proof) -> list[Finding]:
    """A finding for each promise that induction was tried on, and for definedness and vacuity."""
    findings = [_proved(subject, proof, proof.spec.promise(name)) for name in proof.promises]
    findings += [*_defined(subject, proof), _not_vacuous(subject, proof)]
    return [replace(f, bounds=_scope(proof)) for f in findings]


def _scope(proof: Proof) -> str:
    """The world that a proof speaks about, and what it took for less than it is."""
    order = ", naturals as any total order" if proof.order else ""
    channels = ", channels as sets of messages" if proof.spec.relational else ""
    return f"{any_number(proof.spec)}{order}{channels}"


def _defined(subject: str, proof: Proof) -> list[Finding]:
    """The finding that no step looks at what is absent, if any looks at what may be."""
    from herdspec.check.proof.prove import DEFINED

    asked = any(o.promise == DEFINED for o in proof.obligations)
    return [_induced(subject, proof, DEFINED, "check", DEFINEDNESS)] if asked else []


def _proved(subject: str, proof: Proof, promise: DeclaredProperty) -> Finding:
    return _induced(subject, proof, promise.name, kind_of(promise), promise.sentence)


def _induced(subject: str, proof: Proof, name: str, kind: str, sentence: str) -> Finding:
    """The finding of a proof on one row: a proof that leans on what is not proved is none."""
    obligations = [o for o in proof.obligations if o.promise == name]
    found = induced(subject, name, kind, sentence, proof.spec, obligations)
    if found.mark is Mark.PROVED and (vacuous := _vacuous(proof)):
        return replace(found, mark=Mark.UNKNOWN, note=vacuous)
    if found.mark is Mark.PROVED and (given := proof.given.get(name)):
        note = f"given {few(list(given))}, not proved"
        return replace(found, mark=Mark.UNKNOWN, note=note)
    if found.mark is Mark.FAILS and proof.order:  # some order may break what naturals do not
        return replace(found, mark=Mark.UNKNOWN, found=None)
    return _reached(found, proof, name)


def _vacuous(proof: Proof) -> str:
    """Why everything was proved, if so: there is no initial state, or no state at all."""
    from herdspec.check.proof.prove import SolverAnswer

    if proof.contradiction:
        return "the promises contradict each other"
    return "" if proof.begins is SolverAnswer.PROVED else "no initial state was found"


def _reached(finding: Finding, proof: Proof, name: str) -> Finding:
    """The finding on a counterexample to induction: the run to it, or how far was looked."""
    reached = proof.reached.get(name)
    if finding.mark is not Mark.UNKNOWN or reached is None:
        return finding
    if reached.story is None:
        return replace(finding, story=(*finding.story, reached.sentence))
    story = reached.story
    return replace(
        finding, mark=Mark.FAILS, note="", found=shown_by(story), story=told(story),
        steps=taken_in(story),
    )  # fmt: skip


def induced(
    subject: str, name: str, kind: str, sentence: str, spec: Specification,
    obligations: list[Obligation],
) -> Finding:  # fmt: skip
    """
    The finding on a property, by the worst of these obligations.

    One that fails initially is broken: initial states are reached. One that fails after a step is
    not inductive, and unknown: nobody knows whether the state before the step is reached.
    """
    from herdspec.check.proof.prove import SolverAnswer

    mark, note = Mark.PROVED, ""
    bad: list[Obligation] = []
    actions = {a.name for a in spec.actions}
    failed = [o for o in obligations if o.outcome is SolverAnswer.FAILED]
    for found, made, words in (
        ([o for o in obligations if o.outcome is SolverAnswer.UNKNOWN], Mark.UNKNOWN, "z3 gave up"),
        ([o for o in failed if o.action in actions], Mark.UNKNOWN, NOT_INDUCTIVE),
        ([o for o in failed if o.action not in actions], Mark.FAILS, "fails initially"),
    ):
        if found:
            mark, bad = made, found
            names = few([o.action or "the initial state" for o in bad])
            note = words if made is Mark.FAILS else f"{words}: {names}"
    if not obligations:
        mark, note = Mark.UNKNOWN, "there was nothing to prove"
    shown = next((o.counterexample for o in bad if o.counterexample), None)
    return Finding(
        subject=subject, row=name, kind=kind, mark=mark, bounds=any_number(spec),
        sentence=sentence, note=note, story=tuple(shown.lines) if shown else (),
        found=Shown(0, "") if mark is Mark.FAILS else None,
    )  # fmt: skip


def nothing_begins(spec: Specification) -> str:
    """Why there is no initial state: what the spec asks of one, and nothing that it does not."""
    starts = ", ".join(a.name for a in spec.starts)
    if not any(p.expectation is Expectation.AXIOM for p in spec.properties):
        return f"no initial state: no choice of @initial {starts} is possible"
    return f"no initial state{f' of @initial {starts}' if starts else ''} keeps the axioms"


def _not_vacuous(subject: str, proof: Proof) -> Finding:
    from herdspec.check.proof.prove import SolverAnswer

    mark, note = Mark.PROVED, ""
    if proof.begins is SolverAnswer.FAILED:
        mark, note = Mark.FAILS, nothing_begins(proof.spec)
    elif proof.contradiction:
        mark, note = Mark.FAILS, f"no state keeps all of {', '.join(proof.contradiction)}"
    elif proof.vacuous:
        names = ", ".join(proof.vacuous)
        mark, note = Mark.FAILS, f"no state was found that keeps all promises and allows {names}"
    elif proof.unsure or proof.begins is SolverAnswer.UNKNOWN:
        mark, note = Mark.UNKNOWN, f"z3 gave up: {few(proof.unsure or ['the initial states'])}"
    return Finding(
        subject=subject, row=ALLOWED, kind="check", mark=mark,
        bounds=any_number(proof.spec), note=note,
        sentence="Each action is allowed by some state that keeps all promises.",
    )  # fmt: skip
