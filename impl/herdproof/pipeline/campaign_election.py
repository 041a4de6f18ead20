"""
The simulated election in a campaign: random walks of the spec, the cores driven along them.

After every step the world must be where the spec is (`Lockstep`); the cores' trace is audited like
any other. A walk's clock is its steps, one millisecond each, so that the same seed tells the same.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from random import Random
from typing import Any

from herdproof.link.edges import Edges, Taken
from herdproof.link.election import Choice, Differs, Lockstep
from herdproof.link.flawed_election import FLAWS
from herdproof.pipeline.campaign_runs import Asked, Broken, Ran
from herdproof.pipeline.replays import replay_election
from herdproof.trace import TraceLine, Tracers
from herdspec.protocols.election_properties import ELECTION

STEPS = 300
STEP_NS = 1_000_000
LAST = 16
FOLLOWS = "follows_the_spec"
SENTENCE = "The cores are where the spec is after every step."
FAULTY = {"calm": 0.04, "mixed": 0.15, "stormy": 0.4}
"""How many of the steps are faults, as far as some are possible."""
ASKED_FOR = 0.15
"""How many are what users ask for."""


@cache
def _edges() -> Edges:
    return Edges(ELECTION)


class Election:
    """The election through ZooKeeper."""

    name = "election"

    def __init__(self) -> None:
        self._mixes = {
            f"{size} brokers/{name}": (size, share)
            for name, share in FAULTY.items()
            for size in (2, 3, 4)
        }
        self.mixes = {
            name: f"{STEPS} steps of {size} brokers, {share:.0%} of them faults"
            for name, (size, share) in self._mixes.items()
        }
        self.flaws = {name: f"elector_flaws: {name}" for name in sorted(FLAWS)}

    def run(self, asked: Asked) -> Ran:
        """Walk as the seed says, the spec and the cores together."""
        walk = _Walk(asked, *self._mixes[asked.mix])
        walk.go()
        return walk.ran()

    def replay(self, lines: Sequence[TraceLine], ran: Ran) -> tuple[Any, Mapping[str, str], int]:
        """The trace in the spec; its edges are those of the walk."""
        found = replay_election(lines)
        counted = {action: ran.counts.get(action, 0) for action in found.taken}
        return replace(found, taken=counted), ran.taken, sum(ran.counts.values())

    def story(self, asked: Asked, *, shrink: bool) -> list[str]:
        """The steps of a walk; where the cores went elsewhere, up to there."""
        walk = _Walk(asked, *self._mixes[asked.mix])
        walk.go()
        differs = walk.differs
        if differs is None:
            counts = sorted(walk.counts.items())
            return [
                f"Seed {asked.seed}: no promise was broken.",
                *(f"{count:9,}  {action}" for action, count in counts),
            ]
        assert differs.lockstep is not None, "it is what differs"
        short = differs.lockstep.shortened() if shrink else differs.lockstep
        return [f'Seed {asked.seed} breaks: "{SENTENCE}"', "", *short.difference.splitlines()]


class _Walk:
    """One random walk."""

    def __init__(self, asked: Asked, size: int, faulty: float) -> None:
        self.asked = asked
        self.chance = Random(f"{asked.seed}/walk")
        self.faulty = faulty
        self.stream = io.StringIO()
        self.tracers = Tracers(str(asked.seed), self.stream)
        self.lockstep = Lockstep(
            ELECTION, size, flaws=frozenset({asked.flaw} - {""}), observe=self.tracers
        )
        self.taken = Taken(_edges())
        self.counts: Counter[str] = Counter()
        self.differs: Differs | None = None
        self.by_kind: dict[str, list[Choice]] = {"step": [], "command": [], "fault": []}
        kinds = {a.name: a.kind.value for a in ELECTION.actions}
        for action, arguments in self.lockstep.machine.choices:
            self.by_kind[kinds[action.name]].append((action.name, arguments))

    def go(self) -> None:
        """All steps, or up to where the cores are elsewhere."""
        for _ in range(STEPS):
            choice = self._chosen()
            if choice is None:
                return
            before = self.lockstep.state
            try:
                self._step(choice)
            except Differs as differs:
                self.differs = differs
                return
            self.counts[choice[0]] += 1
            self.taken(before, *choice, self.lockstep.state)

    def _chosen(self) -> Choice | None:
        """A fault, a command or a step of the protocol, as chance has it; then which."""
        faulty = self.faulty
        weights = [1 - ASKED_FOR - faulty, ASKED_FOR, faulty]
        first = self.chance.choices(list(self.by_kind), weights)
        for kind in dict.fromkeys([*first, *self.by_kind]):
            choices = self.by_kind[kind]
            turn = self.chance.randrange(len(choices))
            if found := self.lockstep.possible(choices, turn):
                return found
        return None

    def _step(self, choice: Choice) -> None:
        """A step on both sides; a write of a broker's application has a line of its own."""
        action, arguments = choice
        if action != "write":
            self.lockstep.step(action, arguments)
            return
        world = self.lockstep.world
        answers: list[Any] = []
        perform = world.zookeeper.perform

        def heard(*operation: Any, **how: Any) -> Any:
            answers.append(perform(*operation, **how))
            return answers[-1]

        core = world.brokers[arguments[0].index].shell.core
        epoch = core.token
        world.zookeeper.perform = heard  # type: ignore[method-assign]
        try:
            self.lockstep.step(action, arguments)
        finally:
            del world.zookeeper.perform
        self.tracers.of(core).wrote(epoch, answers[0])

    def ran(self) -> Ran:
        """What came of it."""
        texts = [
            _at(text, number) for number, text in enumerate(self.stream.getvalue().splitlines())
        ]
        digest = blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()
        return Ran(
            texts, f"seed {self.asked.seed}", sum(self.counts.values()), digest,
            {FOLLOWS: SENTENCE}, self._broken(len(texts)), self.taken.actions, self.counts,
        )  # fmt: skip

    def _broken(self, lines: int) -> Broken | None:
        if self.differs is None:
            return None
        told = str(self.differs).splitlines()
        end = next(k for k, line in enumerate(told) if line.startswith(("There the", "The impl")))
        steps = [line.strip().replace("|", "¦") for line in told[1:end] if line.strip()][-LAST:]
        wrong = " ".join(line.strip() for line in told[end:])
        time_ns = lines * STEP_NS
        first = time_ns - len(steps) * STEP_NS
        return Broken(
            FOLLOWS, SENTENCE, time_ns, wrong,
            [f"{first + k * STEP_NS}|spec|cores|{line}" for k, line in enumerate(steps)],
        )  # fmt: skip


def _at(text: str, number: int) -> str:
    """A line with the walk's clock in the place of the wall's."""
    line = json.loads(text)
    line["time_ns"] = line["since_ns"] = number * STEP_NS
    return json.dumps(line, separators=(",", ":"))
