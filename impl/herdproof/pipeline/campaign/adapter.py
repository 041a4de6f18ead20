"""
Code behind an adapter in a campaign: random walks of spec and code together, by seeds.

After every step the code must be where the spec may be (`Held`); what it did is traced, and audited
like any other trace. A walk's clock is its steps, one millisecond each: code that does the same for
the same calls tells the same for the same seed.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from herdproof.conformance.adapter import given
from herdproof.conformance.coarse import Edges, VisitedEdges
from herdproof.conformance.holding.deeds import Deed
from herdproof.conformance.holding.held import Differs, Held, TooManyStates
from herdproof.conformance.traces.tracer import Tracer
from herdproof.conformance.walks.draws import Turns
from herdproof.conformance.walks.shorten import shortened
from herdproof.conformance.walks.walk import inconclusive
from herdproof.pipeline.audit.map_trace import told
from herdproof.pipeline.campaign.runs import Asked, Broken, Ran

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter
    from herdspec.check.protocol import Protocol

TURNS = 120
"""The number of a walk's turns."""
STEP_NS = 1_000_000
LAST = 16
FOLLOWS = "follows_the_spec"
SENTENCE = "The code is where the spec may be after every step."
SIZES = (2, 3)
"""The numbers of elements of each sort, in turn, where the protocol does not say."""


class AdapterSimulated:
    """A protocol's code in a campaign; `adapter` gives that of a variant."""

    def __init__(
        self, protocol: Protocol, adapter: Callable[[str], type[Adapter]],
        replay: Callable[[Sequence[Any]], Any],
    ) -> None:  # fmt: skip
        self._protocol = protocol
        self._adapter = adapter
        self._replay = replay

    @property
    def name(self) -> str:
        """The protocol, as its traces name it."""
        return self._protocol.name

    @cached_property
    def _sizes(self) -> Mapping[str, Mapping[str, int]]:
        """By mix, how many elements each sort has."""
        sorts, fixed = self._protocol.verified().sorts, self._protocol.sizes or {}
        return {f"{n} of each": {**dict.fromkeys(sorts, n), **fixed} for n in SIZES}

    @property
    def mixes(self) -> Mapping[str, str]:
        """Sizes: by name, what is special in them."""
        return {
            name: f"{TURNS} turns at {', '.join(f'{s}={n}' for s, n in sizes.items()) or 'no sort'}"
            for name, sizes in self._sizes.items()
        }

    @cached_property
    def flaws(self) -> Mapping[str, str]:
        """Mistakes that the code can be given: by name, what the spec's variant is called."""
        return {name: flaw.spec.name for name, flaw in self._protocol.flaws().items()}

    def run(self, asked: Asked) -> Ran:
        """Walk as the seed says, spec and code together."""
        return self._walked(asked)[0]

    def replay(self, lines: Sequence[Any], ran: Ran) -> tuple[Any, Mapping[str, str], int]:
        """The trace in the spec; its edges are those of the walk, which knows all of its steps."""
        found = self._replay(lines)
        counted = {action: ran.counts.get(action, 0) for action in found.taken}
        return replace(found, taken=counted), ran.taken, sum(ran.counts.values())

    def story(self, asked: Asked, *, shrink: bool) -> list[str]:
        """The story of a walk; where the code went elsewhere, the story of that."""
        ran, held, differs = self._walked(asked)
        if differs is None:
            said = f"shows nothing: {ran.unsure}" if ran.unsure else "breaks no promise"
            counts = [f"{n:9,}  {action}" for action, n in sorted(ran.counts.items())]
            return [f"Seed {asked.seed} {said}.", *counts]
        short = shortened(held, differs) if shrink else differs
        return [f'Seed {asked.seed} breaks: "{SENTENCE}"', "", *str(short).splitlines()]

    def walk(self, asked: Asked) -> AdapterWalk:
        """The walk of a seed."""
        spec = self._protocol.verified()
        held = Held(spec, self._adapter(asked.flaw), **self._sizes[asked.mix])
        return AdapterWalk(held, asked, self.name)

    def _walked(self, asked: Asked) -> tuple[Ran, Held, Differs | None]:
        """Walk, and write down what was done."""
        walk = self.walk(asked)
        differs, unsure = None, ""
        try:
            differs = walk.go()
        except TooManyStates as error:
            unsure = str(error)
        texts = walk.stream.getvalue().splitlines()
        digest = blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()
        ran = Ran(
            texts, f"seed {asked.seed}", sum(walk.counts.values()), digest, {FOLLOWS: SENTENCE},
            _broken(differs, len(texts)), walk.taken.actions, walk.counts,
            unsure or inconclusive(walk.held.spec, walk.held.report),
        )  # fmt: skip
        return ran, walk.held, differs


class AdapterWalk:
    """One walk; each step that the code took when it was offered is a line of its trace."""

    turns = TURNS

    def __init__(self, held: Held, asked: Asked, name: str) -> None:
        self.held = held
        self.chance = Random(f"{asked.seed}/walk")
        self.stream = io.StringIO()
        times = count(step=STEP_NS)
        self.tracer = Tracer(
            name, "code", self.stream, run=str(asked.seed), clock=lambda: next(times)
        )
        self.taken = VisitedEdges(Edges(held.spec))
        self.moving = _moving(held)
        self.counts: Counter[str] = Counter()

    def go(self) -> Differs | None:
        """All turns, or up to where the code is elsewhere."""
        with self.held as held:
            turns = Turns(held)
            turns.mix(self.chance.getrandbits(16))
            for _ in range(self.turns):
                before, deeds = [c.state for c in held.states], len(held.deeds)
                try:
                    self.turn(turns)
                except Differs as differs:
                    self._note_last(held.deeds[-1])
                    return differs
                for deed in held.deeds[deeds:]:
                    if deed.taken:
                        self._note(before, deed.name)
        return None

    def turn(self, turns: Turns) -> None:
        """One turn."""
        turns.take(self.chance.getrandbits(24))

    def _note(self, before: Sequence[Any], action: str) -> None:
        """Write a step down, and count it; as an edge, where nothing came silently beside it."""
        self.counts[action] += 1
        path = self.held.states[0].path()
        step = next(c.step for c in reversed(path) if c.step and not c.by_itself)
        names = [name for name, _ in step.action.parameters]
        self.trace(action, dict(zip(names, step.arguments, strict=True)))
        if len(before) == 1 and path[-1].step is step:
            self.taken(before[0], action, step.arguments, path[-1].state)

    def _note_last(self, deed: Deed) -> None:
        """The step that led elsewhere is in the trace, too; what the code chose is not known."""
        if deed.taken:
            parameters = given(self.held.possible.actions[deed.name], self.held.adapter)
            names = [name for name, _ in parameters]
            self.trace(deed.name, dict(zip(names, deed.arguments, strict=True)))

    def trace(self, action: str, arguments: Mapping[str, Any]) -> None:
        """Write a step down."""
        assert self.held.code is not None, "it lives"
        seen = {k: v for k, v in self.held.code.observe().items() if k not in self.moving}
        self.tracer.step(action, arguments=told(arguments), seen=told(seen))


def _moving(held: Held) -> frozenset[str]:
    """
    The fields that the code may change by itself once it has taken a step.

    A line shows what is after its step. Of these nobody knows if it was before or after the next
    silent step, which has no line; the walk has compared them.
    """
    if held.adapter.pumped:
        return frozenset()
    actions = [held.possible.actions[name] for name in held.adapter.silent]
    written = [flat.split(".") for action in actions for flat in action.updates]
    return frozenset(".".join(path[:n]) for path in written for n in range(1, len(path) + 1))


def _broken(differs: Differs | None, lines: int) -> Broken | None:
    """The row of a difference in the table of violations."""
    if differs is None:
        return None
    steps = [line.strip() for line in str(differs).splitlines() if line.strip()][:LAST]
    time_ns = lines * STEP_NS
    return Broken(
        FOLLOWS, SENTENCE, time_ns, differs.why,
        [f"{time_ns}|spec|code|{line.replace('|', '¦')}" for line in steps],
    )  # fmt: skip
