"""The benchmark of the herd: what it measures, when a group has settled, how figures grow."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import herd_groups
from benchmarks.herd_groups import Herd, Plan, planned
from benchmarks.herd_members import HABITS
from benchmarks.processes import NoFigures
from herdspec.protocols.self_rebalancing.flaws import DRAFTED

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
QUICK = ("members_4", "drafted_members_4", "central_members_4", "kafka08_members_4")


@pytest.fixture(scope="module")
def herd() -> Iterator[ModuleType]:
    """The executable, as a module."""
    loader = SourceFileLoader("benchmark_herd", str(BENCHMARKS / "herd"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        patch.setattr(sys, "dont_write_bytecode", True)
        module = module_from_spec(spec)
        patch.setitem(sys.modules, loader.name, module)
        loader.exec_module(module)
        yield module


class PlayedHerd(Herd):
    """A group that is told what it holds."""

    def __init__(self, *states: dict[str, list[int]]) -> None:
        self._states = list(states)
        self._changed = time.monotonic()

    def start(self, names: Sequence[str]) -> Callable[[], float]:
        """Nobody joins."""
        raise AssertionError(names)

    def close(self, name: str) -> Callable[[], float]:
        """Nobody leaves."""
        raise AssertionError(name)

    def consume(self) -> None:
        """Nothing is consumed."""

    def held(self) -> Plan:
        """The first state; the next one comes about when it has been looked at."""
        if len(self._states) == 1:
            return self._states[0]
        self._changed = time.monotonic()
        return self._states.pop(0)

    def changed(self) -> float:
        """When the present state came about."""
        return self._changed

    def cpu_seconds(self) -> float:
        """Nothing is used."""
        return 0.0


def test_a_plan_is_by_range_over_the_members_names() -> None:
    """Who comes first in order gets one more; who gets nothing is left out."""
    assert planned(["b", "a"], 3) == {"a": [0, 1], "b": [2]}
    assert planned(["b", "a"], 1) == {"a": [0]}


def test_a_group_has_settled_when_all_have_what_is_planned() -> None:
    """What it was before does not count, and the time is when it came about."""
    group = PlayedHerd({"a": [0, 1]}, {"a": [0]}, {"a": [0], "b": [1]})
    begun = time.monotonic()

    ended = group.settle({"a": [0], "b": [1]}, quiet_s=0.02)

    assert begun <= ended <= time.monotonic() - 0.02


def test_a_wrong_assignment_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that never has what is planned is not settled: it is said who has something else."""
    monkeypatch.setattr(herd_groups, "PATIENCE_S", 0.1)

    with pytest.raises(NoFigures, match=r"b \(of 2 members\) have not what is planned"):
        PlayedHerd({"a": [0]}).settle({"a": [0], "b": [1]}, quiet_s=0.0)


def test_quick_has_every_implementation_with_four_members(herd: ModuleType) -> None:
    """The keys of `--quick`; those of the full run begin with the same."""
    assert tuple(herd.groups(herd.QUICK)) == QUICK
    full = herd.groups(herd.FULL)
    assert {f"{kind}_{n}" for kind in herd.KINDS for n in (2, 4, 8)} <= set(full)
    assert {f"{kind}_{n}" for kind in ("members", "central_members") for n in (16, 32, 64)} <= (
        set(full)
    )


def test_the_drafted_members_have_all_habits_of_the_draft() -> None:
    """Those by which the spec makes its draft of the code."""
    assert DRAFTED.switches == HABITS


@pytest.mark.parametrize(
    ("factors", "is_a_herd"), [((1.0, 3.0, 4.0, 9.0), True), ((0.0, 0.0, 0.0, 6.0), False)]
)
def test_growth_is_named(
    herd: ModuleType, factors: tuple[float, float, float, float], is_a_herd: bool
) -> None:
    """Figures that were made by a law are found to be so; n² is what makes a herd."""
    square, each, partition, always = factors
    found = [
        {
            "members": n,
            "partitions": p,
            "requests": square * n * n + each * n + partition * p + always,
        }
        for n, p in (*herd.GROWING, (16, 32), (16, 512))
    ]

    law = herd.law(found)

    assert list(law["factors"].values()) == pytest.approx(factors, abs=1e-6)
    assert law["is_a_herd"] is is_a_herd


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(300)
def test_quick_has_its_figures() -> None:
    """A whole quick run: all four, with requests and seconds for each event."""
    command = [sys.executable, str(BENCHMARKS / "herd"), "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)

    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    figures = json.loads(done.stdout)
    for key in QUICK:
        assert figures[key]["requests"] > 0
        assert figures[key]["seconds"] > 0
        assert all(figures[key][event]["requests"] > 0 for event in ("join", "leave", "partition"))
    assert figures["idle_consumer"]["bytes"] > 0
