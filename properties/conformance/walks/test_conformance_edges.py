"""
Every edge of a spec's graph, taken on code: by snapshots, by tours, and what is not counted.

The code is the tutorial's lease; mistakes are planted in it, and in adapters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread
from typing import Any, ClassVar

import pytest

from herdproof.conformance.adapter import Adapter, AdapterError, Refused
from herdproof.conformance.checks import judged_edges
from herdproof.conformance.graphs import edges
from herdproof.conformance.graphs.edges import Coverage, cover
from herdproof.conformance.graphs.exact import Exact, is_exact
from herdproof.conformance.graphs.graph import Graph, explored
from herdproof.protocols.election.held.adapter import SimulatedElectors
from herdspec import Nat, Sort, Spec, action, each, initial, require, weak
from herdspec.check.verdict import Mark
from herdspec.language.errors import UsageError
from herdspec.protocols.election.properties import ELECTION
from herdspec.protocols.election.spec import Broker
from properties.conformance.leases import LEASE, Client, Leases

BOTH = ("snapshots", "tours")
ROW = ("the row", "Its sentence.")
Report = Callable[[str], None]


def reasons(coverage: Coverage) -> dict[tuple[str, str], int]:
    """What was missed: how many edges, by action and reason."""
    return {(m.action, m.reason): m.edges for m in coverage.missed}


# ── All of them ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", BOTH)
def test_every_edge_of_two_clients_is_taken(by: str, report: Report) -> None:
    """All 84 edges of two clients are taken, and what is forbidden is refused on the way."""
    found = cover(LEASE, Leases, Client=2, by=by)

    report(f"lease: {found.line}")
    assert (found.states, found.edges, found.covered) == (32, 84, 84)
    assert found.is_complete
    assert found.missed == []
    assert found.unseen == ("wish",)
    assert found.refused["ask"] >= 52


def test_what_code_did_not_do_by_itself_is_named(report: Report) -> None:
    """Of three clients' 594 edges tours miss one: a grant by a queue that no tour had."""
    found = cover(LEASE, Leases, Client=3, by="tours")

    report(f"lease: {found.line}")
    assert (found.states, found.edges, found.covered) == (176, 594, 593)
    assert reasons(found) == {("grant", edges.NOT_BY_ITSELF): 1}
    assert found.missed[0].example[-1].startswith("grant(")
    assert not found.is_complete
    assert not found.is_whole


def test_code_with_a_memory_is_held_in_more_than_one_way(report: Report) -> None:
    """Snapshots of three clients take the grants of every queue, which the spec does not know."""
    found = cover(LEASE, Leases, Client=3)

    report(f"lease: {found.line}")
    assert (found.states, found.edges, found.covered) == (176, 594, 594)
    assert found.is_complete


def test_tours_need_few_starts() -> None:
    """A tour goes on: there are far fewer starts than edges."""
    found = cover(LEASE, Leases, Client=3, by="tours")

    assert found.starts < 150
    assert cover(LEASE, Leases, Client=3).starts == 1


@pytest.mark.parametrize("by", BOTH)
def test_an_actions_edges_are_counted_one_by_one(by: str) -> None:
    """By action the edges are as many as the explorer says: none is counted twice."""
    found = cover(LEASE, Leases, Client=2, by=by)

    assert found.taken == {"ask": 12, "grant": 8, "expire": 14, "give_back": 14, "write": 36}


# ── Mistakes of the code ────────────────────────────────────────────────────────────────────


def flawed(*flaws: str) -> type[Leases]:
    """The lease's core with mistakes."""
    return type("Flawed", (Leases,), {"flaws": flaws})


CAUGHT = {
    "no_fence": "The code did it, though the spec does not allow it",
    "anyone_gives_back": "The code did it, though the spec does not allow it",
    "never_grants": "The code does not do what is due",
    "forgets": "term: 1 in the spec, 0 in the code",
}


@pytest.mark.parametrize("flaw", CAUGHT)
def test_a_flaw_of_the_code_is_told_as_a_story(flaw: str) -> None:
    """Each planted flaw that two clients can show is found, and told by the plain Python."""
    found = cover(LEASE, flawed(flaw), Client=2)

    assert found.mismatch is not None
    assert CAUGHT[flaw] in found.mismatch.story
    assert "with Held(Lease, Flawed, Client=2) as held:" in found.mismatch.story
    assert not found.is_complete


@pytest.mark.parametrize("flaw", ["no_fence", "anyone_gives_back", "never_grants"])
def test_tours_find_flaws_too_and_tell_them_shortly(flaw: str) -> None:
    """A tour that ends at a difference is told without the steps that can be spared."""
    found = cover(LEASE, flawed(flaw), Client=2, by="tours")

    assert found.mismatch is not None
    assert CAUGHT[flaw] in found.mismatch.story
    assert found.mismatch.steps <= 7


class Swapped(Leases):
    """Two of its actions swapped."""

    def expire(self) -> None:
        """What `ask` does."""
        self._done(self.core.ask(0))

    def ask(self, c: Client) -> None:  # noqa: ARG002
        """What `expire` does."""
        self._done(self.core.expire())


class Idle(Leases):
    """One of its actions does nothing, and says that it did."""

    def write(self, c: Client) -> None:
        """Nothing."""


class Constant(Leases):
    """It always looks the same."""

    def observe(self) -> dict[str, Any]:
        """A free lease."""
        return {"holder": None, "term": 0}


@pytest.mark.parametrize("by", BOTH)
@pytest.mark.parametrize("adapter", [Swapped, Idle, Constant])
def test_a_wrong_adapter_is_caught(adapter: type[Adapter], by: str) -> None:
    """Actions that are swapped, do nothing, or show nothing, are differences."""
    found = cover(LEASE, adapter, Client=2, by=by)

    assert found.mismatch is not None
    assert "Lease, step by step on spec and code" in found.mismatch.story


class Hanging(Leases):
    """One of its actions never returns."""

    timeout = 0.2

    def give_back(self, c: Client) -> None:
        """Sleep for long."""
        time.sleep(5 if self.core.holder == c.index else 0)
        super().give_back(c)


def test_a_call_that_hangs_is_named() -> None:
    """A hung action ends the walk, and is named."""
    found = cover(LEASE, Hanging, Client=1)

    assert found.mismatch is not None
    assert "`give_back` did not return within 0.2 s." in found.mismatch.story


# ── Snapshots that are none ─────────────────────────────────────────────────────────────────


class NotRestored(Leases):
    """It stays where it is."""

    def restore(self, snapshot: Any) -> None:
        """Nothing."""


class HalfRestored(Leases):
    """The queue, which nobody sees, stays as it is."""

    def restore(self, snapshot: Any) -> None:
        """All but the queue."""
        queue = self.core.queue
        super().restore(snapshot)
        self.core.queue = queue


class Shared(Leases):
    """The code's own lists are in its snapshots."""

    def snapshot(self) -> Any:
        """The lists, as they are."""
        core = self.core
        return core.queue, core.asked, core.holder, core.term, core.written, core.tokens

    def restore(self, snapshot: Any) -> None:
        """The same lists."""
        core = self.core
        core.queue, core.asked, core.holder, core.term, core.written, core.tokens = snapshot


@pytest.mark.parametrize("adapter", [NotRestored, HalfRestored, Shared])
def test_a_restore_that_does_not_restore_is_named(adapter: type[Adapter]) -> None:
    """What differs only after a restore is no story of the code: the restore is named."""
    found = cover(LEASE, adapter, Client=2)

    assert found.mismatch is not None
    assert f"{adapter.__name__}.restore does not bring back all" in found.mismatch.story
    assert "not when they are taken once more from the beginning" in found.mismatch.story


# ── What is not counted ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", BOTH)
def test_an_absent_action_is_listed_and_never_counted(by: str) -> None:
    """Edges of an action that the adapter has not are listed with its reason."""
    absent = {k: v for k, v in vars(Leases).items() if k != "expire"}
    adapter = type(
        "NeverExpires", (Adapter,), {**absent, "absent": {"expire": "its clock stands still"}}
    )

    found = cover(LEASE, adapter, Client=2, by=by)

    assert found.taken["expire"] == 0
    assert reasons(found) == {("expire", "absent: its clock stands still"): 14}
    assert found.covered == 70
    assert found.is_whole
    assert not found.is_complete


def test_a_finding_passes_only_what_was_taken_as_far_as_it_can_be() -> None:
    """Edges that were left are unknown, but for those of actions that are absent."""
    absent = {k: v for k, v in vars(Leases).items() if k != "expire"}
    never = type("NeverExpires", (Adapter,), {**absent, "absent": {"expire": "it cannot"}})

    marks = [
        judged_edges(
            "lease", ROW, "bounds", cover(LEASE, adapter, by="tours", Client=n), whole=True
        ).mark
        for adapter, n in ((never, 2), (Leases, 3), (flawed("no_fence"), 2))
    ]

    assert marks == [Mark.CONFORMS, Mark.UNKNOWN, Mark.FAILS]


class Eager(Leases):
    """A server that grants at once, as soon as it can."""

    pumped = False

    def _done(self, did: bool) -> None:
        super()._done(did)
        self.core.turn()


@pytest.mark.parametrize("by", BOTH)
def test_states_in_which_code_never_rests_are_named(by: str) -> None:
    """What starts where a grant is due cannot be taken on a server that grants at once."""
    found = cover(LEASE, Eager, Client=2, by=by)

    assert found.mismatch is None
    assert found.taken["grant"] > 0
    assert {reason for _, reason in reasons(found)} <= {edges.RESTLESS, edges.BEHIND, edges.UNTOLD}
    assert any(reason == edges.RESTLESS for _, reason in reasons(found))
    assert found.covered + sum(m.edges for m in found.missed) == found.edges


class Blurred(Leases):
    """Only the number of the latest lease is seen, not whose it is."""

    offered = ()  # type: ignore[assignment]

    def observe(self) -> dict[str, Any]:
        """The number."""
        return {"term": self.core.term}


@pytest.mark.parametrize("by", BOTH)
def test_an_edge_that_cannot_be_told_from_another_is_not_counted(by: str) -> None:
    """Where two clients wait, and nobody sees who is served, neither grant counts."""
    found = cover(LEASE, Blurred, Client=2, by=by)

    assert found.mismatch is None
    assert reasons(found)["grant", edges.UNTOLD] > 0
    assert 0 < found.taken["grant"] < 8
    assert found.covered + sum(m.edges for m in found.missed) == found.edges


def test_when_the_time_is_over_the_rest_is_missed() -> None:
    """Without time nothing is taken, and everything is missed for want of it."""
    found = cover(LEASE, Leases, Client=2, seconds=0.0)

    assert found.covered < found.edges
    assert {m.reason for m in found.missed} == {edges.NO_TIME}
    assert not found.is_complete


# ── Choices, beginnings, bounds ─────────────────────────────────────────────────────────────


class Job(Sort):
    """Something to do."""


class Worker(Sort):
    """Who does it."""


class Board(Spec):
    """Jobs are placed with workers."""

    placed: dict[Job, Worker | None] = each(None)

    @action
    def place(self, j: Job, w: Worker) -> None:
        """{j} is given to {w}."""
        require(self.placed[j] is None)
        self.placed[j] = w


class FirstWorker(Adapter):
    """It gives every job to the first worker."""

    chosen: ClassVar[Mapping[str, tuple[str, ...]]] = {"place": ("w",)}

    def begin(self, Job: int, Worker: int) -> None:  # noqa: N803, ARG002
        """Nothing is placed."""
        self.placed: dict[int, int | None] = dict.fromkeys(range(Job))

    def place(self, j: Job) -> Worker:
        """The first worker gets it."""
        if self.placed[j.index] is not None:
            raise Refused
        self.placed[j.index] = 0
        return Worker(0)

    def observe(self) -> dict[str, Any]:
        """All."""
        placed = {Job(j): None if w is None else Worker(w) for j, w in self.placed.items()}
        return {"placed": placed}


class Kept(FirstWorker):
    """The same, with snapshots."""

    def snapshot(self) -> Any:
        """What is placed."""
        return dict(self.placed)

    def restore(self, snapshot: Any) -> None:
        """Be there again."""
        self.placed = dict(snapshot)


@pytest.mark.parametrize("adapter", [FirstWorker, Kept])
def test_what_the_code_chooses_is_taken_and_the_rest_is_named(adapter: type[Adapter]) -> None:
    """Edges of choices that the code does not make are missed for that reason."""
    found = cover(Board, adapter, Job=2, Worker=2)

    assert found.mismatch is None
    assert (found.states, found.edges, found.covered) == (9, 12, 4)
    assert reasons(found) == {
        ("place", edges.OTHERWISE): 4,
        ("place", edges.BEHIND): 4,
    }


class Lamp(Spec):
    """A lamp that may be on from the beginning."""

    on: bool = False
    clicks: Nat = 0

    @initial
    def somehow(self, on: bool) -> None:
        """It is on or off."""
        self.on = on

    @action(fair=weak)
    def click(self) -> None:
        """It is switched."""
        self.on = not self.on
        self.clicks += 1


class DarkLamp(Adapter):
    """It begins dark, and clicks when it is pumped."""

    silent = ("click",)
    pumped = True

    def begin(self) -> None:
        """Dark."""
        self.on, self.clicks = False, 0

    def pump(self) -> None:
        """Three clicks."""
        for _ in range(3):
            self.on, self.clicks = not self.on, self.clicks + 1

    def observe(self) -> dict[str, Any]:
        """Both."""
        return {"on": self.on, "clicks": self.clicks}


def test_a_beginning_that_code_does_not_have_is_named_and_bounds_are_no_difference() -> None:
    """Code that goes on beyond the graph's bound is no mismatch; where it never was is named."""
    found = cover(Lamp, DarkLamp, bound=4)

    assert found.mismatch is None
    assert found.is_cut
    assert ("click", edges.FIRST) in reasons(found)
    assert found.covered == 3


# ── The election ────────────────────────────────────────────────────────────────────────────


def test_the_election_is_taken_the_same_by_snapshots_and_by_tours() -> None:
    """Without symmetry and without numbers, too, every edge of a broker is taken."""
    one = cover(ELECTION, SimulatedElectors, Broker=1, faults=1, by="tours")
    two = cover(ELECTION, SimulatedElectors, Broker=1, faults=1)

    assert one.is_complete
    assert two.is_complete
    assert one.taken == two.taken


def test_what_is_seen_by_names_and_read_as_numbers_agrees() -> None:
    """`observe` and `reader` of the election's adapter lead to the same edges."""
    members = {k: v for c in SimulatedElectors.__mro__[1::-1] for k, v in vars(c).items()}
    adapter = type("ByNames", (Adapter,), members)
    del adapter.reader, adapter.renamed  # type: ignore[attr-defined]
    graph = Graph(explored(ELECTION, {"Broker": 2}, faults=1, symmetry=False), adapter)
    assert is_exact(graph)

    found = edges.covered(graph)

    assert found.is_complete
    assert not found.is_symmetric


class Offering(SimulatedElectors):
    """It is offered what the spec forbids, so that it is not taken up to renaming."""

    offered = ("resume",)

    def resume(self, b: Broker) -> None:
        """Only of a broker that is paused."""
        if not self.world.brokers[b.index].paused:
            raise Refused
        self.world.resume(b.index)


def test_a_graph_up_to_renaming_is_refused_where_nobody_can_rename() -> None:
    """Symmetry is taken only where each step can be renamed; a graph with it is else refused."""
    explorer = explored(ELECTION, {"Broker": 2}, faults=0)

    assert edges.covered(Graph(explorer, SimulatedElectors)).is_symmetric
    for adapter, by in ((SimulatedElectors, "tours"), (Offering, None), (Offering, "snapshots")):
        with pytest.raises(AdapterError, match="cannot take a graph up to renaming by"):
            edges.covered(Graph(explorer, adapter), by=by)


def test_an_adapter_that_offers_is_taken_without_symmetry() -> None:
    """`cover` explores anew where an adapter that can rename does more than take steps."""
    found = cover(ELECTION, Offering, Broker=1, faults=1)

    assert not found.is_symmetric
    assert found.covered == found.edges == 302


def test_a_way_that_is_none_is_one_sentence() -> None:
    """A way that there is not, or that the adapter has no methods for, is refused."""
    with pytest.raises(UsageError, match="edges cannot be taken by 'luck': write 'snapshots'"):
        cover(LEASE, Leases, Client=2, by="luck")
    with pytest.raises(AdapterError, match="FirstWorker has no snapshots: write"):
        cover(Board, FirstWorker, Job=1, Worker=1, by="snapshots")


def test_a_state_that_nobody_restores_is_not_walked_from() -> None:
    """An exact walk that is told of a wrong target stops: an edge that fails is never counted."""
    graph = Graph(explored(ELECTION, {"Broker": 1}, faults=1, symmetry=False), SimulatedElectors)
    last = len(graph) - 1
    graph.edges.target[last] = 0

    found = edges.covered(graph)

    assert found.mismatch is not None
    assert found.covered == last
    assert "not when they are taken once more" in found.mismatch.story


def test_shares_must_be_asked_of_exact_walks() -> None:
    """A walk over a share counts only its own edges."""
    graph = Graph(explored(ELECTION, {"Broker": 1}, faults=1), SimulatedElectors)
    walk = Exact(graph, share=1, shares=3)

    walk.run()

    assert sum(walk.taken) == len(range(1, len(graph), 3))


# ── Code that runs ──────────────────────────────────────────────────────────────────────────


class Running(Leases):
    """A server with a thread of its own, which grants whenever it comes to it."""

    pumped = False
    patience = 2.0

    def begin(self, Client: int) -> None:  # noqa: N803 - a sort's name
        """The thread begins, too."""
        super().begin(Client)
        self.lock, self.over = Lock(), Event()
        self.thread = Thread(target=self._serve)
        self.thread.start()

    def end(self) -> None:
        """The thread ends."""
        self.over.set()
        self.thread.join()

    def _serve(self) -> None:
        while not self.over.wait(0.0005):
            with self.lock:
                self.core.turn()

    def pump(self) -> None:
        """Nothing: it runs."""

    def observe(self) -> dict[str, Any]:
        """All that is seen, at one moment."""
        with self.lock:
            return super().observe()


def test_code_that_runs_by_itself_is_taken_by_tours(report: Report) -> None:
    """With a thread that grants at any time, most edges are taken, and none is said to differ."""
    found = cover(LEASE, Running, Client=2, by="tours")

    report(f"lease, running: {found.line}")
    assert found.mismatch is None, found.mismatch.story
    assert found.covered >= 60
    assert found.covered + sum(m.edges for m in found.missed) == found.edges
