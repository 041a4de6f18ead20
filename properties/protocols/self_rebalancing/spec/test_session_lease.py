"""
The assumption `session_lease`, discharged: by the spec of consumers with clocks, and in the code.

`SessionLease` of the consumer's core is held, event by event, against the clocks of the spec, under
any clocks that drift by less than the bound.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from herdproof.protocols.self_rebalancing.core.lease import SHARE, SessionLease
from herdspec import Nat, require
from herdspec.check.plans import FULL, plan_of
from herdspec.check.proof.prove import SolverAnswer, prove
from herdspec.check.refinement.refine import (
    Refinement,
    refine_by_exploration,
    refine_by_proof,
    refine_by_running,
)
from herdspec.check.running.run import machine
from herdspec.protocols.lease.spec import LeaseClocks, Request
from herdspec.protocols.self_rebalancing.kept import DISCHARGES
from herdspec.protocols.self_rebalancing.spec import Member, Session
from herdspec.protocols.self_rebalancing.timed import (
    ACTIONS,
    ALONE,
    ASSUMING,
    DISCHARGE,
    FIELDS,
    LEMMAS,
    TIMED,
    TimedConsumers,
    untimed_expire,
    untimed_start_fetchers,
)

# ── In the spec ─────────────────────────────────────────────────────────────────────────────


def unproved(through: Refinement) -> list[str | None]:
    """The actions of which it is not proved that they are steps under the assumption."""
    found = refine_by_proof(through, assume=True)
    return [o.action for o in found.obligations if o.outcome is not SolverAnswer.PROVED]


def test_consumers_with_clocks_do_what_the_assumption_allows() -> None:
    """For any number of members, and whatever the clocks do within the bound, it is proved."""
    found = prove(TIMED)

    assert found.proved
    assert (found.vacuous, found.unsure) == ([], [])
    assert unproved(DISCHARGE) == []


def test_a_single_consumer_with_clocks_is_exhausted() -> None:
    """At small lengths every step is one under the assumption, and every one of these is met."""
    sizes = {"Member": 1, "Partition": 1}
    seen = refine_by_exploration(ALONE, sizes, faults=1, bound=16)

    assert seen.exploration is not None
    assert seen.exploration.states == 182_193
    assert not seen.exploration.violations
    assert seen.exploration.complete
    assert (seen.idle, seen.still) == ([], False)


def test_the_plain_python_does_so_too() -> None:
    """On random walks of two consumers and two partitions."""
    sizes = {"Member": 2, "Partition": 2}
    assert refine_by_running(DISCHARGE, sizes, walks=4, length=40) is None


def expire_at_will(self: TimedConsumers, m: Member) -> None:
    """The session of {m} ends whenever ZooKeeper likes."""
    untimed_expire(self, m)
    self.clocks.give_back(m, True)


def start_without_a_lease(self: TimedConsumers, m: Member) -> None:
    """(5) {m} pulls, whether its lease lasts or not."""
    untimed_start_fetchers(self, m)


def tick_and_pull_on(self: TimedConsumers, m: Member) -> None:
    """The clock of {m} ticks, and nobody looks at it."""
    require(self.session[m] == Session.SUSPENDED)
    self.clocks.holder_ticks(m)


@pytest.mark.parametrize(
    ("part", "instead", "broken"),
    [
        ("expire", expire_at_will, "expire"),
        ("start_fetchers", start_without_a_lease, "start_fetchers"),
        ("tick", tick_and_pull_on, "tick"),
    ],
)
def test_without_a_rule_of_the_lease_it_is_not_discharged(
    part: str, instead: object, broken: str
) -> None:
    """A rule that is broken shows in the refinement, or in a lemma that it rests on."""
    spec = TIMED.replace("Careless", **{part: instead})  # type: ignore[arg-type]
    through = Refinement(spec, ASSUMING, FIELDS, {**ACTIONS, broken: ACTIONS.get(broken, ())})
    lost = {o.action for o in prove(spec).obligations if o.outcome is not SolverAnswer.PROVED}

    assert broken in {*lost, *unproved(through)}


def test_verify_asks_for_what_discharges_it() -> None:
    """The plan proves every lemma, and the refinement that the table speaks of."""
    names = [check.name for check in plan_of("self_rebalancing", FULL).checks]
    (discharge,) = DISCHARGES

    assert discharge.by == ("timed", f"refines {ASSUMING.name}")
    assert {"prove timed", "refine timed", "prove lease", "refine lease"} <= {
        name.partition(":")[0] for name in names
    }
    assert {p.name for p in TIMED.properties} == {p.name for p in LEMMAS}


# ── In the code ─────────────────────────────────────────────────────────────────────────────

TIMEOUT_TICKS, TICK_MS = 60, 100
"""A session of six seconds, and clocks that tick ten times a second."""
UNIT = 20
"""In so many parts a tick of the consumer's clock is counted; the slowest loses one of them."""


class SixSeconds(LeaseClocks):
    """A session of six seconds, as the code leases it; a consumer's clock may lose a twentieth."""

    timeout: Nat = 60 * 19
    lease: Nat = 40 * 20
    late: Nat = 15 * 19
    tick: Nat = 20
    slowest: Nat = 19


EVENTS = ("ask", "hear", "learn", "lose", "grant", "end", "give_back")
WITH = {"give_back": (True,)}
"""What else an event is given: the grantor is told."""
PASSES = st.tuples(st.just("pass"), st.integers(1, 30), st.integers(0, 30))
"""So many ticks of the consumer's clock, among so many of ZooKeeper's, if it may be that slow."""
TIMES = st.lists(st.one_of(st.sampled_from(EVENTS).map(lambda e: (e, 1, 0)), PASSES), max_size=60)


class Beside:
    """The code's lease, and the spec's clocks, taken through the same events."""

    def __init__(self) -> None:
        self.spec = machine(SixSeconds, Member=1)
        self.state: SixSeconds = self.spec.initial()  # type: ignore[assignment]
        (self.member,) = self.spec.elements("Member")
        self.code, self.now_ms = SessionLease(), 1_000_000

    def take(self, action: str, *arguments: object) -> bool:
        """Whether the spec allows a step; then it is taken."""
        after = self.spec.take(self.state, action, arguments)
        if after is not None:
            self.state = after  # type: ignore[assignment]
        return after is not None

    def happen(self, event: str, holder: int, grantor: int) -> None:
        """One event, in both; or nothing, where the spec says that it cannot be."""
        if event == "pass":
            self.let_pass(holder, grantor)
        elif self.take(event, self.member, *WITH.get(event, ())):
            self.tell(event)

    def let_pass(self, holder: int, grantor: int) -> None:
        """Both clocks tick, as evenly as may be."""
        for tick in range(max(holder, grantor)):
            if tick < grantor:
                self.take("grantor_ticks")
            if tick < holder and self.take("holder_ticks", self.member):
                self.now_ms += TICK_MS
            self.compare()

    def tell(self, event: str) -> None:
        """The code hears of what concerns it."""
        match event:
            case "grant":
                self.code.begin(TIMEOUT_TICKS * TICK_MS, self.now_ms)
            case "ask":
                self.code.asked(self.now_ms)
            case "learn":
                self.code.answered()
            case "lose":
                self.code.begin(TIMEOUT_TICKS * TICK_MS, self.now_ms)
            case "give_back":
                self.code.end()

    def compare(self) -> None:
        """The code delivers just while the spec says that it may, and never without a session."""
        delivers = self.now_ms < self.code.until_ms
        assert delivers == self.state.may_deliver(self.member)
        assert not delivers or self.state.granted[self.member]


CLOSE = [
    ("grant", 1, 0), ("ask", 1, 0), ("hear", 1, 0), ("learn", 1, 0),
    *[("pass", 1, 1)] * 39, ("pass", 0, 4), ("end", 1, 0), ("pass", 1, 1), ("end", 1, 0),
]  # fmt: skip
"""A session that is about to end when its lease is over."""


@given(TIMES)
@example(CLOSE)
def test_the_code_leases_as_the_spec_does(times: list[tuple[str, int, int]]) -> None:
    """Whatever is asked, heard, lost and answered, while clocks drift by a twentieth at most."""
    run = Beside()
    for event in times:
        if event[0] == "ask" and run.code.timeout_ms == 0:
            continue  # the code asks nothing before it has a session
        if event[0] == "grant" and run.state.request[run.member] != Request.NONE:
            continue  # whose connection is lost has no request under way
        run.happen(*event)
        run.compare()


def test_the_code_keeps_the_bound_for_a_drift_below_a_ninth() -> None:
    """Two thirds, and a quarter of what the slowest clock shows, are all of it at a ninth."""
    late, drift = 1 / 4, 1 / 9

    assert SHARE + late * (1 - drift) == pytest.approx(1 - drift)
    assert SHARE + late * (1 - 0.99 * drift) < 1 - 0.99 * drift
