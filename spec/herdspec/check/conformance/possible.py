"""
Sets of states that a trace allows, carried from line to line by what each line tells.

Sets are closed under the steps that the trace does not name and that the protocol or its world
takes by itself. A set that outgrows its cap raises `TooMany`: then nobody knows, and must say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from herdspec.check.running.run import Machine
from herdspec.check.running.wording import Truth, guard
from herdspec.language.specification import Action
from herdspec.language.surface import ActionKind, Spec


@dataclass(frozen=True, kw_only=True)
class Line:
    """
    One step of one node, as a trace tells it.

    `action` is the spec's name for it, or None for a step that the spec does not have. `before` and
    `after` map fields to the values seen just before and after the step: of a map, the entry of
    this node; what is not named was not seen. `became` is the value of a field if it is this step
    that changed it. `answers` says what helpers of the spec, given the arguments, must have
    answered before the step. Lines come in the order of `time`; a step with a `since` may have
    happened as early as that, even before other steps of its node. Times are plain numbers in one
    unit; only order and distance count.
    """

    node: int
    action: str | None
    arguments: tuple[Any, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    became: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    time: int = 0
    since: int | None = None
    where: str = ""

    @property
    def earliest(self) -> int:
        """When the step may have happened at the earliest."""
        return self.time if self.since is None else min(self.since, self.time)


class TooMany(Exception):
    """More states are possible than may be carried."""


Key = tuple[int, ...]
"""The key of a state: for each field the number of its value, counted as values turn up."""


class CandidateState(NamedTuple):
    """A state that is possible, and which unnamed actions led to it (one bit each)."""

    state: Spec
    key: Key
    inferred: int


Possible = dict[Key, CandidateState]
"""A set of states."""

See = Callable[[Spec], Any]
"""A function that sees one value in a state."""


class Prophecy(NamedTuple):
    """The promise of a node's next line about its inbox: whatever is in there now, is that."""

    inbox: See
    empty: Any
    told: tuple[tuple[See, Any], ...]

    def kept(self, state: Spec) -> bool:
        """Tells whether the inbox is empty still, or holds what will be told."""
        if self.inbox(state) == self.empty:
            return True
        return all(see(state) == value for see, value in self.told)


Promises = tuple[Prophecy | None, ...]
"""For each node, what is known of its inbox."""


class UnnamedAction(NamedTuple):
    """An unnamed action with its arguments."""

    bit: int
    action: Action
    arguments: tuple[Any, ...]
    possible: Truth

    node: int | None
    """The first argument's index, if the step is about a node."""


class Possibilities:
    """Makes sets of states from sets of states; `named` are the actions that the trace names."""

    def __init__(
        self, machine: Machine, named: Collection[str], never: Collection[str], cap: int
    ) -> None:
        self.machine = machine
        self.cap = cap
        self.taken = 0
        """The number of steps taken: the work done."""
        self.sort = machine.spec.sorts[0]
        self.nodes = machine.elements(self.sort)
        self.guards = {a.name: guard(a, machine) for a in machine.spec.actions}
        positions = {f.name: k for k, f in enumerate(machine.spec.fields)}
        self.changes = {
            a.name: [(name, positions[name]) for name in a.updates] for a in machine.spec.actions
        }
        self._numbers: dict[Any, int] = {}
        unnamed = [a for a in machine.spec.actions if a.name not in {*named, *never}]
        self.names = [a.name for a in unnamed]
        instances = [self._instances(a) for a in unnamed]
        self.by_itself = [
            i for group in instances for i in group if i.action.kind is ActionKind.STEP
        ]
        """Instances that happen by themselves, at any time."""
        self.suppositions = sorted(
            (group for group in instances if group and group[0].action.kind is not ActionKind.STEP),
            key=lambda group: len(group[0].action.updates),
        )
        """Instances supposed only where a line needs them, by action; the fewest changes first."""

    def _instances(self, action: Action) -> list[UnnamedAction]:
        bit, test = 1 << self.names.index(action.name), self.guards[action.name]
        return [
            UnnamedAction(bit, action, arguments, test, self._node(arguments))
            for a, arguments in self.machine.choices
            if a is action
        ]

    def _node(self, arguments: tuple[Any, ...]) -> int | None:
        first = arguments[0] if arguments else None
        return self.nodes.index(first) if first in self.nodes else None

    def inferred(self, possible: Possible) -> frozenset[str]:
        """The unnamed actions that led to one of these states."""
        bits = next((carried.inferred for carried in possible.values()), 0)
        return frozenset(name for k, name in enumerate(self.names) if bits >> k & 1)

    def initial(self, promises: Promises) -> Possible:
        """Where every trace begins."""
        state = self.machine.initial()
        found = tuple(self._number(value) for value in state.__dict__.values())
        return self.closed({found: CandidateState(state, found, 0)}, promises)

    def closed(self, possible: Possible, promises: Promises) -> Possible:
        """With every state that what happens by itself leads to; the set is extended in place."""
        todo = list(possible.values())
        while todo:
            todo += self._reach(todo.pop(), self.by_itself, possible, promises)
            if len(possible) > self.cap:
                raise TooMany
        return possible

    def _reach(
        self,
        before: CandidateState,
        instances: Iterable[UnnamedAction],
        reached: Possible,
        promises: Promises,
    ) -> list[CandidateState]:
        """Add what these steps lead to; the states that are new."""
        new = []
        for bit, action, arguments, possible, node in instances:
            if possible(before.state, *arguments):
                made = self.take(before, action.name, arguments)
                if made.key in reached:
                    continue
                promise = None if node is None else promises[node]
                if promise is None or promise.kept(made.state):
                    made = reached[made.key] = made._replace(inferred=before.inferred | bit)
                    new.append(made)
        return new

    def disturbed(
        self, possible: Possible, instances: Collection[UnnamedAction], promises: Promises
    ) -> Possible:
        """The states that are new after one of these steps, and whatever then happens by itself."""
        reached: Possible = {}
        for before in possible.values():
            self._reach(before, instances, reached, promises)
        new = {k: carried for k, carried in reached.items() if k not in possible}
        return self.closed(new, promises)

    def take(
        self, before: CandidateState, action: str, arguments: tuple[Any, ...]
    ) -> CandidateState:
        """
        A step, by the spec's own Python; its guard must hold.

        Only what the action may change is copied: states share the rest, as nobody else writes it.
        """
        self.taken += 1
        after = object.__new__(type(before.state))
        after.__dict__.update(before.state.__dict__)
        changes = self.changes[action]
        for name, _ in changes:
            value = after.__dict__[name]
            if type(value) is dict:
                after.__dict__[name] = value.copy()
        getattr(after, action)(*arguments)
        found = list(before.key)
        for name, position in changes:
            found[position] = self._number(after.__dict__[name])
        return CandidateState(after, tuple(found), before.inferred)

    def _number(self, value: Any) -> int:
        """The number of a field's value."""
        plain = tuple(value.values()) if type(value) is dict else value
        return self._numbers.setdefault(plain, len(self._numbers))

    def after(self, possible: Possible, line: Line, promises: Promises) -> Possible:
        """
        The states that a line allows, coming from these; empty where none can be.

        `promises` are those that hold after it.
        """
        before, after = self.seen(line.before, line), self.seen(line.after, line)
        became = self.seen(line.became, line)
        found: Possible = {}
        for carried in possible.values():
            old = carried.state
            if not all(see(old) == value for see, value in before):
                continue
            if line.action is not None:
                if not self.guards[line.action](old, *line.arguments):
                    continue
                if not self._answers(old, line):
                    continue
                carried = self.take(carried, line.action, line.arguments)
            new = carried.state
            if all(see(new) == value for see, value in after) and all(
                see(new) in (value, see(old)) for see, value in became
            ):
                found[carried.key] = carried
        return self.closed(found, promises)

    def _answers(self, state: Spec, line: Line) -> bool:
        return all(
            getattr(state, helper)(*line.arguments) == said for helper, said in line.answers.items()
        )

    def promise(self, inbox: str, line: Line) -> Prophecy | None:
        """The promise that a line makes about its node's inbox, if it makes one."""
        if inbox not in line.before:
            return None
        see = _reader(self.machine, inbox, self.nodes[line.node])
        return Prophecy(see, see(self.machine.initial()), tuple(self.seen(line.before, line)))

    def seen(self, values: Mapping[str, Any], line: Line) -> list[tuple[See, Any]]:
        """For each value that a line tells: how to see it in a state, and what it must be."""
        node = self.nodes[line.node]
        return [(_reader(self.machine, name, node), value) for name, value in values.items()]


def _reader(machine: Machine, name: str, node: Any) -> See:
    """The function that sees a field (of a map: this node's entry) in a state."""
    start = getattr(machine.spec.state, name)
    if type(start).__name__ == "Each":
        return lambda state: state.__dict__[name][node]
    return lambda state: state.__dict__[name]
