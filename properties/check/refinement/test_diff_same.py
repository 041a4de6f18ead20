"""`diff` says "the same" only of what was compared to the end, marks and budgets included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from herdspec import from_source
from herdspec.check.refinement.changes import changes, verdicts
from herdspec.check.refinement.diff import Compared, Parts, compare
from herdspec.check.verdict import Finding, Mark, Standing
from properties.cli.files import run
from properties.locks import EXPIRES_UNSEEN, LOCK, spec

HOLDS, UNKNOWN = 0, 3
UNCOUNTED = LOCK.replace("@action(kind=fault)", "@action")


def compared(old: str, new: str) -> Compared:
    """Two locks compared, with two clients and two faults."""
    return compare(spec(old), spec(new), {"Client": 2}, faults=2)


# ── Values ──────────────────────────────────────────────────────────────────────────────────


def test_a_field_of_another_type_is_not_compared() -> None:
    """A field with values of another kind is named as not compared, and nothing is "the same"."""
    flag = LOCK.replace("    holder:", "    n: Nat = 0\n    holder:")

    found = compared(flag, flag.replace("n: Nat = 0", "n: bool = False"))

    assert found.apart == ("n",)
    assert not found.decided


def test_members_of_an_enum_are_compared_by_name() -> None:
    """An enum that has grown, or whose members stand in another order, is the same enum."""
    more = compared(LOCK, LOCK.replace('    STALE = "stale"', '    STALE = "stale"\n    BAD = 1'))
    turned = LOCK.replace('    NONE = "none"\n    HELD = "held"', '    HELD = "h"\n    NONE = "n"')

    assert (more.apart, more.same) == ((), True)
    assert compared(LOCK, turned).same
    parted = compared(turned, EXPIRES_UNSEEN).partings[Parts.EFFECT]
    assert parted.why == ("lease[client1] becomes stale in the old one, held in the new one",)


PAINT = '''
from enum import Enum
from herdspec import *

class Colour(Enum):
    RED = 1
    BLUE = 2

class Wall(Spec):
    """A wall."""
    is_red: bool = False
    n: Nat = 0
    dots: dict[Colour, bool] = each(False)

    @action
    def paint(self, c: Colour) -> None:
        """It is painted {c}."""
        self.is_red = c == Colour.RED
        self.dots[c] = True
'''


def painted(old: str, new: str, faults: int = 0, bound: int | None = None) -> Compared:
    """Two walls compared."""
    specs = [from_source(text, "Wall") for text in (old, new)]
    return compare(specs[0], specs[1], {}, faults=faults, bound=bound)


def test_choices_are_the_same_by_their_names() -> None:
    """`paint(RED)` is compared with `paint(RED)`, wherever RED stands; a new choice is new."""
    walls = PAINT.replace("    dots: dict[Colour, bool] = each(False)\n", "")
    walls = walls.replace("\n        self.dots[c] = True", "")
    turned = walls.replace("    RED = 1\n    BLUE = 2", "    BLUE = 2\n    RED = 1")
    grown = walls.replace("    BLUE = 2\n", "    BLUE = 2\n    GREEN = 3\n")

    assert painted(walls, turned).same
    parting = painted(walls, grown).partings[Parts.NEW_ALONE]
    assert [s.label for s in parting.steps] == ["paint(Colour.GREEN)"]
    assert "other members" in parting.why[0]


def test_keys_of_other_members_do_not_compare() -> None:
    """What stands at RED is not compared with what stands at GREEN."""
    other = PAINT.replace("RED = 1", "GREEN = 1").replace("Colour.RED", "Colour.GREEN")

    assert painted(PAINT, other).apart == ("dots",)
    assert painted(PAINT, PAINT).same


# ── Budgets, marks and bounds ──


@pytest.mark.parametrize("faults", [0, 1, 2])
def test_a_budget_that_only_one_has_used_up_is_a_difference(faults: int) -> None:
    """Each has a budget of its own: where one's is used up, the other's step tells them apart."""
    found = compare(spec(LOCK), spec(UNCOUNTED), {"Client": 2}, faults=faults)

    assert set(found.partings) == {Parts.BUDGET}
    parting = found.partings[Parts.BUDGET]
    assert [s.action.name for s in parting.steps] == ["grant", "expire"] * (faults + 1)
    assert parting.why == (
        f"the old one refuses it: its budget of {faults} fault{'s' * (faults != 1)} is used up, "
        "and expire counts against it there",
    )


def test_other_marks_are_a_difference_even_where_all_steps_are_the_same() -> None:
    """A step that is a command now, or fair now, allows other behaviours with the same steps."""
    command = compared(
        LOCK, LOCK.replace("@action\n    def grant", "@action(kind=command)\n    def grant")
    )
    fair = compared(
        LOCK, LOCK.replace("@action\n    def grant", "@action(fair=weak.any)\n    def grant")
    )

    assert command.marks == (
        "grant is a step of the protocol in the old one, a command in the new one",
    )
    assert fair.marks == (
        "grant is not fair in the old one, weakly fair to any choice in the new one",
    )
    for found in (command, fair):
        assert not found.partings
        assert found.decided
        assert not found.same


def test_a_successor_beyond_a_bound_leaves_it_open_whether_they_are_the_same() -> None:
    """What naturals or a channel cut, on either side, was not compared: nothing is "the same"."""
    counts = PAINT.replace("self.dots[c] = True", "self.n += 1")
    hasty = PAINT.replace("self.dots[c] = True", "self.n = 100")
    sends = PAINT.replace("n: Nat = 0", "q: Annotated[list[bool], Capacity(1)] = empty()")
    sends = "from typing import Annotated\n" + sends.replace(
        "self.dots[c] = True", "self.q.append(True)"
    )

    for old, new in ((counts, counts), (counts, hasty), (sends, sends), (PAINT, hasty)):
        found = painted(old, new, bound=3)
        assert found.dropped
        assert (found.exhausted, found.decided, found.same) == (False, False, False)


def test_an_initial_state_beyond_the_bound_is_left_out_and_counted() -> None:
    """A start that does not fit the bound is no pair, and leaves the comparison open."""
    begins = PAINT.replace("    @action\n", BEGIN + "    @action\n").replace(
        "from enum", "from typing import Annotated\nfrom enum"
    )

    found = painted(begins, begins, bound=2)

    assert found.dropped == 2  # one of each
    assert not found.decided
    assert painted(begins, begins, bound=3).same


BEGIN = '''    @initial
    def begin(self, n: Annotated[Nat, UpTo(3)]) -> None:
        """It begins anywhere."""
        self.n = n

'''


def test_a_step_without_meaning_is_not_the_same_as_none() -> None:
    """Where the one looks at what is not there, and the other has a guard, that is said."""
    old = PAINT.replace("n: Nat = 0", "n: Nat = 0\n    who: Colour | None = None")
    old = old.replace("self.dots[c] = True", "self.dots[self.who] = True")
    new = old.replace('{c}."""', '{c}."""\n        assert self.who is not None')

    found = painted(old, new)

    assert found.meaningless == ("paint",)
    assert not found.same


def test_specs_without_a_field_in_common_are_not_the_same() -> None:
    """Where there is nothing to compare, nothing is said."""
    other = PAINT.replace("is_red", "red").replace("n: Nat", "m: Nat").replace("dots", "spots")

    found = painted(PAINT, other)

    assert found.shared == ()
    assert not found.decided


# ── The command ──

COUNTER = """
from herdspec import *

class C(Spec):
    '''It counts.'''
    n: Nat = 0

    @action
    def tick(self) -> None:
        '''Tick.'''
        self.n += {0}

@sometimes
def begun(s: C) -> bool:
    '''It has begun.'''
    return s.n == 0
"""


def test_a_comparison_that_was_cut_ends_with_3(tmp_path: Path) -> None:
    """Where every verdict holds, but a bound cut the comparison, "the same" is not known."""
    for name, step in (("a", 1), ("b", 1)):
        (tmp_path / f"{name}.py").write_text(COUNTER.format(step))

    files = [str(tmp_path / name) for name in ("a.py", "b.py", "o.json")]
    done = run("diff", *files[:2], "--may-end", "--json", files[2])

    assert done.exit_code == UNKNOWN
    assert "they allow the same behaviour" not in done.output
    found = json.loads((tmp_path / "o.json").read_text())
    assert (found["behaviour"]["same"], found["behaviour"]["decided"]) == (False, False)

    meant = run("diff", *files[:2], "--may-end", "--bound", "5", "--within")

    assert meant.exit_code == HOLDS
    assert "they allow the same behaviour at this size, within the bounds" in meant.output


def test_a_fault_that_became_a_step_is_said(tmp_path: Path) -> None:
    """`kind=fault` changed to `fair=weak`: the new one has more states, and so they differ."""
    (tmp_path / "old.py").write_text(LOCK)
    (tmp_path / "new.py").write_text(LOCK.replace("kind=fault", "fair=weak"))

    done = run("diff", f"{tmp_path / 'old.py'}", f"{tmp_path / 'new.py'}")

    told = done.output
    assert done.exit_code == HOLDS  # no verdict got worse
    assert "expire is a fault in the old one, a step of the protocol in the new one" in told
    assert "expire is not fair in the old one, weakly fair in the new one" in told
    assert "Allowed by the budget of faults of one only, 6 steps:" in told
    assert "they allow the same behaviour" not in told


# ── Words and verdicts ──────────────────────────────────────────────────────────────────────


def test_initial_states_that_mean_something_else_are_told() -> None:
    """A start that changed through a constant alone is no start that "says the same"."""
    begins = "TOP = 1\n" + PAINT.replace("    @action\n", BEGIN_AT_TOP + "    @action\n")
    old, new = (
        from_source(text, "Wall") for text in (begins, begins.replace("TOP = 1", "TOP = 2"))
    )

    assert changes(old, new) == ["initial states, begin:", "    does something else"]


BEGIN_AT_TOP = '''    @initial
    def begin(self) -> None:
        """It begins at the top."""
        self.n = TOP

'''


def test_another_sentence_hides_no_other_promise() -> None:
    """A property that says and promises something else is told as both."""
    weaker = LOCK.replace("if a != b", "if a != b and s.holder is None")
    weaker = weaker.replace("At most one client holds the lease.", "One holder.")

    assert changes(spec(LOCK), spec(weaker)) == [
        'property one_holder says "One holder."',
        "property one_holder promises something else of the state",
    ]


def test_a_weaker_demand_of_the_same_name_is_promised_no_more() -> None:
    """What was always so, and is now only to be seen sometimes, got worse."""
    was, now = (
        Finding(subject="", row="p", kind=kind, mark=Mark.EXHAUSTED, bounds="")
        for kind in ("always", "sometimes")
    )
    lemma = Finding(subject="", row="p", kind="lemma", mark=Mark.EXHAUSTED, bounds="")

    [change] = verdicts([was], [now])

    assert (change.changed, change.standing) == (True, Standing.FAILS)
    assert verdicts([was], [lemma])[0].standing is Standing.HOLDS
