"""Checks of `verify` that follow from what is entered of a protocol: each can pass, and fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance.flawed import switched
from herdproof.conformance.traces.tracer import Tracer
from herdproof.pipeline.checks import BrokenThere, Lived, edges, real_runs, simulated_runs
from herdproof.protocols.implementation import Implementation
from herdspec.check.protocol import Protocol
from herdspec.check.verdict import Finding, Mark
from herdspec.check.verify import Check, Tell
from herdspec.protocols.flaws import Flaw
from properties.check.entered import entered
from properties.conformance.leases import LEASE, Leases

PROTOCOL = Protocol("lease", lambda: LEASE)
ROW = ("the row", "Its sentence.")


class Generous(Leases):
    """Anyone may give back what another one has."""

    flaws = ("anyone_gives_back",)


class Dark(Leases):
    """Nothing is seen of it."""

    def observe(self) -> dict[str, Any]:
        """Nothing."""
        return {}


def found(check: Check, adapter: type[Leases] = Leases) -> Finding:
    """What a check finds, of a protocol that is entered with this code."""
    with entered(lease=Implementation(PROTOCOL, adapter=lambda _: adapter)):
        (finding,) = check.run(lambda *_: None).findings
    return finding


RUNS = simulated_runs(PROTOCOL, ROW, runs=3, name="runs")


def test_runs_that_conform_say_how_many_they_were() -> None:
    """All of them, with all of their lines."""
    finding = found(RUNS("verified"))

    assert finding.mark is Mark.CONFORMS, finding.story
    assert finding.bounds.startswith("3 runs, ")


def test_a_run_that_breaks_a_promise_is_told() -> None:
    """Its story is the simulator's."""
    finding = found(RUNS("verified"), Generous)

    assert finding.mark is Mark.FAILS
    assert "breaks" in finding.story[0]


def test_a_run_that_shows_nothing_is_no_pass() -> None:
    """What its simulator says of that is the note."""
    finding = found(RUNS("verified"), Dark)

    assert (finding.mark, finding.note) == (Mark.UNKNOWN, "nothing was seen of the code")


def covers(adapter: type[Leases], **options: Any) -> Check:
    """The check that takes edges of two clients."""
    make = edges(PROTOCOL, ROW, lambda: adapter, where="here", size=2, faults=0, bound=3, **options)
    return make("verified")


def test_edges_conform_if_all_were_taken() -> None:
    """It says of how many states; where one differs, its story is told."""
    right, wrong = (found(covers(code)) for code in (Leases, Generous))

    assert (right.mark, right.bounds) == (Mark.CONFORMS, "84 steps from 32 states")
    assert wrong.mark is Mark.FAILS
    assert wrong.story


@pytest.mark.parametrize("options", [{}, {"part": 0.3, "seed": 1}])
def test_edges_of_code_of_which_nothing_is_seen_are_no_pass(options: dict[str, Any]) -> None:
    """However many were taken."""
    finding = found(covers(Dark, **options))

    assert (finding.mark, finding.note) == (Mark.UNKNOWN, "nothing was seen of the code")


def test_a_part_of_the_edges_names_what_it_never_took() -> None:
    """A part that chance draws; of one without any edge nothing can be said."""
    some, none = (found(covers(Leases, part=part, seed=1)) for part in (0.3, 1e-9))

    assert some.mark is Mark.CONFORMS, some.story
    assert "edges, seed 1" in some.bounds
    assert none.mark is Mark.UNKNOWN
    assert none.note.startswith("never taken: ")


def test_an_adapter_may_stand_for_as_long_as_its_world() -> None:
    """A context is entered, and left."""
    stood: list[str] = []

    @contextmanager
    def world() -> Iterator[type[Leases]]:
        stood.append("begun")
        yield Leases
        stood.append("ended")

    found(edges(PROTOCOL, ROW, world, where="there", size=1, faults=0, bound=2)("verified"))

    assert stood == ["begun", "ended"]


def lives(folder: Path, tell: Tell, *, action: str) -> Lived:
    """Services whose only one takes one step."""
    tell("living", None)
    trace = folder / "server.ndjson"
    with Tracer("lease", "server", trace) as tracer:
        if action:
            tracer.step(action, c="client-1")
    return Lived([trace], "1 server", "1 step")


def breaks(folder: Path, tell: Tell) -> Lived:
    """Services that do what must not be."""
    raise BrokenThere(f"it wrote, and told nobody, in {folder.name[:9]}: {tell is not None}")


@pytest.mark.parametrize(
    ("live", "mark"),
    [
        (partial(lives, action="ask"), Mark.CONFORMS),
        (partial(lives, action="give_back"), Mark.FAILS),
        (breaks, Mark.FAILS),
    ],
)
def test_traces_of_real_runs_are_replayed(live: Callable[..., Lived], mark: Mark) -> None:
    """What the services have written conforms, or does not."""
    check = real_runs(PROTOCOL, ROW, lambda: live, name="live")("verified")

    assert found(check).mark is mark


def test_code_is_switched_by_the_variants_name() -> None:
    """The verified one has no switch on; of a variant without a switch there is no code."""
    flaws = {
        "generous": Flaw(LEASE, frozenset({"anyone_gives_back"}), {}),
        "thought_of": Flaw(LEASE, frozenset(), {}),
    }
    made: list[frozenset[str]] = []

    def cores(switches: frozenset[str], spec: object) -> type[Leases]:
        assert spec is LEASE
        made.append(switches)
        return Leases

    adapter = switched(Protocol("lease", lambda: LEASE, flaws=lambda: flaws), lambda: cores)

    assert [adapter(name) for name in ("", "generous", "thought_of", "drafted", "none")] == [
        Leases, Leases, None, None, None,
    ]  # fmt: skip
    assert made == [frozenset(), {"anyone_gives_back"}]
