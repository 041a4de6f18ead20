"""
Counterexamples as files: written by whoever finds one, replayed by anybody, for ever.

A story file (`*.story.json`) names a spec and how to find it, the sizes, the steps with their
arguments, the property, and what is expected to come of it: that the property `fails` along the
story, that it `holds` now, or that the story is `impossible` now. Replaying takes the steps in the
spec's plain Python, one after the other, and says which of the three it is; where a step is not
possible, which line of the spec refuses it, and what that line saw.

Values are written as stories print them (`client1`, a member's name, numbers), never as positions:
a file outlives a field that is added, or actions that are put into another order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from herdspec.check.digest import digest
from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
from herdspec.check.running.judge import NONE, PathProperty, judge
from herdspec.check.running.refusal import Refusal, entry_name, refusal
from herdspec.check.running.run import Machine, Step, told
from herdspec.check.running.starts import initially
from herdspec.check.running.undefined import why_undefined
from herdspec.engine.ground import Ground
from herdspec.language.errors import UsageError
from herdspec.language.specification import Action, Specification
from herdspec.language.surface import Sort, Spec, Undefined
from herdspec.language.values import decode

VERSION = 1
SUFFIX = ".story.json"
A_PATH = "A path that somebody took, step by step."
"""The sentence of a story of no property."""


class Expect(Enum):
    """The expected outcome of a story."""

    FAILS = "fails"
    """Every step is possible, and the property fails."""
    HOLDS = "holds"
    """Every step is possible, and the property holds along them."""
    IMPOSSIBLE = "impossible"
    """One of the steps is not possible."""
    UNKNOWN = "unknown"
    """Nobody could say (never what a file expects)."""


@dataclass(frozen=True)
class SavedStep:
    """A step as a file has it: an action, and its arguments as text, by parameter."""

    action: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoryFile:
    """
    The content of a story file.

    `spec` finds the spec (a known name, or `path.py:Class` with a path relative to the file's
    folder), `digest` is of the spec that it was found in. `start` are the entries that tell the
    initial state from others, if there are others. `back` is the number of steps after which what
    follows repeats for ever; None for a story that ends. `code` finds the code that the story is
    replayed on, too (`module:Adapter`, or `path.py:Adapter` as for the spec), if it is of one's own
    and does not stand beside the spec.
    """

    spec: str
    name: str
    property: str
    sentence: str
    sizes: Mapping[str, int]
    faults: int
    bound: int
    steps: tuple[SavedStep, ...]
    expect: Expect = Expect.FAILS
    digest: str = ""
    start: Mapping[str, Any] = field(default_factory=dict)
    back: int | None = None
    told: tuple[str, ...] = ()
    code: str = ""

    def text(self) -> str:
        """The file's text: JSON, the fields in a fixed order, a step or a sentence a line."""
        fields = {"version": VERSION, **asdict(self), "expect": self.expect.value}
        if not self.code:
            del fields["code"]
        lines = [f"  {_json(name)}: {_json_lines(value)}" for name, value in fields.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def write(self, path: Path) -> None:
        """Write it."""
        path.write_text(self.text(), encoding="utf-8")

    def expecting(self, expect: Expect, code: str = "") -> StoryFile:
        """A file of this story with another expectation, and with other code, if that is given."""
        return replace(self, expect=expect, code=code or self.code)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json_lines(value: Any) -> str:
    """JSON with a line for each item of a list."""
    if not isinstance(value, list | tuple) or not value:
        return _json(value)
    return "[\n" + ",\n".join(f"    {_json(item)}" for item in value) + "\n  ]"


# ── Writing ─────────────────────────────────────────────────────────────────────────────────


def story_file(
    spec: str, machine: Machine, name: str, initial: Spec, steps: Sequence[Step],
    *, back: int | None = None,
) -> StoryFile:  # fmt: skip
    """
    The file of a counterexample to the property `name`: a story of `machine`'s spec.

    Without a name it is a path that need only be possible.
    `spec` is how whoever reads the file will find the spec. `back` as in `StoryFile`.
    """
    ground = machine.ground
    sentences = {p.name: p.sentence for p in machine.spec.properties}
    return StoryFile(
        spec=spec, name=machine.spec.name, property=name,
        sentence=sentences.get(name, name or A_PATH),
        sizes=dict(machine.sizes), faults=ground.faults, bound=ground.bound,
        steps=tuple(taken(step) for step in steps), digest=digest(machine.spec),
        start=_telling(machine, initial), back=back,
        told=tuple(told(list(steps), initial, initially(machine, initial))),
    )  # fmt: skip


def taken(step: Step) -> SavedStep:
    """A step as a file has it."""
    names = [name for name, _ in step.action.parameters]
    values = map(written, step.arguments)
    return SavedStep(step.action.name, dict(zip(names, values, strict=True)))


def written(value: Any) -> Any:
    """A plain value as JSON has it: a member by its name, an element as stories print it."""
    match value:
        case Enum():
            return value.name
        case Sort():
            return repr(value)
        case dict():
            return {repr(key): written(inner) for key, inner in value.items()}
        case set() | frozenset():
            return sorted(map(written, value), key=str)
        case tuple() | list():
            return [written(inner) for inner in value]
    return value


def file_name(spec: str, name: str) -> str:
    """The usual name of a story's file: `Lock.one_holder.story.json`."""
    subject = spec.rpartition(":")[2] if ".py" in spec else spec
    return ".".join(re.sub(r"[^\w-]+", "-", part) for part in (subject, name)) + SUFFIX


def _entries(machine: Machine, state: Spec) -> dict[str, Any]:
    """A state entry by entry, as text: `lease[client1]` → `HELD`."""
    slots = machine.ground.slots
    return {
        entry_name(machine, key): written(decode(slot.kind, number, machine.sorts))
        for (key, slot), number in zip(slots.items(), machine.numbers(state), strict=True)
    }


def _telling(machine: Machine, initial: Spec) -> dict[str, Any]:
    """The entries that tell this initial state from the others."""
    mine = _entries(machine, initial)
    others = [_entries(machine, other) for other in machine.starts()]
    return {k: v for k, v in mine.items() if any(other[k] != v for other in others)}


# ── Reading ─────────────────────────────────────────────────────────────────────────────────


def read_story(path: Path) -> StoryFile:
    """The story in a file; `UsageError` says what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # no JSON, or no UTF-8
        what = f"{path} is no story, or not all of one: {error}"
        raise UsageError(f"{what}; fetch it again, or save the story anew") from None
    return _Reading(path, data).story()


@dataclass(frozen=True)
class _Reading:
    """The fields of a file, each checked."""

    path: Path
    data: Any

    def story(self) -> StoryFile:
        if not isinstance(self.data, dict) or "version" not in self.data:
            raise self.refuse("it has no version", "is it a story file?")
        if self.data["version"] != VERSION:
            what = f"its version is {self.data['version']!r}, this program knows {VERSION}"
            raise self.refuse(what, "use the program that wrote it, or save the story anew")
        known = [e.value for e in Expect if e is not Expect.UNKNOWN]
        expect = self.field("expect", str)
        if expect not in known:
            raise self.refuse(f"it expects {expect!r}", f"expect one of {', '.join(known)}")
        steps = tuple(self.step(n, s) for n, s in enumerate(self.field("steps", list), start=1))
        back = self.field("back", int) if self.data.get("back") is not None else None
        if back is not None and not 0 <= back <= len(steps):
            raise self.refuse(f"it goes back to step {back} of {len(steps)}", "save it anew")
        return StoryFile(
            spec=self.field("spec", str), name=self.field("name", str),
            property=self.field("property", str), sentence=self.field("sentence", str),
            sizes=self.sizes(), faults=self.field("faults", int), bound=self.field("bound", int),
            steps=steps, expect=Expect(expect), digest=self.field("digest", str),
            start=self.field("start", dict), back=back, told=tuple(self.field("told", list)),
            code=self.field("code", str) if "code" in self.data else "",
        )  # fmt: skip

    def field(self, name: str, kind: type[Any]) -> Any:
        value = self.data.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            found = "nothing" if name not in self.data else repr(value)
            raise self.refuse(f"its {name!r} is {found}", f"a {kind.__name__} belongs there")
        return value

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = self.field("sizes", dict)
        for sort, n in sizes.items():
            if type(n) is not int or n < 1:
                raise self.refuse(f"its size of {sort} is {n!r}", "write a number of at least 1")
        return sizes

    def step(self, number: int, step: Any) -> SavedStep:
        match step:
            case {"action": str(action), "arguments": dict(arguments)}:
                return SavedStep(action, arguments)
        what = f"its step {number} is {step!r}"
        raise self.refuse(what, 'write {"action": name, "arguments": {parameter: value}}')

    def refuse(self, what: str, advice: str) -> UsageError:
        return UsageError(f"{self.path}: {what}; {advice}")


# ── Replaying ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Replayed:
    """
    The outcome of a story on a spec.

    `steps` are those that were taken; `refusal` is why the next one was not, if the story is
    impossible. `verdict` is in words what `outcome` is; `changed` says whether the spec is another
    than the one that the story was found in.
    """

    story: StoryFile
    machine: Machine
    initial: Spec
    steps: list[Step]
    outcome: Expect
    verdict: str
    changed: bool
    refusal: Refusal | None = None

    @property
    def as_expected(self) -> bool:
        """Tells whether it came as the file expects."""
        return self.outcome is self.story.expect

    @property
    def lines(self) -> list[str]:
        """Step by step, what happened."""
        begun = initially(self.machine, self.initial)
        lines = told(self.steps, self.initial, begun)
        if self.story.back is not None and len(self.steps) == len(self.story.steps):
            at = 2 * self.story.back + bool(begun)
            lines.insert(at, "     and from here on for ever:")
            if self.story.back == len(self.steps):
                lines[-1] += " nothing more happens"
        if self.refusal is not None:
            lines.append(f"{len(self.steps) + 1:3}. {self.refusal.label}  is not possible:")
            lines += [f"       {line}" for line in self.refusal.lines]
        return lines


def replay(story: StoryFile, spec: Specification, where: str = "the story") -> Replayed:
    """
    Take a story's steps on a spec, which may be another than the one it was found in.

    Raises `UsageError`, beginning with `where`, if the spec has no such property, action,
    parameter, value or sort.
    """
    machine = _machine(story, spec, where)
    reader = _Steps(machine, where)
    planned = [reader.read(number, step) for number, step in enumerate(story.steps, start=1)]
    made = PathProperty(machine, story.property, story.back)
    made.check_known(where)
    changed = digest(spec) != story.digest
    initial = _start(machine, story.start)
    if initial is None:
        words = "no longer possible: no initial state has " + ", ".join(
            f"{entry}: {value}" for entry, value in story.start.items()
        )
        first = machine.initial()
        return Replayed(story, machine, first, [], Expect.IMPOSSIBLE, words, changed)
    return _replayed(story, made, initial, planned, changed)


def _replayed(
    story: StoryFile, made: PathProperty, initial: Spec,
    planned: list[tuple[Action, tuple[Any, ...]]], changed: bool,
) -> Replayed:  # fmt: skip
    """Take the steps, and judge them."""
    machine, state, steps = made.machine.at_every_turn(), initial, list[Step]()

    def ends(outcome: Expect, words: str, why: Refusal | None = None) -> Replayed:
        return Replayed(story, machine, initial, steps, outcome, words, changed, why)

    for number, (action, arguments) in enumerate(planned, start=1):
        try:
            after = machine.take(state, action.name, arguments)
        except Undefined:
            undefined = why_undefined(machine, state, action, arguments)
            words = f"step {number} has no meaning: {undefined}"
            if story.property == EVERY_VALUE_IS_DEFINED:
                return ends(Expect.FAILS, f"still fails: {words}")
            return ends(Expect.IMPOSSIBLE, f"no longer possible: {words}")
        if after is None:
            why = refusal(machine, state, action, arguments)
            words = f"no longer possible at step {number}: {why.summary}"
            return ends(Expect.IMPOSSIBLE, words, why)
        state = after
        steps.append(Step(action, arguments, after))
    fails, note = judge(made, initial, steps)
    if fails is None:
        return ends(Expect.UNKNOWN, note)
    if fails:
        return ends(Expect.FAILS, f"still fails: {note}")
    if story.property == NONE:
        return ends(Expect.HOLDS, f"possible: {note}")
    now = " now" if story.expect is Expect.FAILS else ""
    return ends(Expect.HOLDS, f"possible, and the property holds{now}: {note}")


def _machine(story: StoryFile, spec: Specification, where: str) -> Machine:
    """The spec at the story's sizes."""
    missing = [s for s in spec.sorts if s not in story.sizes]
    unknown = [s for s in story.sizes if s not in spec.sorts]
    if missing or unknown:
        known = ", ".join(spec.sorts) or "none"
        what = f"its sizes are of {', '.join(story.sizes) or 'no sort'}"
        raise UsageError(f"{where}: {what}, the sorts of {spec.name} are {known}; save it anew")
    try:
        return Machine(Ground(spec, dict(story.sizes), story.bound, story.faults))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _start(machine: Machine, wanted: Mapping[str, Any]) -> Spec | None:
    """The initial state that has these entries, as far as there are such."""
    for initial in machine.starts():
        found = _entries(machine, initial)
        if all(found.get(entry, value) == value for entry, value in wanted.items()):
            return initial
    return None


@dataclass(frozen=True)
class _Steps:
    """Reads steps as actions and plain arguments of a spec."""

    machine: Machine
    where: str

    def read(self, number: int, step: SavedStep) -> tuple[Action, tuple[Any, ...]]:
        at = f"{self.where}: step {number}: "
        try:
            action = self.machine.spec.action(step.action)
        except KeyError as error:
            raise UsageError(f"{at}{error.args[0]}") from None
        names = [name for name, _ in action.parameters]
        if set(names) != set(step.arguments):
            given = ", ".join(step.arguments) or "no arguments"
            wanted = ", ".join(names) or "none"
            raise UsageError(f"{at}{action.name} is given {given}; it takes {wanted}")
        wanted_values = [_json(step.arguments[name]) for name in names]
        known: list[dict[str, None]] = [{} for _ in names]
        for numbers in self.machine.ground.choices(action):
            arguments = self.machine.arguments(action, numbers)
            values = [_json(written(value)) for value in arguments]
            if values == wanted_values:
                return action, arguments
            for seen, value in zip(known, values, strict=True):
                seen[value] = None
        wrong = next(k for k, value in enumerate(wanted_values) if value not in known[k])
        few = ", ".join(list(known[wrong])[:10])
        what = f"{at}{action.name}: {names[wrong]} cannot be {wanted_values[wrong]}"
        raise UsageError(f"{what}; at these sizes it is one of {few}")
