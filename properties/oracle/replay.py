"""Taking a counterexample's steps once more, by the names in which they are told."""

from __future__ import annotations

import ast
import re
from typing import Any

from properties.oracle.graph import holds, value
from properties.oracle.steps import Choice
from properties.oracle.truth import DEFINED, NEXT, Judge
from properties.oracle.values import Element, Instance, Member, NoMeaning, key

STEP = re.compile(r" *\d+\. .*\[(.+)\]")


def labels(story: list[str]) -> list[str]:
    """The steps of a story: what stands in brackets behind each numbered sentence."""
    return [match[1] for line in story if (match := STEP.fullmatch(line))]


class Replay:
    """Replays stories on one spec at one size."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.interpreter = judge.interpreter
        self.choices = {c.label: c for c in self.interpreter.choices(judge.of.spec)}

    def choice(self, label: str) -> Choice:
        """The choice that a label names, as `rooms.push(room1)`."""
        call = ast.parse(label, mode="eval").body
        assert isinstance(call, ast.Call)
        arguments = tuple(key(self.argument(a)) for a in call.args)
        return self.choices[ast.unparse(call.func), arguments]

    def argument(self, node: ast.expr) -> Any:
        """The value that an argument's text stands for."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Set(elts=elements):
                return {self.argument(e) for e in elements}
            case ast.Tuple(elts=elements):
                return tuple(self.argument(e) for e in elements)
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                found = {self.argument(k): self.argument(v) for k, v in pairs if k}
                return found or set()  # an empty set is written `{}`
            case ast.Attribute(value=ast.Name(id=enum), attr=member):
                return Member(enum, member)
            case ast.Name(id=name):
                return self.named(name)
        raise AssertionError(ast.unparse(node))

    def named(self, name: str) -> Any:
        """An element (`client1` is the first Client), or a member of an enum."""
        source = self.interpreter.source
        for sort in source.sorts:
            if name.lower().startswith(sort.lower()) and name[len(sort) :].isdigit():
                return Element(sort, int(name[len(sort) :]) - 1)
        for enum, members in source.enums.items():
            for member in members:
                if member.lower() == name.lower():
                    return Member(enum, member)
        raise AssertionError(f"nothing is called {name}")

    def breaks(self, story: list[str], name: str) -> str:
        """What is wrong with a story about a property; nothing if from some start it is right."""
        steps = [self.choice(label) for label in labels(story)]
        starts = [s for s, d in zip(self.judge.graph.states, self.judge.graph.depth, strict=True)
                  if d == 0]  # fmt: skip
        wrong = [self.from_start(start, steps, name) for start in starts]
        return "" if "" in wrong else wrong[0]

    def from_start(self, start: Instance, steps: list[Choice], name: str) -> str:
        """What is wrong with taking these steps from this start."""
        if sum(choice.costs for choice in steps) > self.judge.limits.faults:
            return "spends more than the budget of faults"
        before, state = start, start
        for number, choice in enumerate(steps, start=1):
            try:
                after = self.interpreter.after(state, choice)
            except NoMeaning:
                last = number == len(steps) and name == DEFINED
                return "" if last else f"step {number} has no meaning"
            if after is None:
                return f"step {number} is not possible"
            before, state = state, after
        return "" if self.shown(before, state, name) else "ends where nothing is wrong"

    def shown(self, before: Instance, state: Instance, name: str) -> bool:
        """Whether the end of a story shows what it is told for."""
        kind = "next" if name == NEXT else self.judge.of.properties.get(name, "")
        if kind in ("always", "lemma"):
            return not holds(self.interpreter, name, state)
        if kind == "never":
            return value(self.interpreter, name, state) is not False
        if kind == "sometimes":
            return holds(self.interpreter, name, state)
        if kind == "step":
            return not holds(self.interpreter, name, before, state)
        if kind == "next":
            return not any(self._protocol_step(state, c) for c in self.choices.values())
        return name != DEFINED

    def _protocol_step(self, state: Instance, choice: Choice) -> bool:
        """Whether a step without a price is possible; the budget may have been spent."""
        if choice.costs:
            return False
        try:
            return self.interpreter.after(state, choice) is not None
        except NoMeaning:
            return True
