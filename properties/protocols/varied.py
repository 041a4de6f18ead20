"""A protocol's spec without a lemma, and a refinement's with what a variant does otherwise."""

from __future__ import annotations

from types import FunctionType

from herdspec import Specification
from herdspec.check.proof.prove import Prover, provable


def breaks(spec: Specification, lemma: str, promise: str, action: str) -> bool:
    """Whether, of a small size, some step breaks a promise where all but this lemma held."""
    prover = Prover(spec, [p for p in provable(spec) if p.name != lemma])
    step = next(a for a in spec.actions if a.name == action)
    return prover.shrunk(prover.after(step, spec.promise(promise)), None) is not None


def changed(seen: Specification, variant: Specification, protocol: type) -> Specification:
    """What a refinement is of, changed as a variant of the protocol is."""
    functions = dict[str, FunctionType | None]()
    kin = variant.state.__mro__
    for cls in reversed(kin[: kin.index(protocol)]):
        functions |= {
            k: v for k, v in vars(cls).items() if v is None or isinstance(v, FunctionType)
        }
    replaced = {k: v for k, v in functions.items() if k in seen.methods and v is not None}
    added = {k: v for k, v in functions.items() if k not in seen.methods and v is not None}
    dropped = [k for k, v in functions.items() if v is None and k in seen.methods]
    return seen.replace("Seen", **replaced).add("Seen", **added).drop("Seen", *dropped)
