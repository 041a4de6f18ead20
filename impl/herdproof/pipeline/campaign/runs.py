"""A run as campaigns want it of a simulator: from a seed, with its trace and what broke in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from herdproof.conformance.coarse import Edges, VisitedEdges
from herdproof.errors import CallerError
from herdproof.protocols.implementation import implementation

Watch = Callable[[Any, str, tuple[Any, ...], Any], None]
"""Told of each step of the spec: before, action, arguments, after."""


class UnknownName(CallerError):
    """There is no such protocol, mix or flaw."""


@dataclass(frozen=True)
class Asked:
    """A run that is asked for; the same one is always the same run."""

    protocol: str
    number: int
    """Which run of its campaign."""
    seed: int
    mix: str
    flaw: str = ""


@dataclass(frozen=True)
class Broken:
    """A promise that a monitor of the simulator saw broken."""

    property: str
    sentence: str
    time_ns: int
    told: str
    story: Sequence[str]
    """The steps that led there, as the table of violations has them."""


@dataclass(frozen=True)
class Ran:
    """The outcome of a run."""

    texts: Sequence[str]
    """Its trace, line by line."""
    place: str
    """The name of the trace."""
    steps: int
    digest: str
    watched: Mapping[str, str] = field(default_factory=dict)
    """The promises that the simulator's own monitors watched: by name, their sentence."""
    broken: Broken | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    """Edges, where the run itself knows them: by edge, the action."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of times that each action was taken, where the run itself knows."""
    unsure: str = ""
    """Why a run in which nothing broke shows nothing; empty if it shows something."""


class Simulated(Protocol):
    """A protocol's simulator."""

    @property
    def name(self) -> str:
        """The protocol, as its traces name it."""

    @property
    def mixes(self) -> Mapping[str, str]:
        """Configurations with their faults: by name, what is special in it."""

    @property
    def flaws(self) -> Mapping[str, str]:
        """Mistakes that the cores can be told to have: by name, what it is."""

    def run(self, asked: Asked) -> Ran:
        """Live through a run."""

    def replay(self, lines: Sequence[Any], ran: Ran) -> tuple[Any, Mapping[str, str], int]:
        """A group's lines in the spec: `Replayed`, edges with their actions, steps of the spec."""

    def story(self, asked: Asked, *, shrink: bool) -> list[str]:
        """A run as people read it; `shrink`: with the fewest faults that break the same promise."""


Config = TypeVar("Config")


class Configured(Generic[Config]):
    """
    A simulator whose runs are configured by a dataclass: `run` and `story` are left to write.

        class Mine(Configured[Config]):
            name = "mine"

            def __init__(self) -> None:
                calm, stormy = replace(DEFAULT, faults=0), replace(DEFAULT, faults=40)
                flaws = {"no_lease": partial(replace, flaws=frozenset({"no_lease"}))}
                super().__init__(DEFAULT, {"calm": calm, "stormy": stormy}, flaws)

            def run(self, asked: Asked) -> Ran:
                outcome = simulate(asked.seed, self.config(asked))
                …
    """

    name: str
    """The protocol."""

    def __init__(
        self, default: Config, configs: Mapping[str, Config],
        changes: Mapping[str, Callable[[Config], Config]], usual: str = "as usual",
    ) -> None:  # fmt: skip
        self.configs = configs
        self._changes = changes

        def said(config: Config) -> str:
            return differences(config, default) or usual

        self.mixes = {name: said(config) for name, config in configs.items()}
        self.flaws = {name: said(change(default)) for name, change in changes.items()}

    def config(self, asked: Asked) -> Config:
        """The configuration of a run."""
        config = self.configs[asked.mix]
        return self._changes[asked.flaw](config) if asked.flaw else config

    @cached_property
    def _replays(self) -> tuple[Any, Edges]:
        """Its auditor, and the edges of the spec in which that replays."""
        made = implementation(self.name)
        return made.audits(), Edges(made.table.specification)

    def replay(self, lines: Sequence[Any], ran: Ran) -> tuple[Any, Mapping[str, str], int]:
        """A group's lines in the spec; every step is counted, those that no line names as well."""
        del ran  # the trace has it all
        auditor, edges = self._replays
        tries: list[VisitedEdges] = []

        def watches() -> VisitedEdges:
            tries.append(VisitedEdges(edges))
            return tries[-1]

        found, taken = auditor.replay(lines, watches), tries[-1]
        counted = {action: taken.counts[action] for action in found.taken}
        return replace(found, taken=counted), taken.actions, taken.counts.total()


def differences(config: Any, default: Any) -> str:
    """Where a configuration, or a part of it that is one, is not the default one."""
    return "; ".join(_differences(config, default))


def _differences(config: Any, default: Any) -> Iterator[str]:
    for name in (f.name for f in fields(default)):
        value, usual = getattr(config, name), getattr(default, name)
        if is_dataclass(usual) and not isinstance(usual, type):
            yield from _differences(value, usual)
        elif value != usual:
            yield f"{name}: {_said(value)}"


def _said(value: Any) -> str:
    """A value of a configuration: members of an enum in their order, other sets sorted."""
    if not isinstance(value, frozenset):
        return str(value)
    kinds = {type(item) for item in value if isinstance(item, Enum)}
    members = [member.name for kind in kinds for member in kind if member in value]
    return ", ".join(members or sorted(map(str, value))) or "none"


def chosen_mix(simulated: Simulated, seed: int, mixes: Sequence[str]) -> str:
    """The mix of a seed: all in turn, or all of those that were named."""
    names = list(mixes) or list(simulated.mixes)
    for name in names:
        if name not in simulated.mixes:
            known = ", ".join(simulated.mixes)
            raise UnknownName(f"{simulated.name} has no mix {name!r}; there are {known}")
    return names[seed % len(names)]


def check_flaw(simulated: Simulated, flaw: str) -> None:
    """Raises `UnknownName` where a protocol's cores have no such flaw."""
    if flaw and flaw not in simulated.flaws:
        known = ", ".join(simulated.flaws) or "none"
        raise UnknownName(f"{simulated.name} has no flaw {flaw!r}; there are {known}")
