"""
A test of tests: whatever a command says of small specs is held against an independent oracle.

The corpus goes through `explore` and `verify` every time; other sizes, other commands and random
specs take turns, by seed, and all of them are taken by `make test-long`. Each test's assertion
is a list of disagreements, one sentence each: what was said, and what is true.
"""

from __future__ import annotations

import random
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from properties.language.random_specs import sources
from properties.oracle.source import read_text
from properties.oracle_agrees.compared import (
    HOLDS,
    REFUSED,
    Spec,
    Truths,
    of_exploration,
    ran,
    within,
)
from properties.oracle_agrees.compared_proofs import (
    of_mutation,
    of_prove,
    of_search,
    of_simulation,
    of_verification,
)
from properties.oracle_agrees.declared import cases

ALL = [Spec(case.path, case.name, case.source) for case in cases()]
NOWHERE = [s for s in ALL if s.path.stem == "beginnings"]
SPECS = [s for s in ALL if s not in NOWHERE]
FILES = {path: list(found) for path, found in groupby(SPECS, key=lambda s: s.path)}
TRUTHS = Truths(horizon=1200)
FEW = Truths(horizon=250)
"""The truth about random specs, of which many are large."""
RANDOM, MANY = 20, 300
SIZES = [(1, 0), (1, 2), (3, 1), (3, 0), (2, 1), (2, 3), (1, 3)]


def by_turns(specs: list[Spec], part: int) -> list[Spec]:
    """Every so many of these; which ones is the same in every run of the same corpus."""
    return random.Random(len(specs) * part).sample(specs, len(specs) // part)


def sized(spec: Spec, elements: int) -> dict[str, int]:
    """So many elements of each sort."""
    return dict.fromkeys(spec.source.sorts, elements)


def name(spec: Spec | Path) -> str:
    """What a test calls a spec, or a file."""
    return spec.stem if isinstance(spec, Path) else f"{spec.path.stem}.{spec.name}"


# ── explore ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spec", SPECS, ids=name)
def test_explore_says_what_is_true(spec: Spec) -> None:
    """Rows, marks, lengths, numbers of states and exit code, at two elements and two faults."""
    assert list(of_exploration(TRUTHS, spec, sized(spec, 2), 2)) == []


@pytest.mark.parametrize("spec", by_turns(SPECS, 4), ids=name)
def test_explore_says_what_is_true_at_another_size(spec: Spec) -> None:
    """The same at another size, with another budget of faults."""
    elements, faults = random.Random(spec.name).choice(SIZES)

    assert list(of_exploration(TRUTHS, spec, sized(spec, elements), faults)) == []


@pytest.mark.parametrize("spec", by_turns(SPECS, 6), ids=name)
def test_explore_says_what_is_true_at_a_bound(spec: Spec) -> None:
    """What a bound cuts off that nobody has said to be meant is not said to hold."""
    bound = f"--bound={random.Random(spec.name).randint(3, 8)}"

    assert list(of_exploration(TRUTHS, spec, sized(spec, 2), 2, bound)) == []


@pytest.mark.parametrize("spec", by_turns(SPECS, 8), ids=name)
def test_explore_says_what_is_true_within_a_bound(spec: Spec) -> None:
    """Within a bound that is meant, what is said to hold does, up to there."""
    assert list(within(spec, sized(spec, 2), 2, random.Random(spec.name).randint(3, 8))) == []


@pytest.mark.long
@pytest.mark.parametrize("spec", SPECS, ids=name)
def test_explore_says_what_is_true_at_every_size(spec: Spec) -> None:
    """Every size up to three, every budget up to three, every bound up to eight."""
    wrong = [
        sentence
        for elements in (1, 2, 3)
        for faults in (0, 1, 2, 3)
        for sentence in of_exploration(TRUTHS, spec, sized(spec, elements), faults)
    ]
    for bound in range(3, 9):
        wrong += of_exploration(TRUTHS, spec, sized(spec, 2), 2, f"--bound={bound}")
        wrong += within(spec, sized(spec, 2), 2, bound)

    assert wrong == []


@pytest.mark.parametrize("spec", NOWHERE, ids=name)
@pytest.mark.parametrize("command", ["explore", "verify", "prove", "simulate"])
def test_nothing_holds_where_nothing_begins(spec: Spec, command: str) -> None:
    """A spec without an initial state is refused, unknown, or vacuous, and never said to hold."""
    run = ran(command, spec.argument, *(["--no-cache"] if command == "verify" else []))

    assert run.exit != HOLDS, run.text


# ── verify, prove, search, simulate, mutate ─────────────────────────────────────────────────


@pytest.mark.parametrize("path", FILES, ids=name)
def test_verify_says_what_is_true(path: Path) -> None:
    """Explored and proved rows of every spec; JSON, JUnit, SARIF, HTML and exit code agree."""
    assert list(of_verification(TRUTHS, path, FILES[path])) == []


@pytest.mark.parametrize("spec", by_turns(SPECS, 10), ids=name)
def test_verify_says_what_is_true_of_one_spec(spec: Spec) -> None:
    """Of a spec alone, explored and not proved."""
    assert list(of_verification(TRUTHS, spec.path, [spec], "--no-prove", only=spec)) == []


@pytest.mark.long
@pytest.mark.parametrize("spec", SPECS, ids=name)
def test_verify_says_what_is_true_of_each_spec(spec: Spec) -> None:
    """Of each spec alone, proved and not proved."""
    for more in ((), ("--no-prove",)):
        assert list(of_verification(TRUTHS, spec.path, [spec], *more, only=spec)) == []


@pytest.mark.parametrize("spec", by_turns(SPECS, 8), ids=name)
def test_prove_says_what_is_true(spec: Spec) -> None:
    """Nothing is proved of which a counterexample can be reached at a size up to three."""
    assert list(of_prove(TRUTHS, spec)) == []


@pytest.mark.parametrize("spec", by_turns(SPECS, 5), ids=name)
def test_search_says_what_is_true(spec: Spec) -> None:
    """Nothing is missed within the depth, and what is found is there, as short."""
    assert list(of_search(TRUTHS, spec)) == []


@pytest.mark.parametrize("spec", by_turns(SPECS, 5), ids=name)
def test_simulate_finds_what_is_there(spec: Spec) -> None:
    """What walks have found is there."""
    assert list(of_simulation(TRUTHS, spec)) == []


@pytest.mark.long
@pytest.mark.parametrize("spec", SPECS, ids=name)
def test_every_command_says_what_is_true(spec: Spec) -> None:
    """All specs, with the commands that take turns otherwise."""
    wrong = [*of_prove(TRUTHS, spec), *of_search(TRUTHS, spec), *of_simulation(TRUTHS, spec)]

    assert [*wrong, *of_mutation(spec)] == []


@pytest.mark.parametrize("spec", [s for s in SPECS if s.name in ("Jump", "Flood")], ids=name)
def test_mutants_without_a_difference_have_none(spec: Spec) -> None:
    """A mutant that reaches other states is not said to make no difference."""
    assert list(of_mutation(spec)) == []


# ── Random specs ────────────────────────────────────────────────────────────────────────────


def random_texts(number: int) -> list[str]:
    """So many random specs, always the same."""
    found: list[str] = []

    @seed(12)
    @settings(
        max_examples=number, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(sources())
    def keep(text: str) -> None:
        found.append(text)

    keep()
    return found


LIMITS = ["s.n < 3", "not s.flag", "s.fm[s.pick] or s.n < 2", "all(s.fm[a] for a in T) or s.n < 1"]
"""What random specs are constrained to, if anything: the third is without a meaning somewhere."""


def varied(text: str, k: int) -> str:
    """A random spec of which every other is strongly fair, and some go on only within a limit."""
    if k % 2:
        text = text.replace("weak.any", "strong.any")
    if k % 3:
        return text
    limit = LIMITS[k // 3 % len(LIMITS)]
    return f"{text}\n@constraint\ndef p_constraint(s: Random) -> bool:\n    return {limit}\n"


def random_disagreements(folder: Path, number: int) -> list[str]:
    """What `explore` says of random specs that is not so."""
    wrong: list[str] = []
    for k, plain in enumerate(random_texts(number)):
        text = varied(plain, k)
        path = folder / f"random_{k}.py"
        path.write_text(text, encoding="utf-8")
        spec = Spec(path, "Random", read_text(text))
        more = [] if k % 2 else [f"--bound={3 + k % 6}"]
        wrong += of_exploration(FEW, spec, {"T": 1 + k % 2}, k % 3, *more)
    return wrong


def test_random_specs_are_explored_as_they_are(tmp_path: Path) -> None:
    """Random specs, at sizes, budgets and bounds in turn."""
    assert random_disagreements(tmp_path, RANDOM) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_random_specs_are_explored_as_they_are(tmp_path: Path) -> None:
    """The same with many."""
    assert random_disagreements(tmp_path, MANY) == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_random_specs_are_proved_searched_and_walked_as_they_are(tmp_path: Path) -> None:
    """What other commands say of random specs."""
    wrong: list[str] = []
    for k, text in enumerate(random_texts(RANDOM)):
        path = tmp_path / f"random_{k}.py"
        path.write_text(text, encoding="utf-8")
        spec = Spec(path, "Random", read_text(text))
        wrong += [*of_prove(FEW, spec), *of_search(FEW, spec), *of_simulation(FEW, spec)]

    assert wrong == []


def test_refusals_are_few() -> None:
    """Of the corpus nothing is refused: an exit code 2 would be no disagreement otherwise."""
    refused = [
        s.argument for s in by_turns(SPECS, 20) if ran("explore", s.argument).exit == REFUSED
    ]

    assert refused == []
