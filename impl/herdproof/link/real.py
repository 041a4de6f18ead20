"""
The election's spec beside real brokers on a real ZooKeeper: the same step on both, then compared.

`Photographer` takes a picture of a `RealElection` at rest: the cores' fields and inboxes, the nodes
as an outsider reads them, and each session, connection and watch as the server itself lists them
(its four-letter words `dump`, `cons` and `wchc`). The picture is a simulated world, so that the one
`Observer` reads both worlds as states of the spec. All fields of the spec are compared. Three kinds
of them say little: `paused` and `behind` are what the plan itself did, `stale_write_accepted` is
what this world noted when ZooKeeper accepted a write.

The server notices a broken connection a little later than its client, so a picture that differs is
taken again until it agrees or the patience ends. As the gates hold everything back, the spec
allows exactly one state at rest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from herdproof.errors import HerdError
from herdproof.link.election import BOUND, Differs, Observer, Unlinked, unlike
from herdproof.link.flawed_election import elector_with
from herdproof.link.real_world import RealElection, Session
from herdproof.simulator.election import SimulatedElection
from herdproof.simulator.tree import Node
from herdproof.simulator.zookeeper import Session as Known
from herdproof.simulator.zookeeper import Snapshot as Service
from herdspec.check.run import Machine, Step, told
from herdspec.engine.ground import Ground
from herdspec.language.specification import Action, Specification
from herdspec.language.surface import Kind
from herdspec.protocols.election_properties import ELECTION

_ID = re.compile(r"0x[0-9a-f]+")
_SESSION = re.compile(r"^\t(0x[0-9a-f]+)$", re.MULTILINE)
_CONNECTED = re.compile(r"\bsid=(0x[0-9a-f]+)")

_WEIGHTS = {Kind.STEP: 6, Kind.COMMAND: 2, Kind.FAULT: 2}
"""How often a random plan lets the protocol act, a user, or a fault."""


@dataclass(frozen=True)
class Lists:
    """What the server lists: living sessions, sessions with a connection, watches by session."""

    sessions: frozenset[int]
    connected: frozenset[int]
    watches: Mapping[int, frozenset[str]]


def read_lists(dump: str, cons: str, wchc: str) -> Lists:
    """
    The server's answers to three of its words.

    `dump` lists connections, too, but now and then keeps one that has been closed.
    """
    sessions = dump.partition("ephemeral nodes dump:")[0]
    watches: dict[int, frozenset[str]] = {}
    session = 0
    for line in wchc.splitlines():
        if _ID.fullmatch(line):
            session = int(line, 16)
        elif line.startswith("\t"):
            watches[session] = watches.get(session, frozenset()) | {line.strip()}
    return Lists(
        frozenset(int(found, 16) for found in _SESSION.findall(sessions)),
        frozenset(int(found, 16) for found in _CONNECTED.findall(cons)),
        watches,
    )


class Photographer:
    """Takes pictures of a real world: what `Observer` reads."""

    def __init__(self, world: RealElection) -> None:
        self.world = world
        self.picture = SimulatedElection(world.size)
        self.servers = {world.truth, *map(world.server_of, range(world.size))}

    def __call__(self) -> SimulatedElection:
        """The world as it is now."""
        world, picture = self.world, self.picture
        lists = {server: self._lists(server) for server in self.servers}
        sessions: dict[int, Known] = {}
        for b, (shown, broker) in enumerate(zip(picture.brokers, world.brokers, strict=True)):
            here, session = lists[world.server_of(b)], broker.session
            sessions[session] = Known(
                session in lists[world.truth].sessions,
                here.watches.get(session, frozenset()),
                view=self._nodes(world.readers[b]) if b in world.lagging else None,
            )
            shown.shell, shown.session, shown.paused = broker.shell, session, broker.paused
            shown.former = tuple(s for s in broker.passwords if s != session)
            shown.connected = session in here.connected
        picture.paths = world.paths
        picture.zookeeper.restore(Service(self._nodes(world.outsider), sessions, zxid=0))
        picture.stale_write_accepted = world.stale_write_accepted
        return picture

    def _lists(self, server: int) -> Lists:
        ask = self.world.zookeeper.ask
        return read_lists(*(ask(server, word) for word in ("dump", "cons", "wchc")))

    def _nodes(self, reader: Session) -> dict[str, Node]:
        """The two nodes as a client that has no part in the election reads them."""
        paths = (self.world.paths.leader, self.world.paths.epoch)
        read = {path: self.world.read(path, reader) for path in paths}
        return {
            path: Node(data.data, data.stat.ephemeral_owner, version=data.stat.version)
            for path, data in read.items()
            if data is not None
        }


class RealLockstep:
    """
    A spec in plain Python and a real world, taken through the same steps.

    The world begins anew, its cores with these `flaws`. `patience_s` is how long, in seconds, a
    picture may differ before it counts.
    """

    def __init__(
        self, world: RealElection, specification: Specification = ELECTION, *,
        flaws: frozenset[str] = frozenset(), patience_s: float = 10.0,
    ) -> None:  # fmt: skip
        self.machine = Machine(Ground(specification, {"Broker": world.size}, BOUND, faults=0))
        self.world = world
        self.observer = Observer(self.machine.ground)
        self.photographer = Photographer(world)
        self.patience_s = patience_s
        self.begin(flaws)

    def begin(self, flaws: frozenset[str] = frozenset()) -> None:
        """Begin anew, on both sides."""
        self.world.reset(elector_with(flaws))
        self.initial = self.state = self.machine.initial()
        self.steps: list[Step] = []
        self._compare()

    def possible(self) -> list[Step]:
        """Every step that the spec can take now and that can be driven here."""
        steps, world = self.machine.steps(self.state), self.world
        return [s for s in steps if world.why_not(s.action.name, self._lags(s)) is None]

    def _lags(self, step: Step) -> bool:
        return any(broker.index in self.world.lagging for broker in step.arguments)

    def step(self, action: str, arguments: Sequence[Any]) -> None:
        """
        Take a step on both sides.

        `Differs` where the implementation cannot follow, or arrives elsewhere; `ValueError` where
        the spec cannot take it.
        """
        after = self.machine.take(self.state, action, tuple(arguments))
        if after is None:
            raise ValueError(f"{action}{tuple(arguments)} is not possible in this state")
        self.take(Step(self.machine.spec.action(action), tuple(arguments), after))

    def take(self, step: Step) -> None:
        """Take a step that the spec has made already."""
        self.steps.append(step)
        self.state = step.state
        self._act(step.action, [broker.index for broker in step.arguments])
        self._compare()

    def follow(self, steps: Sequence[Step]) -> None:
        """Take a story's steps, which may be another spec's."""
        for step in steps:
            self.step(step.action.name, step.arguments)

    def wander(self, seed: int, steps: int) -> None:
        """Take so many random steps; the same seed takes the same ones."""
        chance = Random(seed)
        for _ in range(steps):
            possible = self.possible()
            (kind,) = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            self.take(chance.choice([s for s in possible if s.action.kind is kind] or possible))

    def _act(self, action: Action, arguments: Sequence[int]) -> None:
        method = getattr(self.world, action.name, None)
        if method is None:
            raise Unlinked(f"no method of {type(self.world).__name__} does {action.name!r}")
        try:
            method(*arguments)
        except (HerdError, AssertionError) as problem:
            raise Differs(self._story(f"The implementation cannot: {problem}")) from problem

    def _compare(self) -> None:
        wanted = self.machine.numbers(self.state)
        deadline = time.monotonic() + self.patience_s
        while (found := self._observed()) != wanted:
            if time.monotonic() > deadline:
                lines = unlike(self.machine, wanted, found)
                raise Differs(self._story("There the implementation is elsewhere:", *lines))

    def _observed(self) -> tuple[int, ...]:
        try:
            return self.observer(self.photographer())
        except Differs as odd:
            raise Differs(self._story(f"The implementation is odd: {odd}")) from odd

    def _story(self, *ends: str) -> str:
        first = f"{self.machine.spec.name}, step by step on the spec and on a real ZooKeeper:"
        return "\n".join([first, *told(self.steps, self.initial), *ends])
