"""
Histories: what is asked, step by step, of the simulated ZooKeeper and of the real one.

A history names sessions by the order in which they were opened, and paths below a root of its own,
so that it runs on any service. What a service tells is a `Transcript`; two services agree when
their transcripts are equal, after absolute numbers became relative ones: transaction ids become
ranks, session ids the order of opening, and paths lose the root.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, cast

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from herdproof.simulator.zookeeper import ZooKeeper
from herdproof.zookeeper.operations import (
    ANY_VERSION,
    Answer,
    Changed,
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Done,
    Exists,
    Found,
    Get,
    Multi,
    Operation,
    Set,
    Stat,
    Sync,
    Watched,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Open:
    """A new session; its name is the number of those opened before."""


@dataclass(frozen=True, slots=True)
class Close:
    """The client ends its session."""

    who: int


@dataclass(frozen=True, slots=True)
class Expire:
    """The server ends a session."""

    who: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A session's connection breaks, and is made again."""

    who: int


@dataclass(frozen=True, slots=True)
class Do:
    """A session performs one operation and waits for the answer."""

    who: int
    operation: Operation


ENDS = (Close, Expire)
Step: TypeAlias = Open | Close | Expire | Cut | Do
History: TypeAlias = tuple[Step, ...]
Events: TypeAlias = tuple[tuple[Watched, ...], ...]
"""The watch events of each session, by name."""


class Told(Struct, frozen=True):
    """What a service told in one step: the answer to an operation, and watch events."""

    answer: Answer | None
    events: Events


Transcript: TypeAlias = tuple[Told, ...]


class World(Protocol):
    """A service on which one history can run; sessions are named as in the history."""

    @property
    def root(self) -> str:
        """The path below which the history lives; a node stands there when it begins."""

    def open(self) -> None:
        """Open the next session."""

    def close(self, who: int) -> None:
        """The client ends its session."""

    def expire(self, who: int) -> None:
        """The server ends the session."""

    def cut(self, who: int) -> None:
        """Break the session's connection, and wait until it is back."""

    def perform(self, who: int, operation: Operation) -> Answer:
        """Perform one operation, whose paths start with the root."""

    def events(self) -> Events:
        """The watch events since the last call, once everything is at rest."""

    def identities(self) -> Sequence[int]:
        """The service's own id of each session."""


class Simulated:
    """A history's world in the simulator; all of its state is its service's."""

    root = "/history"

    def __init__(self, service: type[ZooKeeper] = ZooKeeper) -> None:
        """A new service of this class: the true one, or a mutant."""
        self.service = service()
        self.service.perform(self.service.open(), Create(self.root))

    def open(self) -> None:
        """Open the next session."""
        self.service.open()

    def close(self, who: int) -> None:
        """The client ends its session."""
        self.service.close(self.identities()[who])

    def expire(self, who: int) -> None:
        """The server ends the session."""
        self.service.expire(self.identities()[who])

    def cut(self, who: int) -> None:
        """Break the session's connection."""
        self.service.lose_connection(self.identities()[who])

    def perform(self, who: int, operation: Operation) -> Answer:
        """Perform one operation, whose paths start with the root."""
        return self.service.perform(self.identities()[who], operation)

    def events(self) -> Events:
        """The watch events since the last call."""
        return tuple(self.service.take_events(session) for session in self.identities())

    def alive(self, who: int) -> bool:
        """Whether the session has not ended."""
        return self.service.alive(self.identities()[who])

    def standing(self) -> frozenset[str]:
        """The history's paths where a node stands; "" is the root's."""
        paths = (path for path in self.service.tree() if path.startswith(self.root))
        return frozenset(path.removeprefix(self.root) for path in paths)

    def identities(self) -> Sequence[int]:
        """The simulator's own id of each session; the first one made the root."""
        return range(2, len(self.service.snapshot().sessions) + 1)


# Running a history


def tell(history: History, world: World) -> Transcript:
    """Run a history and write down, in relative numbers, what was told in each step."""
    transcript = []
    for step in history:
        answer = take(step, world)
        events = world.events()
        if isinstance(step, ENDS):  # nobody promises in which order ephemerals go
            events = tuple(tuple(sorted(each, key=repr)) for each in events)
        transcript.append(Told(answer, events))
    return relative(tuple(transcript), world)


def take(step: Step, world: World) -> Answer | None:
    """Take one step; only an operation has an answer."""
    match step:
        case Open():
            world.open()
        case Close(who):
            world.close(who)
        case Expire(who):
            world.expire(who)
        case Cut(who):
            world.cut(who)
        case Do(who, operation):
            return world.perform(who, below(world.root, operation))
    return None


def below(root: str, operation: Operation) -> Operation:
    """The operation with all of its paths moved below `root`."""
    if isinstance(operation, Multi):
        parts = (replace(part, path=root + part.path) for part in operation.operations)
        return Multi(tuple(parts))
    return replace(operation, path=root + operation.path)


# From absolute numbers to relative ones


def relative(told: T, world: World) -> T:
    """What was told, with ranks for transaction ids, names (from 1) for sessions, no root."""
    zxids = sorted({zxid for stat in stats(told) for zxid in (stat.czxid, stat.mzxid)})
    rank = {zxid: number for number, zxid in enumerate(zxids)}
    name = {0: 0} | {session: number for number, session in enumerate(world.identities(), start=1)}
    return cast(T, rescaled(told, Scale(rank, name, world.root)))


class Scale(NamedTuple):
    """What the absolute numbers of one run mean."""

    rank: dict[int, int]
    name: dict[int, int]
    root: str


def stats(told: object) -> Iterator[Stat]:
    """All node metadata inside of what was told."""
    if isinstance(told, Stat):
        yield told
    elif isinstance(told, tuple):
        for part in told:
            yield from stats(part)
    elif isinstance(told, Told | Done | Found | Data | Changed):
        for name in told.__struct_fields__:
            yield from stats(getattr(told, name))


def rescaled(told: object, scale: Scale) -> object:
    """The same in relative numbers."""
    match told:
        case Stat():
            owner = scale.name[told.ephemeral_owner]
            ranks = {"czxid": scale.rank[told.czxid], "mzxid": scale.rank[told.mzxid]}
            return replace(told, ephemeral_owner=owner, **ranks)
        case Created() | Watched():
            return replace(told, path=told.path.removeprefix(scale.root))
        case tuple():
            return tuple(rescaled(part, scale) for part in told)
        case Told() | Done() | Found() | Data() | Changed():
            parts = {name: rescaled(getattr(told, name), scale) for name in told.__struct_fields__}
            return replace(told, **parts)
    return told


# Inventing histories

PATHS = ("/a", "/a/b", "/c")
"""Where nodes come and go: few enough that sessions meet."""

BEGINNINGS: tuple[tuple[Do, ...], ...] = (
    (),
    (Do(0, Create("/a")), Do(0, Create("/a/b", ephemeral=True))),
    (Do(0, Create("/a")), Do(0, Create("/a/b")), Do(0, Create("/c", ephemeral=True))),
)
"""What one of the sessions has made before."""

CONTENTS = (b"", b"1", b"two")
VERSIONS = (*(ANY_VERSION,) * 4, 0, 0, 0, 1, 2)
RARITIES: tuple[Operation, ...] = (
    *(Sync(""),) * 4,
    Get("/"),
    Create("/a//b"),
    Multi((Create("/a"), Delete("/a/."))),
)
"""A history's root comes before each path, so that three of these paths name nothing."""


def invent(chance: Random, *, steps: int = 20) -> History:
    """One to three sessions, then about `steps` steps of theirs, most of which make sense."""
    sessions = chance.randint(1, 3)
    owner = chance.randrange(sessions)
    history: list[Step] = [Open()] * sessions
    history += [dataclasses.replace(step, who=owner) for step in chance.choice(BEGINNINGS)]
    world = Simulated()  # only so that most operations find something to do
    tell(tuple(history), world)
    for _ in range(steps):
        living = [who for who in range(len(world.identities())) if world.alive(who)]
        step = invent_step(chance, living, world.standing())
        if step is not None:
            take(step, world)
            history.append(step)
    return tuple(history)


def invent_step(chance: Random, living: Sequence[int], standing: frozenset[str]) -> Step | None:
    """Rarely nothing, to which Hypothesis shrinks; rarely a fault; else an operation."""
    kind = chance.randrange(12)
    if kind == 0:
        return None
    if not living:
        return Open()
    who = chance.choice(living)
    if kind == 11:
        return chance.choice((Open(), Close(who), Expire(who), Cut(who)))
    return Do(who, invent_operation(chance, standing))


def invent_operation(chance: Random, standing: frozenset[str]) -> Operation:
    """An operation that mostly makes sense where nodes stand at these paths."""
    here = chance.choice((chance.choice(sorted(standing)), chance.choice(("", *PATHS))))
    watch = chance.choice((False, True, True, True))
    match chance.choice(("exists", "get", "children", "write", "write", "write", "multi", "rare")):
        case "exists":
            return Exists(chance.choice((here, vacancy(chance, standing))), watch)
        case "get":
            return Get(here, watch)
        case "children":
            return Children(here, watch)
        case "multi":
            count = chance.randint(0, 4)
            return Multi(tuple(invent_part(chance, standing) for _ in range(count)))
        case "rare":
            return chance.choice(RARITIES)
    return invent_write(chance, standing)


def invent_part(chance: Random, standing: frozenset[str]) -> Create | Delete | Set | Check:
    """One operation of a `Multi`."""
    if chance.randrange(4) == 0:
        return Check(chance.choice(sorted(standing)), chance.choice(VERSIONS))
    return invent_write(chance, standing)


def invent_write(chance: Random, standing: frozenset[str]) -> Create | Delete | Set:
    """A write that mostly makes sense where nodes stand at these paths."""
    match chance.choice(("set", "create", "delete")):
        case "set":
            path = chance.choice((*sorted(standing), *PATHS))
            return Set(path, chance.choice(CONTENTS), chance.choice(VERSIONS))
        case "create":
            data, ephemeral = chance.choice(CONTENTS), chance.choice((False, True))
            return Create(vacancy(chance, standing), data, ephemeral)
    path = chance.choice((*sorted(standing - {""}), *PATHS))
    return Delete(path, chance.choice(VERSIONS))


def vacancy(chance: Random, standing: frozenset[str]) -> str:
    """Mostly a path where no node stands below one that does."""
    free = [path for path in PATHS if path not in standing and path.rpartition("/")[0] in standing]
    return chance.choice((*free, *free, *free, *PATHS))


def histories(*, steps: int = 20) -> st.SearchStrategy[History]:
    """Histories for Hypothesis, which shrinks them."""
    return st.randoms(use_true_random=False).map(partial(invent, steps=steps))
