"""
What a mutant of system B's cores is hunted with, suite by suite, until one of them catches it.

    python -m properties.protocols.central_coordinator.mutated.central_suites

hunts all of them, and renews the table of docs/central_coordinator.md.

A suite looks at a `Hunt`, while the mutant is planted, and says what it found, if anything. The
simulator's runs are made once, and looked at by all suites that need them.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest

from herdproof.protocols.central_coordinator.judged.world_promises import AT_AN_END
from herdproof.protocols.central_coordinator.simulated.random_runs import Config
from herdproof.protocols.central_coordinator.simulated.world import Run, RunOutcome
from properties.protocols.central_coordinator.mutated.central_mutants import MUTANTS, Mutant

PAGE = Path(__file__).parents[4] / "docs" / "central_coordinator.md"


@dataclass
class Hunt:
    """The runs of one world, made when a suite first asks for them."""

    world: Config
    seeds: int
    ran: list[RunOutcome | Exception] = field(default_factory=list)
    """By seed; what a core raised, where it did."""

    def runs(self) -> Iterator[tuple[int, RunOutcome | Exception]]:
        """Every run, with its seed."""
        for seed in range(self.seeds):
            if seed == len(self.ran):
                self.ran.append(self._run(seed))
            yield seed, self.ran[seed]

    def _run(self, seed: int) -> RunOutcome | Exception:
        try:
            return Run(seed, self.world).run()
        except Exception as raised:  # whatever a mutant does is a result
            return raised


@dataclass(frozen=True)
class Found:
    """What noticed a mutant (a promise, a raised error, a test), and after what."""

    by: str
    after: str


Suite: TypeAlias = Callable[[Hunt], Found | None]


# ── The simulator ───────────────────────────────────────────────────────────────────────────


def monitors(hunt: Hunt) -> Found | None:
    """The contract, watched at every step; a core that raises an error breaks it as well."""
    for seed, run in hunt.runs():
        if isinstance(run, Exception):
            return Found(type(run).__name__, f"run {seed + 1}")
        if run.violation and run.violation.promise not in AT_AN_END:
            after_s = run.violation.time_ms / 1_000
            return Found(run.violation.promise, f"run {seed + 1}, at {after_s:.0f} s of it")
    return None


def ends(hunt: Hunt) -> Found | None:
    """The end of a run, which was quiet for long: all is settled, complete and committed."""
    for seed, run in hunt.runs():
        if isinstance(run, RunOutcome) and run.violation:
            return Found(run.violation.promise, f"run {seed + 1}, at its end")
    return None


# ── The tests of the cores ──────────────────────────────────────────────────────────────────

CORE_TESTS = (
    "protocols.central_coordinator.coordinator.rebalancing.test_central_core",
    "protocols.central_coordinator.coordinator.rebalancing.test_central_core_changes",
    "protocols.central_coordinator.coordinator.members.test_central_core_members",
    "protocols.central_coordinator.coordinator.stored.test_central_core_offsets",
    "protocols.central_coordinator.coordinator.members.test_central_core_peers",
    "protocols.central_coordinator.coordinator.stored.test_central_core_writes",
    "protocols.central_coordinator.coordinator.stored.test_central_core_zookeeper",
    "protocols.central_coordinator.coordinator.rebalancing.test_central_core_queues",
    "consuming.test_assignment",
    "protocols.central_coordinator.client.test_central_consumer",
    "protocols.central_coordinator.client.test_central_consumer_connections",
    "protocols.central_coordinator.wire.test_wire",
    "protocols.central_coordinator.coordinator.members.test_central_core_former",
    "protocols.central_coordinator.client.test_central_former",
)
"""Their scenarios are run here: tests without fixtures, and without Hypothesis' chance."""


def core_tests(hunt: Hunt) -> Found | None:
    """The scenarios of the cores, without sockets, clocks or threads."""
    del hunt
    tests = 0
    for module in CORE_TESTS:
        for name, scenario in scenarios(module_named(module)):
            tests += 1
            try:
                scenario()
            except (Exception, pytest.fail.Exception):
                return Found(name, f"test {tests}")
    return None


def module_named(module: str) -> ModuleType:
    """A module of tests, by folder and name."""
    return import_module(f"properties.{module}")


def scenarios(
    module: ModuleType, fixtures: Collection[str] = ()
) -> Iterator[tuple[str, Callable[..., None]]]:
    """The tests of a module that need no fixture but these, once for each of their cases."""
    for name, test in vars(module).items():
        if not name.startswith("test_") or hasattr(test, "is_hypothesis_test"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        for chosen in product(*(cases(*mark.args) for mark in marks)):
            arguments = {name: value for case in chosen for name, value in case.items()}
            if inspect.signature(test).parameters.keys() - set(fixtures) == arguments.keys():
                yield name, partial(test, **arguments)


def cases(names: str | Sequence[str], values: Any) -> list[Mapping[str, object]]:
    """The cases of one `parametrize`."""
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    found: list[Mapping[str, object]] = []
    for value in values:
        given = getattr(value, "values", None) if hasattr(value, "marks") else None
        if given is None:
            given = value if len(named) > 1 else (value,)
        found.append(dict(zip(named, given, strict=True)))
    return found


# ── The hunt ────────────────────────────────────────────────────────────────────────────────

SUITES: dict[str, Suite] = {
    "simulator": monitors,
    "simulator, at the end": ends,
    "core tests": core_tests,
}
"""In the order in which they are tried; whoever has another suite adds it here."""


@dataclass(frozen=True)
class Caught:
    """Which suite caught a mutant, what it found, and what that took of a processor."""

    suite: str
    found: Found
    seconds: float


def hunted(mutant: Mutant) -> Caught | None:
    """Plant a mutant, and try one suite after the other."""
    with mutant.planted():
        return first_to_find(Hunt(mutant.world, mutant.runs))


def first_to_find(hunt: Hunt) -> Caught | None:
    """The first suite that finds anything."""
    began = time.process_time()
    for name, suite in SUITES.items():
        found = suite(hunt)
        if found is not None:
            return Caught(name, found, time.process_time() - began)
    return None


# ── The page ────────────────────────────────────────────────────────────────────────────────


def row(mutant: Mutant, suite: str, by: str) -> str:
    """A mutant's row of the page, up to where it says after how long it was caught."""
    return f"| `{mutant.name}` | {mutant.what} | {suite}: `{by}` | "


def renew_page() -> None:
    """Hunt all mutants, and write the table anew."""
    rows = []
    for mutant in MUTANTS:
        caught = hunted(mutant)
        assert caught is not None, f"nothing catches {mutant.name}"
        found = caught.found
        rows.append(f"{row(mutant, caught.suite, found.by)}{found.after} | {caught.seconds:.1f} |")
    page = PAGE.read_text(encoding="utf-8")
    head = "| mistake | what it does | caught by | after | seconds |\n|---|---|---|---|---|\n"
    table = re.compile(re.escape(head) + r"(?:\|.*\n)*")
    assert table.search(page), "the page has lost its table"
    PAGE.write_text(table.sub(lambda _: head + "\n".join(rows) + "\n", page), encoding="utf-8")


if __name__ == "__main__":
    renew_page()
