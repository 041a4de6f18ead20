"""
Hypotheses on every reachable state: the invariants that were proved, and nothing else.

A promise that is only hoped for (an expected failure, a lemma that is not inductive) would hide the
states that break it from whoever takes it for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from herdproof.conformance.adapter import AdapterError
from herdspec.check.cache import Memory
from herdspec.check.proof.prove import Proof, SolverAnswer, prove
from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation


@dataclass(frozen=True)
class Hypotheses:
    """The invariants of a spec that were proved; `left_out` are the others, with the reason."""

    used: tuple[DeclaredProperty, ...]
    left_out: Mapping[str, str]


def hypotheses(
    spec: Specification, proof: Proof | None = None, memory: Memory | None = None
) -> Hypotheses:
    """
    The invariants that a proof has shown; it is sought if it is not given.

    What the `memory` knows is not proved again. Raises `AdapterError` for a proof of another spec.
    """
    if proof is None:
        proof = prove(spec, memory=memory)
    if proof.spec is not spec.for_proof:
        raise AdapterError(
            f"the proof is one of {proof.spec.name} as it was, or of another spec: give"
            f" `prove({spec.name})` of this very specification, or none"
        )
    used, left_out = [], {}
    for promise in spec.properties:
        if promise.expectation is Expectation.ALWAYS:
            reason = _reason(proof, promise.name)
            if reason:
                left_out[promise.name] = reason
            else:
                used.append(promise)
    return Hypotheses(tuple(used), left_out)


def _reason(proof: Proof, name: str) -> str:
    """Why an invariant is not proved; empty if it is."""
    if name not in proof.promises:
        return "it was not asked of the proof"
    if proof.of(name) is not SolverAnswer.PROVED:
        failing = dict.fromkeys(
            o.action or "the initial state"
            for o in proof.obligations
            if o.promise == name and o.outcome is not SolverAnswer.PROVED
        )
        return f"it is not proved ({', '.join(failing)})"
    if name in proof.given:
        return f"its proof leans on {', '.join(proof.given[name])}, not proved"
    return ""
