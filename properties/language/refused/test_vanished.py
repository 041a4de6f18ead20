"""
What a file says and no spec would ever see: refused, or said in the answer.

Of two definitions of one name Python keeps the last; a property may be left out of a specification;
a constant may be another by the time that the plain Python looks at it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdproof.cli import app
from herdspec import Nat, Spec, SpecError, action, always, from_source, require, specification
from herdspec.check.exploration.explore import explore
from herdspec.check.proof.proof_verdict import proved
from herdspec.check.proof.prove import prove
from properties.language.refused.test_refusals import refused
from properties.language.tiny import HEADER

GO = "    @action\n    def go(self) -> None:\n        pass\n"
P = "@always\ndef p(s: Tiny) -> bool:\n    return True\n"
HERE = "  # here"


def again(text: str) -> str:
    """The same text, its first definition marked as the line of the mistake."""
    return text.replace(":\n", f":{HERE}\n", 1)


IN_A_CLASS = {
    "two actions": GO + again(GO),
    "an action and a helper": GO + "    def go(self) -> None:  # here\n        pass\n",
    "two helpers": "    def add(self, a: Node) -> None:  # here\n        pass\n",
    "two fields": "    flag: Nat = 0  # here\n",
    "a field and an action": "    @action\n    def flag(self) -> None:  # here\n        pass\n",
}


@pytest.mark.parametrize("mistake", IN_A_CLASS)
def test_two_of_one_name_in_a_class_are_refused_with_both_lines(mistake: str) -> None:
    """Of two members of one name, the second is refused, and the line of the first is said."""
    error = refused(HEADER + IN_A_CLASS[mistake])

    assert "for the second time: it stands in line" in error.construct
    assert "give each its own name" in error.advice


BESIDE = {
    "two properties": P + again(P),
    "a property, and a function that hides it": P + again(P.replace("@always\n", "")),
    "a property, and a value that hides it": P + "p = 3  # here\n",
    "two helpers of a property": "def h(s: Tiny) -> bool:\n    return True\n"
    "def h(s: Tiny) -> bool:  # here\n    return s.flag\n" + P.replace("True", "h(s)"),
}


@pytest.mark.parametrize("mistake", BESIDE)
def test_two_of_one_name_in_a_module_are_refused_with_both_lines(mistake: str) -> None:
    """A property, or a function that one calls, must be the only one of its name."""
    error = refused(f"{HEADER}\n{BESIDE[mistake]}")

    assert "for the second time: it stands in line" in error.construct


def test_two_parts_of_one_name_in_a_record_are_refused() -> None:
    """A record whose parts share a name is refused at the second."""
    record = "@dataclass(frozen=True)\nclass R:\n    x: bool\n    x: Light  # here\n\nclass Tiny"
    text = HEADER.replace("class Tiny", record).replace(
        "import Enum\n", "import Enum\nfrom dataclasses import dataclass\n"
    )

    assert "`x` in the class R" in str(refused(f"{text}    r: R | None = None\n"))


UNLIKE = {
    "identity": ("(frozen=True, eq=False)", "x: bool", "`eq=False`"),
    "a part that is not compared": (
        "(frozen=True)", "x: bool = field(compare=False)", "the part `x`"
    ),
    "a part that is not given": (
        "(frozen=True)", "x: bool = field(default=True, init=False)", "the part `x`"
    ),
    "a part that is given by its name": ("(frozen=True, kw_only=True)", "x: bool", "the part `x`"),
    "another equality": (
        "(frozen=True)",
        "x: bool\n    def __eq__(self, other: object) -> bool:\n        return True",
        "a `__eq__` of its own",
    ),
    "another beginning": (
        "(frozen=True)", "x: bool\n    def __post_init__(self) -> None:\n        pass",
        "a `__post_init__` of its own",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", UNLIKE)
def test_a_record_that_is_not_just_its_parts_is_refused(mistake: str) -> None:
    """Records that Python makes or compares otherwise than by their parts are refused."""
    how, body, said = UNLIKE[mistake]
    record = f"@dataclass{how}\nclass R:\n    {body}\n\nclass Tiny"
    text = HEADER.replace("class Tiny", record).replace(
        "import Enum\n", "import Enum\nfrom dataclasses import dataclass, field\n"
    )

    with pytest.raises(SpecError) as caught:
        from_source(f"{text}    r: R | None = None\n", "Tiny")

    assert f"the class R with {said}" in str(caught.value)


def test_an_enum_with_an_equality_of_its_own_is_refused() -> None:
    """The graph tells members apart by their places, whatever Python would call equal."""
    equal = "    def __eq__(self, other: object) -> bool:\n        return True\n\nclass Tiny"
    text = HEADER.replace("class Tiny", f"class Odd(Enum):\n    A = 1\n    B = 2\n{equal}")

    with pytest.raises(SpecError, match="the class Odd with an `__eq__` of its own"):
        from_source(f"{text}    odd: Odd = Odd.A\n", "Tiny")


MIXINS = {
    "before Spec": ("Mixin, Spec", "    @action\n    def go(self) -> None:\n        pass\n"),
    "after Spec": ("Spec, Mixin", "    @action\n    def go(self) -> None:\n        pass\n"),
    "before a spec": ("Mixin, Whole", "    def __setattr__(self, name, value):\n        pass\n"),
    "with a field": ("Mixin, Spec", "    more: bool = False\n"),
}


@pytest.mark.parametrize("mixin", MIXINS)
def test_a_base_that_is_no_spec_is_refused(mixin: str) -> None:
    """Its body was not checked, nor its actions read after Spec: Python alone would see them."""
    bases, body = MIXINS[mixin]
    text = (
        f'from herdspec import *\n\nclass Whole(Spec):\n    """A spec."""\n\n'
        f'class Mixin:\n{body}\nclass Tiny({bases}):  # here\n    """A spec."""\n'
    )

    assert "the base `Mixin` of the class Tiny, which is no spec" in str(refused(text))


def test_an_action_that_belongs_to_no_spec_is_refused() -> None:
    """A marked function outside of the class is no part of the spec."""
    text = HEADER + "@action{}\ndef go(self: Tiny) -> None:\n    self.flag = True\n"

    assert "outside of a spec" in str(refused(text.format("  # here")))
    variant = "OTHER = specification(Tiny).add('Other', go=go)\n"
    assert from_source(text.format("") + variant, "Tiny").name == "Tiny"


class Counter(Spec):
    """It counts."""

    n: Nat = 0
    most: Nat = 2

    @action
    def tick(self) -> None:
        """It counts on."""
        require(self.n < self.most)
        self.n += 1


@always
def small(s: Counter) -> bool:
    """It stays small."""
    return s.n <= 2


def test_a_property_is_given_once() -> None:
    """Verdicts go by names: a spec that is held to one name twice is refused, with both places."""
    with pytest.raises(SpecError, match=rf"`small` of Counter .* first is in {__file__}:\d+"):
        specification(Counter, small, small)


@pytest.mark.parametrize("wrong", [Counter, 3, "small", small.function])
def test_only_properties_are_given(wrong: object) -> None:
    """What bears no decorator of a property is refused where it is given."""
    with pytest.raises(SpecError, match=rf"{__file__}:\d+: .* as a property of Counter"):
        specification(Counter, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [Spec, Nat, 3, "Counter"])
def test_only_a_spec_is_specified(wrong: object) -> None:
    """What is no spec's class is refused where it is given."""
    with pytest.raises(SpecError, match=r"a class that derives from Spec"):
        specification(wrong, small)  # type: ignore[arg-type]


def test_a_variant_takes_functions_and_new_names_only() -> None:
    """What a variant is made with is a function, and no name that states have already."""
    spec = specification(Counter, small)

    with pytest.raises(SpecError, match=r"go=3; give a plain function"):
        spec.add("Other", go=3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="'most' is no new name"):
        spec.add("Other", most=Counter.tick)
    with pytest.raises(KeyError, match="'copy' is no new name"):
        spec.add("Other", copy=Counter.tick)


# ── Left out ────────────────────────────────────────────────────────────────────────────────

FILE = f"""{HEADER}{GO}
{P}

@always
def left(s: Tiny) -> bool:
    return not s.flag

TINY = specification(Tiny, p)
OTHER = TINY.drop("Other", "sum")
"""


@pytest.mark.parametrize("command", ["explore", "prove", "simulate", "search", "verify", "mutate"])
def test_a_property_that_is_left_out_is_named(command: str, tmp_path: Path) -> None:
    """Whatever is asked about a spec, what it is not held to is said, in text and in JSON."""
    (tmp_path / "tiny.py").write_text(FILE)
    line = 1 + FILE[: FILE.index("@always\ndef left")].count("\n")
    spec = f"{tmp_path}/tiny.py:OTHER"
    more = ["--depth", "1"] if command == "search" else ["--no-cache"] * (command == "verify")

    told = CliRunner().invoke(app, [command, spec, *more, "--json", f"{tmp_path}/out.json"])

    sentence = f"not held to: left, defined at {tmp_path}/tiny.py:{line}"
    sentence += " and left out of specification(…)"
    assert sentence in told.stdout.splitlines()
    assert json.loads((tmp_path / "out.json").read_text())["notes"] == [sentence]


def test_nothing_is_noted_of_a_spec_that_is_held_to_all(tmp_path: Path) -> None:
    """A note comes where something is left out, and nowhere else."""
    (tmp_path / "tiny.py").write_text(FILE.replace("(Tiny, p)", "(Tiny, p, left)"))

    told = CliRunner().invoke(app, ["explore", f"{tmp_path}/tiny.py:TINY", "--json", "-"])

    assert "not held to" not in told.stderr
    assert "notes" not in json.loads(told.stdout)


# ── Constants ───────────────────────────────────────────────────────────────────────────────

LIMIT = 2


class Limited(Spec):
    """It counts up to a constant of this module."""

    n: Nat = 0

    @action
    def tick(self) -> None:
        """It counts on."""
        require(self.n < LIMIT)
        self.n += 1


@always
def within(s: Limited) -> bool:
    """It stays within."""
    return s.n <= LIMIT


LIMITED = specification(Limited, within)


def test_a_constant_that_has_changed_since_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain Python would see another value than all other analyses: none of them begins."""
    monkeypatch.setattr(f"{__name__}.LIMIT", 5)

    for analysis in (lambda: explore(LIMITED, {}, faults=0, bound=4), lambda: prove(LIMITED)):
        with pytest.raises(SpecError, match=r"`LIMIT`, which was 2 .* and is 5 now") as caught:
            analysis()
        assert caught.value.line == Limited.tick.__code__.co_firstlineno + 3


def test_a_constant_that_is_gone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that the plain Python would no longer find is refused as well."""
    monkeypatch.delattr(f"{__name__}.LIMIT")

    with pytest.raises(SpecError, match=r"`LIMIT`, which was 2 .* and is gone now"):
        explore(LIMITED, {}, faults=0, bound=4)


def test_a_constant_of_the_same_value_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is assigned again with its own value has not changed; True is not 1."""
    monkeypatch.setattr(f"{__name__}.LIMIT", int("2"))

    assert explore(LIMITED, {}, faults=0, bound=4).states == 3


def test_a_constant_of_a_function_is_each_spec_s_own() -> None:
    """Specs that are made by a function each keep the value that they were made with."""

    def made(most: int) -> type[Spec]:
        class Local(Spec):
            """It counts up to what it was made with."""

            n: Nat = 0

            @action
            def tick(self) -> None:
                """It counts on."""
                require(self.n < most)
                self.n += 1

        return Local

    specs = [specification(made(most)) for most in (1, 2)]

    assert [explore(s, {}, faults=0, bound=4).states for s in specs] == [2, 3]


def test_a_variable_of_a_function_that_has_changed_is_refused() -> None:
    """A spec in a loop whose variable went on is not what its plain Python does any more."""
    specs = []
    for most in (1, 2):

        class Local(Spec):
            """It counts up to the loop's variable."""

            n: Nat = 0

            @action
            def tick(self) -> None:
                """It counts on."""
                require(self.n < most)  # noqa: B023
                self.n += 1

        specs.append(specification(Local))

    assert explore(specs[1], {}, faults=0, bound=4).states == 3
    with pytest.raises(SpecError, match=r"`most`, which was 1 .* and is 2 now"):
        explore(specs[0], {}, faults=0, bound=4)


def test_a_constant_that_a_file_changes_below_its_spec_is_refused(tmp_path: Path) -> None:
    """The command says which constant, where it was read, and both values."""
    text = HEADER + "    def few(self) -> bool:\n        return self.n < LIMIT\n"
    text += "    @action\n    def go(self) -> None:\n        require(self.few())\nLIMIT = 7\n"
    (tmp_path / "tiny.py").write_text(text)

    told = CliRunner().invoke(app, ["explore", f"{tmp_path}/tiny.py"])

    line = 1 + text[: text.index("return self.n < LIMIT")].count("\n")
    assert told.exit_code == 2
    assert f"tiny.py:{line}: `LIMIT`, which was 2 when" in told.stderr
    with pytest.raises(SpecError, match="which was 2 when it was read here and is 7 now"):
        from_source(text, "Tiny")


# ── Axioms ──────────────────────────────────────────────────────────────────────────────────


def test_an_axiom_about_what_an_action_changes_is_refused() -> None:
    """What is assumed of all states must not change: the field and the action are named."""
    text = HEADER + GO.replace("pass", "self.flag = True")
    text += "@axiom\ndef given(s: Tiny) -> bool:  # here\n    return not s.flag\n"

    error = refused(text)

    assert "the axiom `given` about flag, which go changes (go: line 55)" in error.construct


def test_an_axiom_about_what_only_a_start_chooses_is_taken() -> None:
    """An @initial method may choose what never changes afterwards."""
    start = "    @initial\n    def start(self) -> None:\n        self.flag = True\n"
    text = HEADER + start + GO + "@axiom\ndef given(s: Tiny) -> bool:\n    return s.flag\n"

    assert [p.name for p in from_source(text, "Tiny").properties] == ["given"]


def test_a_variant_that_changes_what_an_axiom_assumes_is_refused() -> None:
    """An action that is added must not change what is assumed of all states either."""
    text = HEADER + GO + "@axiom\ndef given(s: Tiny) -> bool:\n    return not s.flag\n"
    spec = from_source(text, "Tiny")

    def flip(self: Counter) -> None:
        """It changes."""
        self.flag = True

    with pytest.raises(SpecError, match="about flag, which flip changes"):
        spec.add("Flipped", flip=action(flip))


@pytest.mark.parametrize(
    ("axiom", "said"),
    [
        ("", "no initial state: no choice of @initial start is possible"),
        (
            "@axiom\ndef given(s: Tiny) -> bool:\n    return not s.flag\n",
            "no initial state of @initial start keeps the axioms",
        ),
    ],
)
def test_a_proof_says_why_nothing_begins(axiom: str, said: str) -> None:
    """Where no initial state is possible, what forbids it is named, and no axiom that is none."""
    start = "    @initial\n    def start(self) -> None:\n        require(self.n > 0)\n"
    spec = from_source(f"{HEADER}{start}{GO}{P}{axiom}", "Tiny")

    assert said in [f.note for f in proved("Tiny", prove(spec))]
