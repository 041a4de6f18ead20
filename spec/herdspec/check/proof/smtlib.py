"""
A second opinion: obligations as SMT-LIB 2 files, and answered by another solver, cvc5.

Each file holds one obligation and nothing else is needed to check it: it is unsatisfiable just
where the obligation holds. So whoever trusts neither z3 nor us can hand the files to a solver of
their own. `recheck` does that with cvc5, from the very text of the files, under cvc5's own resource
limit. A different answer of the two is an error of one of them (or of ours in writing the file),
and is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from herdspec.check.proof.induction import Obligation, Prover, Question, SolverAnswer
from herdspec.check.proof.proof_verdict import any_number
from herdspec.check.proof.prove import Proof
from herdspec.check.verdict import Finding, Mark, few
from herdspec.language.errors import UsageError
from herdspec.language.specification import Specification

LIMIT = 2_000_000
"""cvc5's resource limit (`rlimit-per`) for each obligation."""


STATUS = re.compile(r"^\(set-info :status \w+\)$", re.MULTILINE)
"""The line of a script that says what z3 said."""
AGREES = "a second solver agrees"
"""The row of what cvc5 says."""


@dataclass(frozen=True)
class Script:
    """One obligation as the text of an SMT-LIB 2 file."""

    promise: str
    action: str | None
    expected: SolverAnswer
    text: str

    @property
    def name(self) -> str:
        """A file's name."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{self.promise}__{self.action or 'initially'}")
        return f"{plain}.smt2"


@dataclass(frozen=True)
class Second:
    """The answer of the second solver to an obligation."""

    script: Script
    answer: str
    """`unsat`, `sat` or `unknown`."""

    @property
    def agrees(self) -> bool | None:
        """Tells whether it said the same as z3; None where one of them could not tell."""
        if self.answer == "unknown" or self.script.expected is SolverAnswer.UNKNOWN:
            return None
        return self.answer == ANSWERS[self.script.expected]


ANSWERS = {
    SolverAnswer.PROVED: "unsat",
    SolverAnswer.FAILED: "sat",
    SolverAnswer.UNKNOWN: "unknown",
}


def scripts(prover: Prover, proof: Proof) -> Iterator[Script]:
    """Each obligation of a proof that there is something to ask about, as a script."""
    found = {(o.promise, o.action): o for o in proof.obligations}
    for question in prover.questions():
        if not question.is_trivial:
            action = question.action.name if question.action else None
            yield script(prover, question, found[question.promise, action])


def script(prover: Prover, question: Question, obligation: Obligation) -> Script:
    """One question, with z3's answer to it."""
    body = prover.solver(question, prover.resources).to_smt2()
    lines = [s for s in body.splitlines() if not s.startswith(("; benchmark", "(set-info"))]
    text = "\n".join([*header(prover.spec, question, obligation), *lines, ""])
    return Script(question.promise, obligation.action, obligation.outcome, text)


def header(spec: Specification, question: Question, obligation: Obligation) -> list[str]:
    """The comments that a reader of the file needs."""
    promise = next((p for p in spec.properties if p.name == question.promise), None)
    step = f"after {obligation.action}" if question.inductive else "in the initial state"
    said = promise.sentence if promise else question.promise.replace("_", " ")
    status = ANSWERS[obligation.outcome]
    return [
        f"; {spec.name}: {question.promise}, {step}.",
        *(f"; {line}" for line in said.splitlines()),
        "; It holds if and only if this is unsatisfiable.",
        f"(set-info :status {status})",
        "(set-info :smt-lib-version 2.6)",
        "(set-logic ALL)",
    ]


def export(prover: Prover, proof: Proof, directory: Path) -> list[Path]:
    """Write each obligation to a file of its own; returns the files. Raises `UsageError`."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is no directory to write obligations to")
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for made in scripts(prover, proof):
        path = directory / made.name
        path.write_text(made.text, encoding="utf-8")
        written.append(path)
    return written


def recheck(
    prover: Prover, proof: Proof, *, limit: int = LIMIT,
    progress: Callable[[Second], None] | None = None,
) -> list[Second]:  # fmt: skip
    """Ask cvc5 each obligation of a proof; raises `UsageError` if cvc5 is not installed."""
    found = []
    for made in scripts(prover, proof):
        second = Second(made, answer(made.text, limit))
        found.append(second)
        if progress:
            progress(second)
    return found


def agreed(subject: str, proof: Proof, seconds: list[Second]) -> Finding:
    """The finding that the second solver's answers come to."""
    differ = [s.script.name for s in seconds if s.agrees is False]
    silent = [s.script.name for s in seconds if s.agrees is None]
    mark, note = Mark.PROVED, f"{len(seconds)} obligations"
    if differ:
        mark, note = Mark.FAILS, f"cvc5 and z3 differ on {few(differ)}"
    elif silent:
        mark, note = Mark.UNKNOWN, f"cvc5 or z3 gave up on {few(silent)}"
    return Finding(
        subject=subject, row=AGREES, kind="check", mark=mark, note=note,
        bounds=any_number(proof.spec), sentence="cvc5 says of each obligation what z3 says.",
    )  # fmt: skip


def answer(text: str, limit: int = LIMIT) -> str:
    """
    The answer of cvc5 to a script: `unsat`, `sat` or `unknown`.

    Quantifiers are first instantiated by matching; what that leaves open is tried again by
    enumeration. Raises `UsageError` where cvc5 is missing or does not understand the text.
    """
    for options in ({}, {"enum-inst": "true"}, {"finite-model-find": "true"}):
        found = _asked(text, {"rlimit-per": str(limit), **options})
        if found != "unknown":
            return found
    return "unknown"


def _asked(text: str, options: dict[str, str]) -> str:
    try:
        import cvc5
    except ImportError as error:
        raise UsageError(
            "the second solver is missing: `pip install cvc5`, or prove without --recheck"
        ) from error
    solver = cvc5.Solver()
    for name, value in options.items():
        solver.setOption(name, value)
    parser = cvc5.InputParser(solver)
    asked = STATUS.sub("", text)  # it is not told what z3 said: it would only compare
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, asked, "obligation")
    said = ""
    try:
        while not (command := parser.nextCommand()).isNull():
            said += command.invoke(solver, parser.getSymbolManager())
    except RuntimeError as error:
        raise UsageError(f"cvc5 does not understand an obligation: {error}") from error
    if "error" in said:
        raise UsageError(f"cvc5 does not understand an obligation: {said.strip()}")
    return said.strip() or "unknown"
