"""
`herdproof step SPEC`: walk through a spec by hand, one step at a time.

It shows the state and the steps that are possible, takes a number, and goes there. It needs no
terminal: its answers may come from a pipe, one a line. What is shown is the spec's own Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from herdproof.cli.options import BoundOption, FaultsOption, SizeOption, SpecArgument
from herdproof.cli.spec.walk import MOST_STARTS, SpecPath, different
from herdproof.report.render import Output
from herdspec.check.verdict import counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdspec.check.running.run import Step
    from herdspec.language.specification import Action
    from herdspec.language.surface import Spec

T = TypeVar("T")
HELP = """\
NUMBER    take this step             u         undo the last step
b         back to the beginning      p         tell the path so far
?         why what is not possible is not (? ACTION: each choice of its arguments)
s FILE    save the path as JSON      q         quit"""


def step(
    spec: SpecArgument,
    size: SizeOption = None,
    faults: FaultsOption = 2,
    bound: BoundOption = None,
) -> None:
    """Walk through a spec by hand, one step at a time."""
    from herdproof.cli.specs import read, sizes_of, whole_name
    from herdspec.check.running.run import Machine
    from herdspec.engine.ground import Ground

    out = Output()
    subject = read(out, spec)
    sizes = sizes_of(subject.spec, size or [])
    most = faults + 1 if bound is None else bound
    machine = Machine(Ground(subject.spec, sizes, most, faults))
    walk = SpecPath.of(whole_name(spec, subject), subject.name, machine)
    out.line(f"{subject.name}: {subject.spec.sentence}")
    out.line(HELP)
    StepConversation(walk, out.line).run(answers(sys.stdin.isatty()))


def answers(prompt: bool) -> Iterator[str]:
    """Yield what is typed, or what comes through a pipe, until its end."""
    while True:
        if prompt:
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line.strip()


@dataclass
class StepConversation:
    """Answers lines with lines."""

    walk: SpecPath
    say: Callable[[str], None]

    def run(self, lines: Iterable[str]) -> None:
        """Until `q`, or the end of what is said."""
        self.show()
        for line in lines:
            if line in ("q", "quit"):
                return
            try:
                self.answer(line)
            except UsageError as error:
                self.say(str(error))

    def answer(self, line: str) -> None:
        """Do what one line asks for; raises `UsageError` where it cannot."""
        word, _, rest = line.partition(" ")
        match word:
            case "":
                self.show()
            case "u":
                self.undo()
            case "b":
                self.walk.begin()
                self.show()
            case "p":
                self.tell()
            case "s":
                self.save(rest.strip())
            case "h" | "help":
                self.say(HELP)
            case _ if word.startswith("?"):
                self.explain(line[1:].strip())
            case _:
                self.take(line)

    def show(self) -> None:
        """The state, what it breaks, and the numbered steps from it; or the initial states."""
        walk = self.walk
        self.say("")
        if walk.start is None:
            self.show_starts()
            return
        disturbed = any(a.disturbs for a in walk.machine.spec.actions) and walk.budget
        faults = f", {walk.faults} of {walk.budget} faults taken" if disturbed else ""
        self.say(f"after {counted(len(walk.path), 'step')}{faults}:")
        for line in pictured(walk.state):
            self.say(f"  {line}")
        for broken in walk.broken():
            self.say(f"✗ {broken}")
        for label, why in walk.undefined():
            self.say(f"✗ {label} is possible, but has no meaning: {why}")
        self.show_steps(walk.steps())

    def show_steps(self, steps: list[Step]) -> None:
        """The numbered steps; those beyond the bound are marked: `explore` drops them."""
        width = max((len(s.label) for s in steps), default=0)
        for number, s in enumerate(steps, start=1):
            beyond = "  (beyond the bound)" if self.walk.is_beyond(s.state) else ""
            self.say(f"{number:3}. {s.label:{width}}  {s.sentence}{beyond}")
        if not steps:
            self.say("No step is possible here.")

    def show_starts(self) -> None:
        """The numbered initial states, each by what differs from the first."""
        from herdspec.check.running.run import said

        starts = self.walk.starts
        self.say("There are several initial states; choose one:")
        for line in pictured(starts[0]):
            self.say(f"       {line}")
        for number, start in enumerate(starts[:MOST_STARTS], start=1):
            entries = [f"{e}: {said(v)}" for e, v in different(starts[0], start)]
            self.say(f"{number:3}. {', '.join(entries) or 'as above'}")
        if len(starts) > MOST_STARTS:
            self.say(f"and more: only the first {MOST_STARTS} can be chosen here")

    def take(self, text: str) -> None:
        """Take the step with this number or label, or choose the initial state with this number."""
        walk = self.walk
        if walk.start is None:
            starts = walk.starts[:MOST_STARTS]
            walk.start = pick(text, starts, [f"start {n}" for n, _ in enumerate(starts, start=1)])
            self.show()
            return
        steps = walk.steps()
        chosen = pick(text, steps, [s.label for s in steps])
        before = walk.state
        walk.path.append(chosen)
        self.say(chosen.sentence)
        for line in changes(before, chosen.state):
            self.say(f"  {line}")
        self.show()

    def undo(self) -> None:
        """Take the last step back."""
        if not self.walk.path:
            raise UsageError("there is no step to undo: this is the beginning")
        self.walk.path.pop()
        self.show()

    def tell(self) -> None:
        """The path as the story that it is."""
        from herdspec.check.running.run import told

        for line in told(self.walk.path, self.walk.initial, self.walk.initially):
            self.say(line)
        if not self.walk.path:
            self.say("No step was taken yet.")

    def save(self, file: str) -> None:
        """Write the path to a file, as the story that it is."""
        if not file:
            raise UsageError("save to which file? write s FILE")
        try:
            self.walk.story(Path(file).parent).write(Path(file))
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}") from None
        self.say(f"saved {counted(len(self.walk.path), 'step')}: herdproof replay {file}")

    def explain(self, wanted: str) -> None:
        """Of what is not possible here, the first part of the guard that fails."""
        spec = self.walk.machine.spec
        actions = [a for a in spec.actions if wanted in ("", a.name)]
        if not actions:
            known = ", ".join(a.name for a in spec.actions)
            raise UsageError(f"there is no action {wanted!r}; the actions: {known}")
        for action in actions:
            reasons = list(self.reasons(action))
            for reason in reasons if wanted else reasons[:1]:
                self.say(f"  {reason}")
            if not wanted and len(reasons) > 1:
                self.say(f"    and {len(reasons) - 1} more: ? {action.name}")
            if wanted and not reasons:
                self.say(f"  {action.name} is possible here, however its arguments are chosen")

    def reasons(self, action: Action) -> Iterator[str]:
        """For each choice of arguments for which an action is not possible: its call, and why."""
        from herdspec.check.running.refusal import refusal
        from herdspec.check.running.run import Step
        from herdspec.check.running.undefined import why_undefined
        from herdspec.language.surface import Undefined

        walk = self.walk
        possible = {s.label for s in walk.steps()}
        for of, arguments in walk.machine.choices:
            label = Step(of, arguments, walk.state).label
            if of is not action or label in possible:
                continue
            try:
                after = walk.machine.take(walk.state, action.name, arguments)
            except Undefined:
                why = why_undefined(walk.machine, walk.state, action, arguments)
                yield f"{label} is possible, but has no meaning: {why}"
                continue
            if after is None:
                yield refusal(walk.machine, walk.state, action, arguments).summary
            else:
                yield f"{label}: the budget of faults is spent ({walk.faults} of {walk.budget})"


def pick(text: str, of: Sequence[T], labels: Iterable[str]) -> T:
    """The one with this number (from 1) or label; raises `UsageError` for neither."""
    for n, (one, label) in enumerate(zip(of, labels, strict=True), start=1):
        if text in (str(n), label):
            return one
    numbers = f"a number from 1 to {len(of)}" if of else "u to undo, b to begin anew"
    raise UsageError(f"there is no step {text!r}: write {numbers}, or h for help")


def pictured(state: Spec) -> Iterator[str]:
    """A state, one field a line: `lease: client1 held, client2 none`."""
    from herdspec.check.running.run import entries, said

    for name, group in groupby(entries(state), lambda entry: entry[0].partition("[")[0]):
        told = []
        for entry, value in group:
            index = entry.partition("[")[2].replace("]", "", 1)
            told.append(f"{index} {said(value)}".strip())
        yield f"{name}: {', '.join(told)}"


def changes(before: Spec, after: Spec) -> Iterator[str]:
    """The changes of a step, one entry a line."""
    from herdspec.check.running.run import difference, said

    for entry, (old, new) in difference(before, after).items():
        yield f"{entry}: {said(old)} → {said(new)}"
