"""What is checked of the election, and the election as every command knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from herdspec.check.plans import (
    QUICK,
    Looked,
    Scale,
    exploration,
    flawed,
    proof,
    refinement,
    said_of,
)
from herdspec.check.protocol import Protocol
from herdspec.check.verify import Plan
from herdspec.language.specification import Specification

if TYPE_CHECKING:
    from herdspec.check.verdict import Declared
    from herdspec.protocols.flaws import Flaw


def verified() -> Specification:
    """The verified election."""
    from herdspec.protocols.election_properties import ELECTION

    return ELECTION


def declared() -> Mapping[str, Declared]:
    """What holds of no protocol without clocks."""
    from herdspec.protocols.election_flaws import AT_ONCE

    return AT_ONCE


def contract() -> Specification:
    """What the election owes those who build on it."""
    from herdspec.protocols.election_contract import CONTRACT

    return CONTRACT


def drafted() -> Flaw:
    """The election as drafted."""
    from herdspec.protocols.election_flaws import DRAFTED

    return DRAFTED


def flaws() -> Mapping[str, Flaw]:
    """The verified election with one mistake each."""
    from herdspec.protocols.election_flaws import FLAWS

    return FLAWS


def planned(scale: Scale, spec: Specification | None = None) -> Plan:
    """The plan of the election; another spec may be put in the verified one's place."""
    from herdspec.protocols.election_contract import CONTRACT, REFINEMENT
    from herdspec.protocols.election_flaws import AT_ONCE, DRAFTED, FLAWS
    from herdspec.protocols.election_properties import ELECTION

    spec = spec or ELECTION
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


PROTOCOL = Protocol(
    "election", verified, declared, contract=contract, drafted=drafted, flaws=flaws, plan=planned
)
