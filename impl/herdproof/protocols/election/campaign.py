"""The simulated election in a campaign: few faults or many, and the cores trace themselves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar

from herdproof.conformance.holding.held import Held
from herdproof.conformance.walks.draws import Turns
from herdproof.pipeline.campaign.adapter import STEP_NS, AdapterSimulated, AdapterWalk
from herdproof.pipeline.campaign.runs import Asked
from herdproof.protocols.election.held.adapter import electors
from herdproof.protocols.election.held.flawed import FLAWS
from herdproof.protocols.election.simulated import ElectorTracers
from herdproof.protocols.implementation import auditors
from herdspec.language.surface import ActionKind
from herdspec.protocols.election.plan import PROTOCOL
from herdspec.protocols.election.properties import ELECTION

FAULTY = {"calm": 0.04, "mixed": 0.15, "stormy": 0.4}
"""The shares of steps that are faults, as far as some are possible."""
ASKED_FOR = 0.15
"""The share of steps that users ask for."""
MIXES = {
    f"{size} brokers/{name}": (size, share) for name, share in FAULTY.items() for size in (2, 3, 4)
}
STEPS = 300


class Election(AdapterSimulated):
    """The election through ZooKeeper."""

    mixes: ClassVar[Mapping[str, str]] = {
        name: f"{STEPS} steps of {size} brokers, {share:.0%} of them faults"
        for name, (size, share) in MIXES.items()
    }
    flaws: ClassVar[Mapping[str, str]] = {name: f"elector_flaws: {name}" for name in sorted(FLAWS)}

    def __init__(self) -> None:
        super().__init__(
            PROTOCOL, lambda _: electors(), lambda of: auditors()[self.name].replay(of)
        )

    def walk(self, asked: Asked) -> AdapterWalk:
        """A walk of the cores, which trace what they do."""
        return Cores(asked, *MIXES[asked.mix])


class Cores(AdapterWalk):
    """A walk in which so many steps are faults."""

    turns = STEPS

    def __init__(self, asked: Asked, size: int, faulty: float) -> None:
        times = count(step=STEP_NS)
        tracers = ElectorTracers(str(asked.seed), lambda: next(times))
        adapter = electors(frozenset({asked.flaw} - {""}), observe=tracers, wrote=tracers.wrote)
        super().__init__(Held(ELECTION, adapter, Broker=size), asked, PROTOCOL.name)
        self.stream = tracers.stream
        of_kinds = {
            ActionKind.STEP: 1 - ASKED_FOR - faulty,
            ActionKind.COMMAND: ASKED_FOR,
            ActionKind.FAULT: faulty,
        }
        self.shares = {
            tuple(a.name for a in ELECTION.actions if a.kind is kind): share
            for kind, share in of_kinds.items()
        }

    def turn(self, turns: Turns) -> None:
        """A fault, a command or a step of the protocol, as chance has it; then which."""
        first = self.chance.choices([*self.shares], [*self.shares.values()])
        for names in dict.fromkeys([*first, *self.shares]):
            if turns.offer(names, self.chance.getrandbits(24)):
                return

    def trace(self, action: str, arguments: Mapping[str, Any]) -> None:
        """The cores do that themselves."""
