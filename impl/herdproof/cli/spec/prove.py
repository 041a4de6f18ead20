"""`herdproof prove SPEC`: its promises by induction, for any number of elements, with z3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.options import SaveStoriesOption, SpecArgument
from herdproof.cli.spec.watch import WatchOption
from herdproof.report.render import (
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
from herdspec.check.verdict import Standing
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.proof.prove import Obligation, Proof
    from herdspec.check.verdict import Finding
    from herdspec.check.verify import Tell


NO_RUN = "no run is known to the state in which its counterexample to induction begins"
SAFETY_ONLY = "more may happen than with queues, so what is proved holds, and what fails may hold"


def prove(
    spec: SpecArgument,
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", metavar="NAME", help="Neither prove nor assume this one."),
    ] = None,
    resources: Annotated[
        int | None, typer.Option(min=1, help="z3's resource limit for each obligation.")
    ] = None,
    abstract_order: Annotated[
        bool, typer.Option("--abstract-order", help="Take naturals as any total order.")
    ] = False,
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Say what each invariant is needed for.")
    ] = False,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Look for lemmas that make the promises inductive.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="DIR", help="Write each obligation as SMT-LIB 2."),
    ] = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Ask a second solver, cvc5, each obligation again.")
    ] = False,
    save_stories: SaveStoriesOption = None,
    watch: WatchOption = False,
    json: JsonOption = None,
) -> None:
    """Prove a spec's promises, for any number of elements. It does so by induction, with z3."""
    from herdproof.cli.spec.watch import every_save
    from herdproof.cli.specs import read
    from herdspec.check.proof.prove import RESOURCES

    out = Output(json)
    how = Proving(
        leave_out or [], resources or RESOURCES, abstract_order, leave_one_out, suggest, export,
        recheck, spec, save_stories,
    )  # fmt: skip
    if watch:
        every_save(out, spec, lambda subject: how.on(out, subject))
        return
    subject = read(out, spec)
    raise typer.Exit(how.on(out, subject).value)


@dataclass(frozen=True)
class Proving:
    """The options of a proof, and how it is done."""

    leave_out: list[str]
    resources: int
    order: bool
    leave_one_out: bool
    suggest: bool
    export: Path | None
    recheck: bool
    asked: str
    """The spec as the command names it."""
    save_stories: Path | None

    def on(self, out: Output, subject: Subject) -> Standing:
        """Prove one spec, print and write what came of it."""
        from herdspec.check.proof.proof_verdict import proved
        from herdspec.check.verdict import standing_of

        omitted = self.omitted(subject)
        with out.progress(f"prove {subject.name}") as tell:
            proof = self.proof(subject, omitted, tell)
        findings = proved(subject.name, proof)
        print_proof(out, subject, proof, findings)
        if self.save_stories is not None:
            self.save(out, self.save_stories, subject, proof)
        more: dict[str, Any] = {}
        if self.leave_one_out:
            more["needed_for"] = self.needs(out, subject, omitted)
        if self.suggest and not proof.proved:
            more["suggestion"] = self.suggestion(out, subject, omitted)
        if self.export or self.recheck:
            findings += self.again(out, subject, proof, omitted, more)
        standing = standing_of(findings)
        out.line()
        if self.order and standing is not Standing.HOLDS:
            out.line("naturals were any total order: try again without --abstract-order")
        out.line(conclusion(findings), style=COLOURS[standing])
        out.json(proof_json(proof, findings, standing.value) | more)
        return standing

    def omitted(self, subject: Subject) -> frozenset[str]:
        """The promises that are neither proved nor assumed: left out, or declared to fail."""
        from herdproof.cli.specs import promise_of
        from herdspec.check.proof.prove import provable

        omitted = {promise_of(subject.spec, name) for name in self.leave_out}
        omitted |= set(subject.declared)
        if all(p.name in omitted for p in provable(subject.spec)):
            raise UsageError(
                f"{subject.name} has no promise to prove: write an @always or a @step property, "
                "or leave less out"
            )
        return frozenset(omitted)

    def proof(self, subject: Subject, omitted: frozenset[str], tell: Tell) -> Proof:
        """The proof, with progress."""
        from herdspec.check.proof.prove import prove as induct
        from herdspec.check.verify import obligations

        progress = obligations(subject.spec, omitted, tell)
        return induct(
            subject.spec, leave_out=omitted, resources=self.resources, order=self.order,
            explain=True, look=subject.faults, progress=progress,
        )  # fmt: skip

    def save(self, out: Output, folder: Path, subject: Subject, proof: Proof) -> None:
        """Save the runs that break a promise; a counterexample to induction is none by itself."""
        from herdproof.cli.code.stories import FoundStories, save_stories
        from herdproof.cli.specs import whole_name
        from herdspec.check.proof.prove import SolverAnswer

        found = {
            name: FoundStories(run.machine, {name: run.story})
            for name, run in proof.reached.items()
            if run.machine is not None and run.story is not None
        }
        save_stories(out, folder, whole_name(self.asked, subject), *found.values())
        failed = (o.promise for o in proof.obligations if o.outcome is SolverAnswer.FAILED)
        for name in dict.fromkeys(failed):
            if name not in found:
                out.line(f"not saved, {NO_RUN}: {spoken(name)}")

    def needs(
        self, out: Output, subject: Subject, omitted: frozenset[str]
    ) -> dict[str, tuple[str, ...]]:
        """The properties that are not inductive without each invariant."""
        from herdspec.check.proof.prove import leave_one_out

        with out.progress("leaving each out") as tell:
            found = leave_one_out(
                subject.spec, leave_out=omitted, resources=self.resources, order=self.order,
                progress=lambda name: tell(spoken(name), None),
            )  # fmt: skip
        out.line()
        table = table_of("without", "is not inductive")
        for name, broken in found.items():
            table.add_row(spoken(name), ", ".join(map(spoken, broken)) or "nothing: not needed")
        out.table(table)
        return found

    def suggestion(self, out: Output, subject: Subject, omitted: frozenset[str]) -> dict[str, Any]:
        """Lemmas that make the promises inductive, if any were found."""
        from herdspec.check.proof.suggest import suggest

        with out.progress("looking for lemmas") as tell:
            found = suggest(
                subject.spec, leave_out=omitted, resources=self.resources, order=self.order,
                tell=lambda words: tell(words, None),
            )  # fmt: skip
        tried = f"{found.tried:,} candidates that hold in {found.states:,} reached states"
        out.line()
        if found.found:
            out.line(f"With these lemmas it is proved (out of {tried}):")
            out.line()
            for line in found.lines:
                out.line(line)
        else:
            out.line(f"No lemmas were found: none of {tried} make the promises inductive.")
        texts = [c.text for c in found.conjuncts]
        return {"found": found.found, "conjuncts": texts, "tried": found.tried}

    def again(
        self, out: Output, subject: Subject, proof: Proof, omitted: frozenset[str],
        more: dict[str, Any],
    ) -> list[Finding]:  # fmt: skip
        """Write the obligations, ask the second solver."""
        from herdspec.check.proof import smtlib
        from herdspec.check.proof.prove import prover_of

        prover = prover_of(
            proof.spec, leave_out=omitted, resources=self.resources, order=self.order
        )
        if self.export:
            written = smtlib.export(prover, proof, self.export)
            out.line(f"{len(written)} obligations were written to {self.export}")
            more["exported"] = [str(path) for path in written]
        if not self.recheck:
            return []
        with out.progress("asking cvc5") as tell:
            seconds = smtlib.recheck(
                prover, proof, progress=lambda s: tell(f"{s.script.name} {s.answer}", None)
            )
        finding = smtlib.agreed(subject.name, proof, seconds)
        out.line(f"cvc5: {verdict(finding)}")
        more["rechecked"] = {s.script.name: s.answer for s in seconds}
        return [finding]


def print_proof(out: Output, subject: Subject, proof: Proof, findings: list[Finding]) -> None:
    """A matrix promise × action, what fails with its counterexample, and what it cost."""
    out.line(f"{subject.name}: {subject.spec.sentence}")
    number = len(proof.obligations)
    out.line(f"{findings[0].bounds}: {number} obligations, {proof.seconds:.1f} s")
    for name in proof.not_asked:
        out.line(f"not asked, it speaks of a channel's order or length: {spoken(name)}")
    if proof.spec.relational:
        out.line(f"channels were sets of messages, taken in any order: {SAFETY_ONLY}")
    for warning in proof.warnings:
        out.line(f"warning: {warning}", style="yellow")
    for name in sorted(subject.declared):
        out.line(f"left out, it is declared to fail: {spoken(name)}")
    out.line()
    table = table_of("promise", "initially, then by action", "verdict")
    for f in findings:
        initially, *by_action = obligations_of(proof, f.row) or (None,)
        marks = mark(initially, "✗") + "".join(mark(o, "?") for o in by_action)
        table.add_row(spoken(f.row), marks if by_action else "", coloured(f, verdict(f)))
    out.table(table)
    out.line()
    out.line(f"actions in order: {', '.join(a.name for a in proof.spec.actions)}")
    for f in findings:
        if f.story:
            out.line()
            for line in story(f):
                out.line(line)


def obligations_of(proof: Proof, promise: str) -> list[Obligation | None]:
    """A promise's obligations: the initial states' worst (steps have none), then each action's."""
    from herdspec.check.proof.prove import SolverAnswer

    of = [o for o in proof.obligations if o.promise == promise]
    by = {o.action: o for o in of}
    names = [a.name for a in proof.spec.actions]
    initially = [o for o in of if o.action not in names]
    if not by:
        return []
    worst = max(initially, key=lambda o: list(SolverAnswer).index(o.outcome), default=None)
    return [worst, *(by.get(name) for name in names)]


def mark(obligation: Obligation | None, failed: str) -> str:
    """An obligation in one character; what is not inductive is not known to fail."""
    from herdspec.check.proof.prove import SolverAnswer

    if obligation is None:
        return "·"
    return {SolverAnswer.PROVED: "●", SolverAnswer.FAILED: failed, SolverAnswer.UNKNOWN: "?"}[
        obligation.outcome
    ]


def proof_json(proof: Proof, findings: list[Finding], code: int) -> dict[str, Any]:
    """A proof as JSON, obligation by obligation."""
    return {
        "command": "prove", "exit": code, "spec": proof.spec.name, "vacuous": proof.vacuous,
        "unsure": proof.unsure, "contradiction": list(proof.contradiction),
        "given": proof.given,
        "runs": {
            name: found.story.labels if found.story else found.sentence
            for name, found in proof.reached.items()
        },
        "abstract_order": proof.order, "warnings": list(proof.warnings),
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
