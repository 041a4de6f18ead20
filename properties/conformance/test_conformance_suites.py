"""Test cases of every edge, and of known protocols: they pass for right code, and for no other."""

from __future__ import annotations

import re
import unittest
from functools import partial
from typing import Any

import pytest

from herdproof.protocols.election.held.adapter import SimulatedElectors
from herdproof.protocols.implementation import implementation
from herdproof.testing import Adapter, AdapterError, edges, suite
from herdspec.language.errors import UsageError
from herdspec.protocols.election.spec import Broker
from properties.conformance.leases import LEASE, Leases

RightEdges = edges(LEASE, Leases, Client=2)
"""A test case as users have it: pytest collects it."""


class Lenient(Leases):
    """A server that takes a lease back from anybody."""

    flaws = ("anyone_gives_back",)


def never_expires() -> type[Adapter]:
    """An adapter without the action `expire`, which says so."""
    rest = {name: value for name, value in vars(Leases).items() if name != "expire"}
    return type("NeverExpires", (Adapter,), rest | {"absent": {"expire": "leases last for ever"}})


class Idle(SimulatedElectors):
    """Electors whose resignation brings nothing about."""

    def resign(self, b: Broker) -> None:
        """Do nothing."""


def outcome(case: type[unittest.TestCase], only: str = "") -> str:
    """What comes of a test case: what its failures and errors say."""
    names = [n for n in unittest.defaultTestLoader.getTestCaseNames(case) if re.search(only, n)]
    result = unittest.TestResult()
    for name in names:
        case(name).run(result)
    assert result.testsRun == len(names) > 0
    return "\n".join(told for _, told in [*result.failures, *result.errors])


def test_code_that_differs_at_an_edge_fails() -> None:
    """The difference is told as a story."""
    told = outcome(edges(LEASE, Lenient, Client=2))

    assert "The code did it, though the spec does not allow it" in told
    assert "give_back" in told


def test_an_action_that_is_declared_absent_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the adapter says never to happen is named, and does not fail the case."""
    told = outcome(edges(LEASE, never_expires(), Client=2))

    assert not told
    assert "expire: " in capsys.readouterr().out


def test_no_time_is_no_pass() -> None:
    """Edges that there was no time for are not passed over."""
    told = outcome(edges(LEASE, Leases, Client=2, seconds=0.0))

    assert "Nothing can be said: " in told


def test_an_adapter_that_does_not_fit_is_refused_at_once() -> None:
    """Neither kind of case can be made of an adapter of another spec."""

    class Nothing(Adapter):
        """No adapter of anything."""

    for make in (partial(edges, LEASE), partial(suite, "election")):
        with pytest.raises(AdapterError, match="Nothing"):
            make(Nothing)


def test_a_protocol_that_is_none_is_said() -> None:
    """An unknown name is refused, with those that are known."""
    with pytest.raises(UsageError, match=r"no protocol 'election_'.*election"):
        suite("election_", SimulatedElectors)


def test_the_suite_of_the_election_passes_on_its_cores() -> None:
    """Our own electors, taken for somebody else's, do all that the verified spec asks."""
    case: Any = suite("election", SimulatedElectors)

    assert case.__name__ == "ElectionOnSimulatedElectors"
    assert not outcome(case, "step_by_step|every_edge|test_action_|test_refused_")
    assert hasattr(case, "test_states_from_the_solver")


def test_the_suite_of_the_election_finds_a_mistake() -> None:
    """Electors with a mistake fail the suite."""
    told = outcome(suite("election", Idle), "edge")

    assert "Election" in told


# ── The other protocols, whose graphs are large ─────────────────────────────────────────────

SMALL = {
    "central_coordinator": {"Broker": 1, "Member": 1, "Partition": 1, "faults": 0},
    "self_rebalancing": {"Member": 1, "Partition": 1, "faults": 1},
    "group_protocol": {"Broker": 1, "Member": 1, "Partition": 1, "faults": 0},
}
MISTAKES = {
    "central_coordinator": "handle_register",
    "self_rebalancing": "claim",
    "group_protocol": "handle_join_group",
}
"""An action of each whose code does nothing, and says that it has done it."""


def code_of(name: str) -> type[Adapter]:
    """Our own code, as a stranger's."""
    return type("Theirs", (implementation(name).code(""),), {})


def idle_code_of(name: str) -> type[Adapter]:
    """Code one of whose actions brings nothing about."""
    return type("Idle", (code_of(name),), {MISTAKES[name]: lambda *_: None})


@pytest.mark.parametrize("name", SMALL)
def test_the_suite_of_a_protocol_passes_on_its_cores(name: str) -> None:
    """Our own code, taken for somebody else's, goes along every edge and the shortest stories."""
    case = suite(name, code_of(name), **SMALL[name])

    assert not outcome(case, "every_edge|test_action_|test_sometimes_|test_refused_|test_allowed_")


@pytest.mark.parametrize("name", SMALL)
def test_the_suite_of_a_protocol_finds_a_mistake(name: str) -> None:
    """Code one of whose actions does nothing differs at an edge, which is told as a story."""
    told = outcome(suite(name, idle_code_of(name), **SMALL[name]), "every_edge")

    assert f"[{MISTAKES[name]}(" in told
    assert "in the spec" in told


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SMALL)
def test_the_suite_of_a_protocol_ends_at_its_own_size(name: str) -> None:
    """Where nobody says a size, the plan's own one ends, walks at two of each included."""
    assert not outcome(suite(name, code_of(name), seconds=20.0), "every_edge|step_by_step|states")
