"""Tours: what they try where the code begins, and what they never try is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from herdproof.conformance.adapter import Adapter, Refused
from herdproof.conformance.checks import judged_edges
from herdproof.conformance.graphs.edges import GONE, TOURS, Missed, cover
from herdspec import Spec, action, require
from herdspec.check.verdict import Mark


class Once(Spec):
    """What is started once is used after that."""

    started: bool = False
    used: bool = False

    @action
    def start(self) -> None:
        """It is started."""
        require(not self.started)
        self.started = True

    @action
    def use(self) -> None:
        """It is used."""
        require(self.started)
        self.used = True


class Machine(Adapter):
    """It does as it should; of what is written to disk nobody asks."""

    offered = ("start", "use")
    disturbed = {"restart": ()}  # noqa: RUF012

    def begin(self) -> None:
        """Not started."""
        self.started = self.used = False

    def start(self) -> None:
        """Start."""
        if self.started:
            raise Refused
        self.started = True

    def use(self) -> None:
        """Use."""
        if not self.started:
            raise Refused
        self.used = True

    def restart(self) -> None:
        """What it did is lost."""
        self.used = False

    def observe(self) -> Mapping[str, Any]:
        """All."""
        return {"started": self.started, "used": self.used}


class Early(Machine):
    """It can be used before it is started."""

    def use(self) -> None:
        """Use."""
        self.used = True


def test_a_tour_offers_what_is_forbidden_where_the_code_begins() -> None:
    """No step leads back to the beginning: what is to be refused there is tried at once."""
    found = cover(Once, Early, by=TOURS)

    assert found.mismatch is not None
    assert [deed.name for deed in found.mismatch.deeds] == ["use"]
    assert cover(Once, Machine, by=TOURS).refused == {"use": 1, "start": 2}


def test_disturbances_that_no_tour_brings_about_are_named() -> None:
    """Tours only take steps; that a restart was not tried stands beside what was."""
    found = cover(Once, Machine, by=TOURS)
    judged = judged_edges("Once", ("row", "sentence"), "", found)

    assert found.is_complete
    assert "  never brought about: restart" in found.lines
    assert "never brought about: restart" in judged.note


def test_what_could_be_taken_and_was_not_is_no_pass_where_all_is_asked_for() -> None:
    """Else the note says how many of which action were left."""
    found = cover(Once, Machine, by=TOURS)
    found.taken["use"] -= 1
    found.missed.append(Missed("use", GONE, 1, ("start", "use")))

    some, whole = (
        judged_edges("Once", ("row", "sentence"), "", found, whole=whole) for whole in (False, True)
    )

    assert (some.mark, whole.mark) == (Mark.CONFORMS, Mark.UNKNOWN)
    assert "not taken: 1 of use" in some.note
    assert whole.note.startswith("1 steps were not taken; ")


class Unwilling(Machine):
    """It has reasons of its own not to be used, wherever it is asked to."""

    reluctant = ("use",)

    def use(self) -> None:
        """Refuse."""
        raise Refused


class Unused(Machine):
    """It is never used, and says so."""

    absent: ClassVar = {"use": "nobody knows how"}


def test_code_that_never_takes_an_action_passes_only_where_it_says_so() -> None:
    """To refuse it everywhere is no conformance, whoever may refuse it somewhere."""
    unwilling, unused = (cover(Once, adapter, by=TOURS) for adapter in (Unwilling, Unused))

    judged = [judged_edges("Once", ("row", "sentence"), "", f) for f in (unwilling, unused)]

    assert [f.mark for f in judged] == [Mark.UNKNOWN, Mark.CONFORMS]
    assert (unwilling.untaken, unused.untaken) == (("use",), ())
    assert "no edge of use was taken" in judged[0].note
