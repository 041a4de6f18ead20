"""An `always` that speaks of nothing: its antecedent is read off its text, and looked for."""

from __future__ import annotations

import pytest

from herdspec import Specification, from_source
from herdspec.check.exploration.explore import Explorer
from herdspec.check.exploration.vacuity import antecedents, vacuous

HALL = '''
from dataclasses import dataclass
from enum import Enum
from typing import Annotated
from herdspec import *

class Guest(Sort):
    """A guest."""

class Mood(Enum):
    CALM = "calm"
    LOUD = "loud"
    WILD = "wild"

class Hall(Spec):
    """Guests who get loud, never wild, and whom nobody hosts."""
    mood: dict[Guest, Mood] = each(Mood.CALM)
    host: Guest | None = None
    inbox: Annotated[list[bool], Capacity(2)] = empty()
    invited: set[Guest] = empty()
    closed: bool = False
    left: Annotated[Nat, UpTo(2)] = 2

    @action
    def shout(self, g: Guest) -> None:
        """{{g}} gets loud."""
        require(self.left > 0)
        self.mood[g] = Mood.LOUD
        self.left -= 1

def is_wild(s: Hall, g: Guest) -> bool:
    """Whether a guest is wild."""
    return s.mood[g] == Mood.WILD

{mark}
def quiet(s: Hall) -> bool:
    """It is quiet."""
    {body}
'''


def hall(body: str, mark: str = "@always") -> Specification:
    """The hall with a property."""
    return from_source(HALL.format(body=body, mark=mark), "Hall")


def note(spec: Specification, most: int = 200_000) -> str:
    """What is said of its property."""
    explorer = Explorer(spec, {"Guest": 2}, 0)
    explorer.run()
    return vacuous(explorer.packing, explorer.rows, most).get("quiet", "")


VACUOUS = {
    "return all(s.left > 0 for g in Guest if s.mood[g] == Mood.WILD)": "s.mood[g] == Mood.WILD",
    "return all(s.left > 0 for g in Guest for h in Guest if g != h if is_wild(s, g))": (
        "g != h and is_wild(s, g)"
    ),
    "return all(s.mood[g] != Mood.WILD or s.left == 0 for g in Guest)": "s.mood[g] == Mood.WILD",
    "return all(not is_wild(s, g) or s.left == 0 for g in Guest)": "is_wild(s, g)",
    "return s.left == 0 or not s.closed": "s.closed",
    "return not s.closed or s.left != 1": "s.closed",
    "return s.host is None or s.mood[s.host] == Mood.CALM": "s.host is not None",
    "return not s.closed or s.host is None or s.mood[s.host] == Mood.CALM": (
        "s.closed and s.host is not None"
    ),
    "return (s.left > 0) if s.closed else True": "s.closed",
    "return True if s.host is None else s.left > 0": "s.host is not None",
    "return all(m for m in s.inbox)": "m in s.inbox",
    "return all(s.mood[g] == Mood.CALM for g in s.invited)": "g in s.invited",
    "if s.closed:\n        return s.left > 0\n    return True": "s.closed",
    "if not s.closed:\n        return True\n    return s.left > 0": "s.closed",
    "calm = s.closed\n    return not calm or s.left > 0": "calm",
    "return s.left < 3 and (not s.closed or s.left > 0)": "s.closed",
    "return all(not s.closed or s.left > 0 for g in Guest if s.mood[g] == Mood.LOUD)": (
        "s.mood[g] == Mood.LOUD and s.closed"
    ),
}


@pytest.mark.parametrize("body", VACUOUS)
def test_an_antecedent_that_never_holds_is_named(body: str) -> None:
    """Every form that reads as "if, then" is told with its condition and its place."""
    spec = hall(body)

    line = 1 + next(
        n for n, text in enumerate(HALL.split("{body}")[0].splitlines()) if text == "    "
    )
    told = note(spec)
    assert told.startswith(f"vacuous here: no state reached has `{VACUOUS[body]}` [")
    assert line <= int(told.rstrip("]").rpartition(":")[2]) <= line + 2


SPEAKING = [
    "return all(s.left < 2 for g in Guest if s.mood[g] == Mood.LOUD)",
    "return all(s.mood[g] != Mood.LOUD or s.left < 2 for g in Guest)",
    "return not any(is_wild(s, g) for g in Guest)",
    "return all(not is_wild(s, g) for g in Guest)",
    "return all(s.mood[g] in (Mood.CALM, Mood.LOUD) for g in Guest)",
    "return s.left <= 2",
    "return not s.closed",
    "return all(s.left <= 2 for g in Guest for h in Guest if g != h)",
    "return s.left > 0 or s.closed or s.left == 0",
    "return (s.left > 0) if s.closed else s.left <= 2",
    "if s.closed:\n        return s.left > 0\n    return s.left <= 2",
    "return all(s.mood[g] != Mood.LOUD or s.mood[g] != Mood.WILD for g in Guest)",
]


@pytest.mark.parametrize("body", SPEAKING)
def test_what_speaks_of_something_has_no_note(body: str) -> None:
    """What is met, a plain fact, and what the state does not decide, are not flagged."""
    assert note(hall(body)) == ""


def test_elements_that_nothing_else_is_about_are_no_antecedent() -> None:
    """What is true of any state says nothing of them, and nobody says how many there are."""
    stranger = 'class Stranger(Sort):\n    """A stranger."""\n\n{mark}'
    spec = from_source(
        HALL.replace("{mark}", stranger).format(
            mark="@always", body="return all(not s.closed or s.closed for x in Stranger if x == x)"
        ),
        "Hall",
    )

    assert "Stranger" not in spec.sorts
    assert note(spec) == ""


@pytest.mark.parametrize("mark", ["@never", "@sometimes", "@recoverable"])
def test_only_an_always_is_flagged(mark: str) -> None:
    """What is forbidden or shown has no antecedent."""
    assert note(hall("return not s.closed or s.left > 0", mark)) == ""


def test_a_lemma_is_an_always() -> None:
    """A lemma that speaks of nothing proves nothing."""
    assert "`s.closed`" in note(hall("return not s.closed or s.left > 0", "@lemma"))


def test_each_part_of_a_conjunction_speaks_for_itself() -> None:
    """One of two implications that says nothing is named, the other is not."""
    spec = hall("return (not s.closed or s.left > 0) and (s.left == 2 or s.host is None)")

    assert [a.text for a in antecedents(spec, spec.promise("quiet"))] == [
        "s.closed", "s.host is not None",
    ]  # fmt: skip
    assert "`s.closed` [" in note(spec)
    assert ", nor `s.host is not None` [" in note(spec)


def test_where_there_are_more_states_than_are_looked_at_nothing_is_said() -> None:
    """An antecedent that may hold further on is not called unmet."""
    body = "return not s.closed or s.left > 0"

    assert note(hall(body), most=2) == ""
    assert note(hall(body), most=9) != ""
