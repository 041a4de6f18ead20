"""Checks of `verify` that follow from what is entered of a protocol: each can pass, and fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from herdproof.conformance import checks
from herdproof.conformance.checks import Code
from herdproof.conformance.flawed import switched
from herdproof.conformance.traces.tracer import Tracer
from herdproof.pipeline.checks import BrokenThere, Lived, at, held, real_runs, simulated_runs
from herdproof.protocols.implementation import Implementation, implementation
from herdspec.check.plans import CheckConfig
from herdspec.check.protocol import Protocol
from herdspec.check.verdict import Finding, Mark
from herdspec.check.verify import Check, Tell
from herdspec.protocols.flaws import Flaw
from properties.check.entered import entered
from properties.conformance.leases import LEASE, Leases

PROTOCOL = Protocol("lease", lambda: LEASE)
LATER = replace(LEASE, name="LaterLease")
"""Another form of it, which happens to promise the same."""
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


@pytest.mark.parametrize("name", ["central_coordinator", "group_protocol", "self_rebalancing"])
def test_the_simulated_runs_of_verify_conform(name: str) -> None:
    """Those of each protocol with a simulator: promises are kept, and traces conform."""
    check = next(c for c in implementation(name).checks_for("verified") if "simulate" in c.name)

    (finding,) = check.run(lambda *_: None).findings

    assert finding.mark is Mark.CONFORMS, finding.story


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
    looked = at(PROTOCOL, 2, faults=0, bound=3)
    make = held(
        lambda _: adapter, "edges", looked, row=ROW, seconds=None, whole=True, **options
    )  # fmt: skip
    return make("verified")


def test_edges_conform_if_all_were_taken() -> None:
    """It says how many; where one differs, its story is told."""
    right, wrong = (found(covers(code)) for code in (Leases, Generous))

    assert (right.mark, right.bounds) == (Mark.CONFORMS, "2 clients, 84 of 84 edges")
    assert wrong.mark is Mark.FAILS
    assert wrong.story


@pytest.mark.parametrize("options", [{}, {"part": 0.3, "seed": 1}])
def test_edges_of_code_of_which_nothing_is_seen_are_no_pass(options: dict[str, Any]) -> None:
    """However many were taken."""
    finding = found(covers(Dark, **options))

    assert finding.mark is Mark.UNKNOWN
    assert finding.note.startswith("nothing was seen of the code")


def test_a_part_of_the_edges_names_what_it_never_took() -> None:
    """A part that chance draws; of one without any edge nothing can be said."""
    some, none = (found(covers(Leases, part=part, seed=1)) for part in (0.3, 1e-9))

    assert some.mark is Mark.CONFORMS, some.story
    assert "edges, seed 1" in some.bounds
    assert none.mark is Mark.UNKNOWN
    assert none.note.startswith("no edge was taken; never taken: ")


def test_an_adapter_may_stand_for_as_long_as_its_world() -> None:
    """A context is entered, and left."""
    stood: list[str] = []

    @contextmanager
    def world() -> Iterator[type[Leases]]:
        stood.append("begun")
        yield Leases
        stood.append("ended")

    looked = at(PROTOCOL, 1, faults=0, bound=2)
    found(held(lambda _: Leases, "edges", looked, row=ROW, world=world)("verified"))

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


def test_code_of_a_form_is_named_by_the_form() -> None:
    """So is that of a form's flaws; a form without code has none, whatever its flaws' switches."""
    forms = {"later": LATER, "elsewhere": LATER}
    flaws = {name: Flaw(LATER, frozenset({"late"}), {}, form=name) for name in forms}
    made: list[tuple[str, frozenset[str], object]] = []

    def cores(which: str) -> Callable[..., type[Leases]]:
        def make(switches: frozenset[str], spec: object) -> type[Leases]:
            made.append((which, switches, spec))
            return Leases

        return make

    adapter = switched(
        Protocol(
            "lease", lambda: LEASE, variants=lambda: forms,
            flaws=lambda: {f"{name}_flaw": flaw for name, flaw in flaws.items()},
        ),
        lambda: cores("verified"), forms={"later": lambda: cores("later")},
    )  # fmt: skip

    assert [adapter(name) for name in ("later", "later_flaw", "elsewhere", "elsewhere_flaw")] == [
        Leases, Leases, None, None,
    ]  # fmt: skip
    assert made == [("later", frozenset(), LATER), ("later", frozenset({"late"}), LATER)]


def test_code_is_held_to_the_forms_that_it_has() -> None:
    """By default, in each way that there is for all code, under the form's name."""
    forms = {"later": LEASE, "elsewhere": LEASE}
    protocol = Protocol("lease", lambda: LEASE, variants=lambda: forms)
    code = Implementation(protocol, adapter=lambda name: None if name == "elsewhere" else Leases)

    named = [check.name for check in code.checks_for("verified")]

    assert sum("verified" in name for name in named) == sum("later" in name for name in named) > 2
    assert not [name for name in named if "elsewhere" in name]


def test_a_check_of_a_form_is_of_its_spec_and_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quietly: what the code is offered otherwise, though the spec forbids it, is left out."""

    class Offered(Leases):
        """It is offered what nobody can do."""

        offered = ("take", "give_back", "forget")

    taken: list[tuple[CheckConfig, Code]] = []
    monkeypatch.setattr(checks, "edges", lambda *of: taken.append(of))
    protocol = Protocol("lease", lambda: LEASE, variants=lambda: {"later": LATER})
    adapters = {"": Leases, "later": Offered}

    for form, quietly in (("", False), ("later", False), ("later", True)):
        looked = at(protocol, 2, faults=0, form=form)
        held(adapters.__getitem__, "edges", looked, form=form, quietly=quietly)("of a form")

    assert [of.spec for of, _ in taken] == [LEASE, LATER, LATER]
    assert [issubclass(code.adapter, Offered) for _, code in taken] == [False, True, True]
    assert [code.adapter.offered for _, code in taken] == [Leases.offered, Offered.offered, ()]
