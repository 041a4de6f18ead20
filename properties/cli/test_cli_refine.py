"""`herdproof refine`: what it finds, what it refuses, and that it calls nothing a refinement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from herdproof.cli.spec.refine import find_refinement
from herdspec.check.refinement.refine import refine_by_exploration, refine_by_proof
from herdspec.check.verdict import Mark, refined
from properties.cli.files import TALLY, run
from properties.published.exclusion.allocator import REFINEMENT

HOLDS, FAILS, NOT_ASKED, UNKNOWN = 0, 1, 2, 3
ROOT = Path(__file__).parents[2]

KITCHEN = '''
from typing import Annotated
from herdspec import *
from herdspec.check.refinement.refine import STUTTER, Refinement

class Cup(Sort):
    """A cup."""

class Kitchen(Spec):
    """Cups are filled, and drunk."""
    full: dict[Cup, bool] = each(False)
    drunk: Nat = 0

    @action
    def fill(self, c: Cup) -> None:
        """{c} is filled."""
        require(not self.full[c])
        self.full[c] = True

    @action
    def drink(self, c: Cup) -> None:
        """{c} is drunk."""
        require(self.full[c])
        require(self.drunk < 5)
        self.full[c] = False
        self.drunk += 1

class Count(Spec):
    """Somebody counts."""
    drunk: Nat = 0

    @action
    def count(self) -> None:
        """One more."""
        self.drunk += 1

@sometimes
def one_was_drunk(s: Count) -> bool:
    """One was drunk."""
    return s.drunk == 1

def drunk(s: Kitchen) -> Nat:
    """How many were drunk."""
    return s.drunk

REFINEMENT = Refinement(
    specification(Kitchen), specification(Count, one_was_drunk), (drunk,), {"drink": ("count",)}
)
'''
UNBOUNDED = KITCHEN.replace("        require(self.drunk < 5)\n", "")


FEW = "each(False)\n    drunk: Annotated[Nat, UpTo(9)]"
"""A field of another type than that of the abstract spec."""


def changed(*pairs: tuple[str, str]) -> str:
    """The kitchen with other lines."""
    text = KITCHEN
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    """A file with two specs, and the map from one to the other."""
    file = tmp_path / "kitchen.py"
    file.write_text(KITCHEN)
    return file


# ── What it finds ───────────────────────────────────────────────────────────────────────────


def test_a_refinement_is_proved_and_explored(kitchen: Path, tmp_path: Path) -> None:
    """A step of each action is a step of the other's: for any number, and at the size."""
    data = tmp_path / "data.json"

    done = run("refine", f"{kitchen}:REFINEMENT", "--size", "Cup=1", "--json", data)

    assert done.exit_code == HOLDS
    assert "REFINEMENT: Kitchen as Count" in done.stdout
    assert "refines Count             check       ● one or more cups" in done.stdout
    assert "refines Count             check       ○ 1 cup " in done.stdout
    assert "contract: one was drunk   sometimes   ○ 1 cup (shown after 2 steps)" in done.stdout
    found = json.loads(data.read_text())
    assert (found["exit"], found["dropped"], found["bound"]) == (HOLDS, 0, 6)
    assert [f["mark"] for f in found["findings"]] == ["proved", "exhausted", "exhausted"]


def test_a_step_without_a_meaning_is_told(kitchen: Path) -> None:
    """A step that is none of the other spec's ends the story, and fails the proof, too."""
    kitchen.write_text(changed(("self.drunk += 1\n\nclass", "self.drunk += 2\n\nclass")))

    done = run("refine", kitchen, "--size", "Cup=1")

    assert done.exit_code == FAILS
    assert "? not inductive: drink" in done.stdout
    assert "    2. cup1 is drunk.  [drink(cup1)]\n         full[cup1]: True → False" in done.stdout


def test_what_was_cut_is_unknown(kitchen: Path) -> None:
    """A successor beyond the bound is no ○: unknown, exit 3; unless it is proved for any size."""
    cut = run("refine", kitchen, "--bound", "2", "--no-prove")
    proved = run("refine", kitchen, "--bound", "2")

    assert cut.exit_code == UNKNOWN
    assert "? unknown beyond drunk up to 2" in cut.stdout
    assert "drink (kitchen.py:" in cut.stdout
    assert proved.exit_code == HOLDS
    assert "● one or more cups" in proved.stdout
    assert "○ 2 cups (within drunk up to 2)" in proved.stdout
    assert run("refine", kitchen, "--bound", "2", "--no-prove", "--within").exit_code == HOLDS


def test_numbers_that_grow_without_end_are_unknown(kitchen: Path) -> None:
    """The bound is doubled, but not for ever."""
    kitchen.write_text(UNBOUNDED)

    done = run("refine", kitchen, "--size", "Cup=1", "--no-prove")

    assert done.exit_code == UNKNOWN
    assert "naturals up to 48 (raised from 3), " in done.stdout


def test_the_scheduling_allocator_refines_the_simple_one() -> None:
    """As published; at two clients and two resources here, and for any number."""
    seen = refine_by_exploration(REFINEMENT, {"Client": 2, "Resource": 2}, faults=0)
    for_all = refine_by_proof(REFINEMENT)

    assert for_all.proved
    assert [f.mark for f in refined("allocator", seen)] == [Mark.EXHAUSTED] * 2
    assert [f.mark for f in refined("allocator", for_all)] == [Mark.PROVED]


# ── What is no refinement ───────────────────────────────────────────────────────────────────

RESET = """
        if self.drunk > 90:
            self.drunk = 0
"""
SMALL = ("drunk: Nat = 0\n\n    @action\n    def count", "drunk: Annotated[Nat, UpTo(3)] = 0\n")
CONSTANT = ("    return s.drunk\n\nREF", "    return 0\n\nREF")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed(CONSTANT, ('{"drink": ("count",)}', "{}")), "no step means count"),
        (
            changed(
                CONSTANT,
                ("        self.drunk += 1\n\n@some", f"{RESET}\n@some"),
                ("specification(Count, one_was_drunk)", "specification(Count)"),
            ),
            "no step changes what is seen through the map",
        ),
        (
            changed((SMALL[0], f"{SMALL[1]}\n    @action\n    def count")),
            "refines Count             check       ✗ 8 steps",
        ),
        (
            changed(
                ("    drunk: Nat = 0\n\n    @action\n    def fill", "    drunk: Nat = 0\n"
                 "    last: Cup | None = None\n\n    @action\n    def fill"),
                ("    return s.drunk\n\nREF", "    return s.drunk if s.full[s.last] else 0\n\nREF"),
            ),
            "the initial state is none of the contract's",
        ),
        (
            changed(
                ("    drunk: Nat = 0\n\n    @action\n    def fill", "    drunk: Nat = 0\n"
                 "    tiny: Annotated[Nat, UpTo(1)] = 0\n\n    @action\n    def fill"),
                ("        self.full[c] = True\n", "        self.full[c] = True\n"
                 "        self.tiny += 1\n"),
            ),
            "every value is defined    check       ✗",
        ),
        (
            changed(
                ("    drunk: Nat = 0\n\n    @action\n    def count", "    drunk: Nat = 0\n"
                 "    least: Nat = 0\n\n    @action\n    def count"),
                ("@sometimes", "@axiom\ndef five(s: Count) -> bool:\n"
                 '    """At least five."""\n    return s.least == 5\n\n@sometimes'),
                ("specification(Count, ", "specification(Count, five, "),
                ("(drunk,)", "(drunk, least)"),
                ("REFINEMENT =", "def least(s: Kitchen) -> Nat:\n    return 0\n\nREFINEMENT ="),
            ),
            "the initial state is none of the contract's",
        ),
    ],
    ids=["constant", "constant-named", "beyond", "absent", "undefined", "axiom"],
)  # fmt: skip
def test_no_map_passes_by_showing_nothing(kitchen: Path, text: str, said: str) -> None:
    """Constant maps, abstract steps or maps without a meaning, and forbidden starts all fail."""
    kitchen.write_text(text)

    done = run("refine", kitchen, "--no-prove", "--size", "Cup=2")

    assert said in done.stdout
    assert done.exit_code == FAILS


LOOKS = (
    ("    drunk: Nat = 0\n\n    @action\n    def count", """    drunk: Nat = 0
    last: Cup | None = None
    full: dict[Cup, bool] = each(False)
    seen: bool = False

    @action
    def count"""),
    ("        self.drunk += 1\n\n@some", """        self.drunk += 1
        self.seen = self.full[self.last]

@some"""),
    ("\nREFINEMENT", """
def last(s: Kitchen) -> Cup | None:
    return None

def full(s: Kitchen, c: Cup) -> bool:
    return False

def seen(s: Kitchen) -> bool:
    return False

REFINEMENT"""),
    ("(drunk,)", "(drunk, last, full, seen)"),
)  # fmt: skip


def test_a_step_that_has_no_meaning_is_no_meaning(kitchen: Path) -> None:
    """An abstract step that looks at what is absent is nothing that a concrete one could be."""
    kitchen.write_text(changed(*LOOKS))

    done = run("refine", kitchen, "--size", "Cup=1")

    assert done.exit_code == FAILS
    assert "✗ 2 steps" in done.stdout
    assert "not inductive: drink" in done.stdout


FALSE_INVARIANT = '''
@always
def nothing_is_full(s: Kitchen) -> bool:
    """No cup is ever full."""
    return all(not s.full[c] for c in Cup)

def drunk('''


def test_a_proof_rests_on_nothing_that_is_false(kitchen: Path) -> None:
    """An invariant that is not proved is no hypothesis: what follows from it is not proved."""
    text = changed(
        ("self.drunk += 1\n\nclass", "self.drunk += 2\n\nclass"),
        ("\ndef drunk(", FALSE_INVARIANT),
        ("specification(Kitchen)", "specification(Kitchen, nothing_is_full)"),
    )
    kitchen.write_text(text)
    through = find_refinement(str(kitchen))[1]

    assert not refine_by_proof(through).proved
    assert refine_by_proof(through, assume=True).proved  # so much would follow from it


def test_a_proof_rests_on_steps_that_have_a_meaning(kitchen: Path) -> None:
    """Where it is not proved that every value is defined, what follows from it is unknown."""
    old = "    drunk: Nat = 0\n\n    @action\n    def fill"
    tiny = old.replace("\n\n", "\n    tiny: Annotated[Nat, UpTo(1)] = 0\n\n")
    more = "        self.full[c] = True\n"
    kitchen.write_text(changed((old, tiny), (more, f"{more}        self.tiny += 1\n")))

    found = refine_by_proof(find_refinement(str(kitchen))[1])

    assert not found.proved
    [finding] = refined("kitchen", found)
    assert finding.mark is Mark.UNKNOWN
    assert finding.note == "given every_value_is_defined, which is not proved"


def test_an_axiom_excludes_initial_states(kitchen: Path) -> None:
    """An initial state that the concrete spec's axioms exclude need not be mapped."""
    start = (
        "    drunk: Nat = 0\n    more: Nat = 0\n\n    @initial\n"
        "    def start(self, some: bool) -> None:\n"
        '        """Some were drunk."""\n        if some:\n            self.more = 6\n'
        "\n    @action\n    def fill"
    )
    axiom = (
        "@axiom\ndef none_yet(s: Kitchen) -> bool:\n"
        '    """None was drunk."""\n    return s.more == 0\n\n@sometimes'
    )
    old = "    drunk: Nat = 0\n\n    @action\n    def fill"
    named = ("specification(Kitchen)", "specification(Kitchen, none_yet)")
    both = ("    return s.drunk\n\nREF", "    return s.drunk + s.more\n\nREF")
    kitchen.write_text(changed((old, start), ("@sometimes", axiom), named, both))
    through = find_refinement(str(kitchen))[1]

    found = refine_by_exploration(through, {"Cup": 1}, faults=0, bound=6)

    assert found.exploration is not None
    assert not found.exploration.violations
    assert found.exploration.states == 12  # six numbers, and a cup that is full or not


# ── What is refused ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (TALLY, "", "holds no refinement: define one, REFINEMENT = Refinement(concrete=…"),
        (KITCHEN, ":Kitchen", "Kitchen is a spec; the refinements: "),
        (KITCHEN, ":OTHER", "OTHER is not there; the refinements: "),
        (KITCHEN + "\nMORE = REFINEMENT\n", "", "holds 2 refinements; say which: "),
        (changed(('("count",)', '("cuont",)')), "", "drink means ('cuont',), but the abstract"),
        (changed(('"drink":', '"drnik":')), "", "Kitchen has no action 'drnik'; it has fill, d"),
        (changed(("(drunk,)", "()")), "", "the map and the abstract fields differ in: drunk"),
        (changed(("(drunk,)", '("drnuk",)')), "", "fields differ in: drnuk, drunk"),
        (
            changed(("(drunk,)", '("drunk",)'), ("each(False)\n    drunk: Nat", FEW)), "",
            "Kitchen has no field drunk of the same type: write a function for it",
        ),
        (
            changed(("specification(Kitchen)", "Kitchen")), "",
            "Kitchen is no specification: write specification(Kitchen, …)",
        ),
        (
            changed(("count(self)", "count(self, c: bool)")), "",
            "c of drink is a Cup, that of count a bool: rename one of them",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(kitchen: Path, text: str, name: str, said: str) -> None:
    """A file without a refinement, a name that is none, a map that does not fit: exit 2."""
    kitchen.write_text(text)

    done = run("refine", f"{kitchen}{name}")

    assert done.exit_code == NOT_ASKED
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_is_wanted() -> None:
    """The name of a known spec is no file with a refinement."""
    done = run("refine", "election")

    assert done.exit_code == NOT_ASKED
    assert "election: name a file with a refinement: path/to/file.py:REFINEMENT" in done.stderr


def test_channels_are_explored_and_not_proved(kitchen: Path) -> None:
    """Of a spec with channels nothing is proved: refused, with what to do instead."""
    old = "    drunk: Nat = 0\n\n    @action\n    def fill"
    queue = old.replace("\n\n", "\n    queue: Annotated[list[Cup], Capacity(2)] = empty()\n\n")
    kitchen.write_text(changed((old, queue)))

    refused = run("refine", kitchen, "--size", "Cup=1")
    done = run("refine", kitchen, "--size", "Cup=1", "--no-prove")

    assert refused.exit_code == NOT_ASKED
    assert "Kitchen has channels, and no map of channels can be proved: explore" in refused.stderr
    assert done.exit_code == HOLDS


def test_an_overfull_channel_is_unknown(kitchen: Path) -> None:
    """What a full channel cuts off was not looked at: unknown, too."""
    old = "    drunk: Nat = 0\n\n    @action\n    def fill"
    queue = old.replace("\n\n", "\n    queue: Annotated[list[Cup], Capacity(1)] = empty()\n\n")
    more = "        self.full[c] = True\n"
    kitchen.write_text(changed((old, queue), (more, f"{more}        self.queue.append(c)\n")))

    done = run("refine", kitchen, "--size", "Cup=2", "--no-prove")

    assert done.exit_code == UNKNOWN
