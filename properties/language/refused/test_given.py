"""
What decorators and the words of a declaration refuse: at the line that they stand in.

Each would otherwise end deep inside a reading, or be taken for what it is not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdspec import Spec, action, weak
from properties.language.refused.test_refusals import refused
from properties.language.tiny import HEADER

AN_ACTION = "def act(self) -> None:\n        pass"
A_PROPERTY = "def p(s: Tiny) -> bool:\n    return True"

OF_ACTIONS = {
    "fairness in quotes": ('@action(fair="weak")  # here', "write fair=weak or fair=strong"),
    "a kind in quotes": ('@action(kind="fault")  # here', "kind=command or kind=fault"),
    "fairness as a kind": ("@action(kind=weak)  # here", "kind=command or kind=fault"),
    "a kind as fairness": ("@action(fair=fault)  # here", "fair=weak or fair=strong"),
    "a number that disturbs": ("@action(disturbs=1)  # here", "disturbs=True or disturbs=False"),
    "a kind without its name": ("@action(fault)  # here", "name the argument: @action(kind=fault)"),
    "fairness without its name": ("@action(weak)  # here", "@action(fair=weak)"),
    "an unknown argument": (
        "@action(fairness=weak)  # here",
        "it takes kind=, disturbs= and fair=",
    ),
    "two arguments": ("@action(fault, weak)  # here", "name the argument"),
    "a fair fault": ("@action(kind=fault, fair=weak)  # here", "nothing makes a fault happen"),
    "a fair command": (
        "@action(kind=command, fair=weak)  # here",
        "nothing makes a command happen",
    ),
    "an action of no function": ("@action  # here\n    @staticmethod", "above a plain `def`"),
    "two marks": ("@action  # here\n    @action", "which is an action already"),
    "two kinds of mark": ("@initial  # here\n    @action", "which is an action already"),
    "a property that is an action": ("@action  # here\n    @always", "above a plain `def`"),
    "an initial with arguments": ("@initial(kind=fault)  # here", "without parentheses"),
    "an initial with parentheses": ("@initial()  # here", "without parentheses"),
}


@pytest.mark.parametrize("mistake", OF_ACTIONS)
def test_a_wrong_mark_of_a_method_is_refused_at_its_line(mistake: str) -> None:
    """What @action and @initial are given is checked where it stands."""
    decorators, advice = OF_ACTIONS[mistake]

    assert advice in str(refused(f"{HEADER}    {decorators}\n    {AN_ACTION}\n"))


@pytest.mark.parametrize(
    "word",
    [
        "always",
        "never",
        "lemma",
        "step",
        "sometimes",
        "recoverable",
        "eventually",
        "leads_to",
        "axiom",
    ],
)
def test_a_property_s_decorator_takes_a_function_and_nothing_else(word: str) -> None:
    """Every decorator of properties refuses parentheses, other things, and other decorators."""
    assert "parentheses" in str(refused(f"{HEADER}@{word}()  # here\n{A_PROPERTY}\n"))
    assert "parentheses" in str(refused(f"{HEADER}@{word}(lemma=True)  # here\n{A_PROPERTY}\n"))
    assert "of 3;" in str(refused(f"{HEADER}{word}(3)  # here\n"))
    assert "the class Tiny" in str(refused(f"{HEADER}{word}(Tiny)  # here\n"))
    assert "p, a Property" in str(refused(f"{HEADER}@{word}  # here\n@always\n{A_PROPERTY}\n"))
    assert "an action already" in str(refused(f"{HEADER}@{word}  # here\n@action\n{A_PROPERTY}\n"))


OF_FIELDS = {
    "a bound below zero": ("n2: Annotated[Nat, UpTo(-1)] = 0", "at least 0"),
    "a bound in quotes": ('n2: Annotated[Nat, UpTo("3")] = 0', "at least 0"),
    "a bound that is a bool": ("n2: Annotated[Nat, UpTo(True)] = 0", "at least 0"),
    "a fraction as a bound": ("n2: Annotated[Nat, UpTo(1.5)] = 0", "at least 0"),
    "no bound": ("n2: Annotated[Nat, UpTo()] = 0", "missing"),
    "two bounds": ("n2: Annotated[Nat, UpTo(3), UpTo(2)] = 0", "write one, UpTo(n)"),
    "a start beyond its bound": ("n2: Annotated[Nat, UpTo(3)] = 4", "with a number from 0 to 3"),
    "a capacity of nothing": ("q: Annotated[list[bool], Capacity(0)] = empty()", "at least 1"),
    "a capacity below zero": ("q: Annotated[list[bool], Capacity(-1)] = empty()", "at least 1"),
    "a bound for a channel": ("q: Annotated[list[bool], UpTo(2)] = empty()", "use bool, Nat"),
    "a bound for a bool": ("b: Annotated[bool, UpTo(2)] = False", "use bool, Nat"),
    "a list for each": ("m: dict[Node, bool] = each([])", "start with a constant"),
    "a dict for each": ("m: dict[Node, bool] = each({})", "start with a constant"),
    "a set for each": ("m: dict[Node, set[Node]] = each(set())", "or empty()"),
    "each of each": ("m: dict[Node, bool] = each(each(False))", "dict[tuple[A, B], …]"),
}


@pytest.mark.parametrize("mistake", OF_FIELDS)
def test_a_wrong_word_in_a_declaration_is_refused_at_its_line(mistake: str) -> None:
    """What bounds, capacities and start values are given is checked where it stands."""
    field, advice = OF_FIELDS[mistake]
    text = HEADER.replace("import Enum\n", "import Enum\nfrom typing import Annotated\n")

    assert advice in str(refused(f"{text}    {field}  # here\n"))
    if "Annotated" in field and "missing" not in advice:  # evaluated where it stands
        at_once = f"class Tiny(Spec):\n    {field}  # here\n"
        imports = "from typing import Annotated\nfrom herdspec import *\n"
        assert advice in str(refused(imports + at_once))


def test_a_bound_in_a_record_is_refused_where_the_record_is_used() -> None:
    """A record's wrong bound is said at the field that holds the record."""
    text = HEADER.replace(
        "class Tiny",
        "@dataclass(frozen=True)\nclass R:\n    x: Annotated[Nat, UpTo(-1)]\nclass Tiny",
    )
    text = text.replace(
        "import Enum\n",
        "import Enum\nfrom typing import Annotated\nfrom dataclasses import dataclass\n",
    )

    assert "a part of R: UpTo(-1)" in str(refused(f"{text}    r: R | None = None  # here\n"))


def test_the_command_says_it_in_one_sentence(tmp_path: Path) -> None:
    """A wrong mark ends a command with one line and exit code 2, whatever the command."""
    path = tmp_path / "spec.py"
    path.write_text(f'{HEADER}    @action(fair="weak")\n    {AN_ACTION}\n')
    line = HEADER.count("\n") + 1
    for command in ("explore", "verify", "prove", "simulate"):
        done = CliRunner().invoke(app, [command, str(path)])

        assert done.exit_code == 2
        said = (done.stdout + done.stderr).strip()
        assert said.startswith(f"herdproof: {path}:{line}: fair='weak' of @action; write fair=weak")
        assert "\n" not in said


def test_a_function_may_be_marked_again_for_a_variant() -> None:
    """`action(fair=weak)(f)` makes another function: the original's mark stays."""

    @action
    def serve(self: Spec) -> None:
        """It serves."""

    again = action(fair=weak)(serve)

    assert again is not serve
    assert [vars(f)["__herdspec_action__"].fair for f in (serve, again)] == [None, weak]
