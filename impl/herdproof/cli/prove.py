"""`herdproof prove SPEC`: its promises by induction, for any number of elements, with z3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.explore import SpecArgument
from herdproof.cli.render import (
    COLOURS,
    JsonOption,
    Output,
    coloured,
    conclusion,
    findings_json,
    spoken,
    story,
    table_of,
    verdict,
)
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.prove import Obligation, Proof
    from herdspec.check.verdict import Finding
    from herdspec.check.verify import Tell


def prove(
    spec: SpecArgument,
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", metavar="NAME", help="Neither prove nor assume this one."),
    ] = None,
    resources: Annotated[
        int | None, typer.Option(min=1, help="z3's resource limit for each obligation.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Prove a spec's promises by induction, for any number of elements."""
    from herdproof.cli.specs import find, promise_of
    from herdspec.check.prove import RESOURCES
    from herdspec.check.verdict import proved, standing_of

    out = Output(json)
    with out.progress("reading the spec"):
        subject = find(spec)
    omitted = {promise_of(subject.spec, name) for name in leave_out or []}
    omitted |= set(subject.declared)
    with out.progress(f"prove {subject.name}") as tell:
        proof = proof_of(subject, frozenset(omitted), resources or RESOURCES, tell)
    findings = proved(subject.name, proof)
    standing = standing_of(findings)
    print_proof(out, subject, proof, findings)
    out.line()
    out.line(conclusion(standing), style=COLOURS[standing])
    out.json(proof_json(proof, findings, standing.value))
    raise typer.Exit(standing.value)


def proof_of(subject: Subject, omitted: frozenset[str], resources: int, tell: Tell) -> Proof:
    """Prove, with progress; refuses where nothing would be proved."""
    from herdspec.check.prove import provable
    from herdspec.check.prove import prove as induct
    from herdspec.check.verify import obligations

    if all(p.name in omitted for p in provable(subject.spec)):
        raise UsageError(
            f"{subject.name} has no promise to prove: write an @always or a @step property, "
            "or leave less out"
        )
    progress = obligations(subject.spec, omitted, tell)
    return induct(subject.spec, leave_out=omitted, resources=resources, progress=progress)


def print_proof(out: Output, subject: Subject, proof: Proof, findings: list[Finding]) -> None:
    """A matrix promise × action, what fails with its counterexample, and what it cost."""
    out.line(f"{subject.name}: {subject.spec.sentence}")
    number = len(proof.obligations)
    out.line(f"{findings[0].bounds}: {number} obligations, {proof.seconds:.1f} s")
    for name in sorted(subject.declared):
        out.line(f"left out, it is declared to fail: {spoken(name)}")
    out.line()
    table = table_of("promise", "initially, then by action", "verdict")
    for f in findings:
        marks = "".join(map(mark, obligations_of(proof, f.row)))
        table.add_row(spoken(f.row), marks, coloured(f, verdict(f)))
    out.table(table)
    out.line()
    out.line(f"actions in order: {', '.join(a.name for a in proof.spec.actions)}")
    for f in findings:
        if f.story:
            out.line()
            for line in story(f):
                out.line(line)


def obligations_of(proof: Proof, promise: str) -> list[Obligation | None]:
    """A promise's obligations: the initial state's (steps have none), then each action's."""
    by = {o.action: o for o in proof.obligations if o.promise == promise}
    if not by:
        return []
    return [by.get(None), *(by[a.name] for a in proof.spec.actions)]


def mark(obligation: Obligation | None) -> str:
    """An obligation in one character."""
    from herdspec.check.prove import Outcome

    if obligation is None:
        return "·"
    return {Outcome.PROVED: "●", Outcome.FAILED: "✗", Outcome.UNKNOWN: "?"}[obligation.outcome]


def proof_json(proof: Proof, findings: list[Finding], code: int) -> dict[str, Any]:
    """A proof as JSON, obligation by obligation."""
    return {
        "command": "prove", "exit": code, "spec": proof.spec.name, "vacuous": proof.vacuous,
        "obligations": [
            {
                "promise": o.promise, "action": o.action, "outcome": o.outcome.name.lower(),
                "seconds": round(o.seconds, 4), "resources": o.resources, "reason": o.reason,
                "counterexample": o.counterexample.lines if o.counterexample else None,
            }
            for o in proof.obligations
        ],
        "findings": findings_json(findings),
    }  # fmt: skip
