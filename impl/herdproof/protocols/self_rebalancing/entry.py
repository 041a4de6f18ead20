"""System A, entered: its spec, and what is checked of the consumers' code."""

from __future__ import annotations

from typing import Any

from herdproof.conformance.findings import conforms, differs, implementation
from herdproof.protocols.implementation import Implementation
from herdspec.check.cache import Result
from herdspec.check.verdict import counted
from herdspec.check.verify import Check, Tell
from herdspec.protocols.self_rebalancing.plan import PROTOCOL

SIMULATED_RUNS = 20


def of_self_rebalancing() -> tuple[Any, ...]:
    """What the verdicts about the implementation of self-rebalancing consumers rest on."""
    from herdspec.protocols.self_rebalancing.contract import CLAIMED

    return CLAIMED, implementation()


def simulated_runs(subject: str) -> Check:
    """Disturbed runs of the core in the simulated world, judged by the contract."""
    row = "simulated runs keep the contract, and settle"
    sentence = "What the core does in the simulated world, disturbed, the contract allows."

    def run(tell: Tell) -> Result:
        from herdproof.protocols.self_rebalancing.judged.eyes import judged

        events = 0
        for seed in range(SIMULATED_RUNS):
            tell(f"{seed} of {counted(SIMULATED_RUNS, 'run')}", seed / SIMULATED_RUNS)
            found = judged(seed)
            events += len(found.run.log)
            bounds = f"{counted(seed + 1, 'run')}, {counted(events, 'event')}"
            if found.broken:
                finding = differs(subject, row, sentence, bounds, "\n".join(found.story))
                return Result((finding,), f"seed {seed}")
        return Result((conforms(subject, row, sentence, bounds),), bounds)

    return Check(f"simulate and judge {SIMULATED_RUNS} runs", run, of_self_rebalancing)


IMPLEMENTATION = Implementation(PROTOCOL, checks=(simulated_runs,))
