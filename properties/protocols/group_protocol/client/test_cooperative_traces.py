"""
Traces of cooperative members: what they do conforms, and a planted mistake differs where it is.

They are replayed beside their coordinators' lines, and alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import pytest

from herdproof.conformance.traces.line import TraceLine
from herdproof.conformance.traces.replay import conform_lines
from herdproof.consuming.consumer_protocol import read_assignment, write_assignment
from herdproof.protocols.group_protocol.campaign import MIXES
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    MemberSubscription,
    PartitionAssignor,
    Plan,
    RebalanceProtocol,
)
from herdproof.protocols.group_protocol.client.assignors.sticky import (
    CooperativeStickyAssignor,
    since,
    sticky_plan,
)
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.consumer_coordinator import ConsumerCoordinator
from herdproof.protocols.group_protocol.client.core.states import Generation
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.simulated.traced import traced_groups
from herdproof.protocols.group_protocol.traces.trace_map import map_of
from herdproof.protocols.group_protocol.tracing import CONSUMER
from herdspec.check.conformance.conform import Outcome, Verdict
from properties.unrepeated import unrepeated

COOPERATIVE = MIXES["cooperative"]
CALM = {"config": MIXES["calm"], "assignors": lambda: (CooperativeStickyAssignor(),)}
"""Cooperative members, who join one after another, and to whom nothing happens."""
SEED = 3
"""A run of these in which partitions move, from one to another."""
BLOCK = 4


def conform(lines: Sequence[TraceLine]) -> Outcome:
    """The trace, replayed."""
    return conform_lines(lines, map_of(), invariants=False)


def of_clients(lines: Sequence[TraceLine]) -> list[TraceLine]:
    """The lines of clients alone."""
    return [line for line in lines if line.role == CONSUMER]


def assert_conforms(lines: Sequence[TraceLine], *, invariants: bool = False) -> None:
    """With coordinators' lines, and without."""
    for each in (lines, of_clients(lines)):
        outcome = conform_lines(each, map_of(), invariants=invariants)
        assert outcome.verdict is Verdict.CONFORMS, (outcome.mismatch, outcome.reason)


# ── What conforms ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", range(0, 8, BLOCK))
def test_what_cooperative_clients_do_the_spec_allows(first: int) -> None:
    """Whatever goes wrong; the properties hold in every state."""
    for seed in range(first, first + BLOCK):
        assert_conforms(traced_groups(seed, clients=True, config=COOPERATIVE), invariants=True)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(8, 308, 50))
def test_many_traces_of_cooperative_clients_conform(first: int) -> None:
    """Three hundred runs."""
    for seed in range(first, first + 50):
        assert_conforms(traced_groups(seed, clients=True, config=COOPERATIVE), invariants=True)


def test_the_runs_show_what_is_kept_and_what_is_given_up() -> None:
    """Members join with what they have, and commit what an assignment has taken from them."""
    lines = [
        line for seed in range(BLOCK)
        for line in of_clients(traced_groups(seed, clients=True, config=COOPERATIVE))
    ]  # fmt: skip
    given: dict[str, set[TopicPartition]] = {}
    late = 0
    for line in lines:
        if line.action == "on_join_complete":
            given[line.node] = {(t, n) for _, t, n in line.arguments.get("owners", ())}
        elif line.action == "commit":
            late += any((t, n) not in given[line.node] for t, n, _ in line.arguments["offsets"])

    assert any(x.action == "initiate_join_group" and x.arguments.get("owners") for x in lines)
    assert late > 0


class EagerUpgraded(CooperativeStickyAssignor):
    """The plans of cooperative members, by one that gives everything up: half of an upgrade."""

    protocol = RebalanceProtocol.EAGER


def upgrading() -> Callable[[], tuple[PartitionAssignor, ...]]:
    """Members by turns: eager, cooperative."""
    kinds = cycle((EagerUpgraded, CooperativeStickyAssignor))
    return lambda: (next(kinds)(),)


@pytest.mark.parametrize("seed", range(BLOCK))
def test_a_group_that_is_upgraded_conforms(seed: int) -> None:
    """Each member is held to its own way of joining."""
    lines = traced_groups(seed, clients=True, assignors=upgrading())
    kinds = {bool(x.arguments.get("is_cooperative")) for x in lines if x.action == "subscribe"}

    assert kinds == {True, False}
    assert_conforms(lines)


# ── What does not ───────────────────────────────────────────────────────────────────────────


class KeepsRevoked(ConsumerCoordinator):
    """It goes on with what its assignment has taken from it."""

    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """Take what is given, and keep the rest."""
        both = {*read_assignment(assignment), *self.subscriptions.assignment}
        super().on_join_complete(generation, write_assignment(sorted(both)))


class JoinsUnasked(ConsumerCoordinator):
    """It joins again although nothing was taken from it, and nobody has asked for that."""

    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """Take the assignment, and join again."""
        super().on_join_complete(generation, assignment)
        if not hasattr(self, "_has_joined"):
            self._has_joined = True
            self.request_rejoin()


class CommitsLate(ConsumerCoordinator):
    """It commits in a later generation what it has given up."""

    def on_join_complete(self, generation: Generation, assignment: bytes) -> None:
        """Commit what was taken away in the generation before."""
        former = self._former if hasattr(self, "_former") else {}
        super().on_join_complete(generation, assignment)
        gone = {p: at for p, at in former.items() if p not in self.subscriptions.assignment}
        if gone:
            self.offsets.commit(gone)
        had = {} if gone else {**former, **self.subscriptions.finished()}
        self._former: Mapping[TopicPartition, int] = had


class WithholdsNothing(CooperativeStickyAssignor):
    """Its plan gives partitions to their heirs while their owners still have them."""

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Plan:  # fmt: skip
        """The plan of sticky members."""
        had = {member: (since(each), each.owned) for member, each in members.items()}
        return sticky_plan(topics, members, had)


def client_of(coordinator: type[ConsumerCoordinator]) -> type[GroupConsumer]:
    """A client with this mistake."""

    class Flawed(GroupConsumer):
        """A client with one mistake."""

        coordinator_class = coordinator

    return Flawed


def differs(lines: Sequence[TraceLine]) -> Iterator[tuple[TraceLine, str]]:
    """The lines at which a trace differs, with coordinators' lines and without; and why."""
    for each in (lines, of_clients(lines)):
        outcome = conform(each)
        assert outcome.verdict is Verdict.DIFFERS, outcome.verdict
        wrong = outcome.mismatch
        assert wrong is not None
        yield next(x for x in lines if x.place == wrong.where), str(wrong)


PLANTED: list[tuple[dict[str, Any], str, str]] = [
    ({"client": client_of(KeepsRevoked)}, "update_fetch_positions", "how many partitions it has"),
    ({"assignors": lambda: (WithholdsNothing(),)}, "on_join_complete", "not self.claims[o, p]"),
    ({"client": client_of(JoinsUnasked)}, "initiate_join_group", "rejoin"),
    ({"client": client_of(CommitsLate)}, "commit", "self.claims[m, p] and not self.given[m, p]"),
]


@pytest.mark.parametrize(
    ("planted", "action", "why"), PLANTED,
    ids=["keeps what is revoked", "takes what another has", "joins unasked", "commits it late"],
)  # fmt: skip
def test_a_planted_mistake_differs_where_it_is(
    planted: dict[str, Any], action: str, why: str
) -> None:
    """At the first line that says so."""
    for line, told in differs(traced_groups(SEED, clients=True, **{**CALM, **planted})):
        assert line.action == action, told
        assert why in told


def test_a_client_that_does_not_say_how_it_joins_is_taken_for_an_eager_one() -> None:
    """Whatever it keeps then is too much: such a trace does not conform."""
    lines = unrepeated(of_clients(traced_groups(SEED, clients=True, **CALM)))
    for line in lines:
        line.arguments.pop("is_cooperative", None)

    assert conform(lines).verdict is Verdict.DIFFERS


def test_static_members_that_are_cooperative_are_unknown() -> None:
    """The spec has no such members."""
    statics = {"config": MIXES["static"], "assignors": CALM["assignors"]}
    outcome = conform(traced_groups(0, clients=True, **statics))

    assert outcome.verdict is Verdict.UNKNOWN
    assert "static and cooperative" in outcome.reason


def test_who_does_not_say_why_it_joins_again_is_unknown() -> None:
    """It has lost what it had, or keeps it: never does such a trace conform."""
    lines = unrepeated(of_clients(traced_groups(6, clients=True, **CALM)))
    again = next(line for line in lines if line.action == "join_again")
    del again.arguments["outcome"]
    outcome = conform(lines)

    assert outcome.verdict is Verdict.UNKNOWN
    assert "by which `outcome`" in outcome.reason
