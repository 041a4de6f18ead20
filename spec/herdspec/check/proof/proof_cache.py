"""
Proofs that were found before: the answers to questions that have not changed.

An obligation's digest is made of its hypotheses, what is given, its goal, and the limits, as graph;
so a guard that changes touches the obligations of its action, and a promise that changes touches
all, since every other one assumes it. Only what was proved is remembered: a counterexample is
looked for again, and what z3 gave up is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from herdspec.check.cache import Memory
from herdspec.check.digest import Digester, engine, hashed
from herdspec.check.proof.induction import Obligation, Prover, Question, SolverAnswer
from herdspec.language.graph import Expr
from herdspec.language.specification import Action

KEPT = "kept"
"""The reason that an obligation gives which was proved before."""


class ProofCache:
    """A prover that need not be asked what the memory knows; without memory it is always asked."""

    def __init__(self, prover: Prover, memory: Memory | None, *, order: bool = False) -> None:
        self.prover = prover
        self.memory = memory
        self._digester = Digester()
        axioms, always = self._of(prover.axioms), self._of(prover.always)
        limits = f"{prover.resources} {order}"
        self._without = hashed("initially", engine(), limits, *axioms)
        self._with = hashed("inductive", engine(), limits, *axioms, *always)

    def _of(self, values: Iterable[Any]) -> list[str]:
        return [self._digester.of(value) for value in values] if self.memory else []

    def solve(self, question: Question) -> Obligation:
        """The answer to one question."""
        if self.memory is None or question.is_trivial:
            return self.prover.solve(question)
        base = self._with if question.inductive else self._without
        key = hashed(base, *self._of(question.given), "implies", *self._of([question.goal]))
        if self.memory.knows(key):
            name = question.action.name if question.action else None
            return Obligation(question.promise, name, SolverAnswer.PROVED, 0.0, 0, reason=KEPT)
        answer = self.prover.solve(question)
        if answer.outcome is SolverAnswer.PROVED:
            self.memory.learn(key)
        return answer

    def holds(self, name: str, action: Action | None, goal: Expr) -> Obligation:
        """The obligation that a formula holds wherever the hypotheses and an action's guard do."""
        given = self.prover.taken(action) if action else ()
        return self.solve(Question(name, action, goal, given, inductive=action is not None))

    def possible(self, action: Action) -> SolverAnswer:
        """Ask for a state that satisfies the hypotheses and allows an action."""
        if self.memory is None:
            return self.prover.possible(action)
        key = hashed(self._with, "allows", *self._of(self.prover.taken(action)))
        if self.memory.knows(key):
            return SolverAnswer.PROVED
        answer = self.prover.possible(action)
        if answer is SolverAnswer.PROVED:
            self.memory.learn(key)
        return answer
