"""
Where a spec may be: a set of states, each with its past, closed under steps of the code's own.

A *silent* step is one that the code takes by itself. A set of states is *closed* under such steps
if it has every state that they lead to. A fair one is *owed* where it is possible and stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from herdproof.conformance.holding.possible import Instance, Possible
from herdproof.errors import CallerError
from herdspec.check.running.run import Step
from herdspec.language.specification import Action
from herdspec.language.surface import Spec, sizes_of_sorts

CARRIED = 4_096
"""The number of states that the spec may be in at once; beyond it, nothing can be said."""

Take = Callable[[Spec, Action, tuple[object, ...]], Spec | None]
Key = tuple[int, ...]
"""A state as numbers."""


class TooManyStates(CallerError):
    """The spec may be in more states than are carried: nothing can be said."""


class Carried(NamedTuple):
    """A state in which the spec may be, and how it came there."""

    state: Spec
    step: Step | None = None
    """The step that led there; None of an initial state."""
    by_itself: bool = False
    """True if the code took it without being asked."""
    before: Carried | None = None
    deed: int = 0
    """The number of deeds done by then, the one that brought it about included."""

    def path(self) -> list[Carried]:
        """From the initial state to this one."""
        found: list[Carried] = []
        at: Carried | None = self
        while at is not None:
            found.append(at)
            at = at.before
        return found[::-1]


@dataclass
class _Known:
    """A state of a closed set: where silent steps lead from there, and which are owed."""

    carried: Carried
    after: list[tuple[Instance, Key]] = field(default_factory=list)
    possible: frozenset[object] = frozenset()
    owed: frozenset[object] | None = None


class Closure:
    """Closes sets of states under silent steps; `take` takes a step of the spec."""

    def __init__(self, possible: Possible, adapter: str, take: Take) -> None:
        self.possible = possible
        self.machine = possible.machine
        self._adapter = adapter
        self._take = take

    def closed(
        self, states: Sequence[Carried], instances: Sequence[Instance], deed: int
    ) -> list[Carried]:
        """With every state that steps which the code takes by itself lead to."""
        if not instances:
            return list(states)
        return [k.carried for k in self._known(states, instances, deed).values()]

    def owing(
        self, states: Sequence[Carried], instances: Sequence[Instance], deed: int
    ) -> list[tuple[Carried, bool]]:
        """
        The closed set, and whether in each state a fair step is owed: it was possible all the way.

        Where a state can be come to in two ways, it owes what it owes in both.
        """
        known = self._known(states, instances, deed)
        for one in known.values():
            one.possible = frozenset(owed_to(i) for i, _ in one.after if self.possible.must(i[0]))
        todo = list(dict.fromkeys(self.machine.numbers(c.state) for c in states))
        for key in todo:
            known[key].owed = known[key].possible
        while todo:
            one = known[todo.pop()]
            assert one.owed is not None, "a way to it was found"
            for instance, key in one.after:
                after = known[key]
                left = (one.owed - {owed_to(instance)}) & after.possible
                if after.owed is None or not after.owed <= left:
                    after.owed = left if after.owed is None else after.owed & left
                    todo.append(key)
        return [(one.carried, bool(one.owed)) for one in known.values()]

    def _known(
        self, states: Iterable[Carried], instances: Sequence[Instance], deed: int
    ) -> dict[Key, _Known]:
        known = {self.machine.numbers(c.state): _Known(c) for c in states}
        todo = list(known.values())
        with sizes_of_sorts(self.machine.sizes):
            while todo:
                one = todo.pop()
                before = one.carried
                for action, arguments in instances:
                    if not self.possible.takes(before.state, action, arguments):
                        continue
                    after = self._take(before.state, action, arguments)
                    if after is None:
                        continue
                    key = self.machine.numbers(after)
                    one.after.append(((action, arguments), key))
                    if key not in known:
                        step = Step(action, arguments, after)
                        known[key] = _Known(Carried(after, step, True, before, deed))
                        todo.append(known[key])
                if len(known) > CARRIED:
                    raise TooManyStates(
                        f"{self.machine.spec.name} may be in more than {CARRIED:,} states:"
                        f" {self._adapter} must observe more, or name less in `silent`"
                    )
        return known


def owed_to(instance: Instance) -> object:
    """To whom a step's fairness is owed: to itself, or to its action with any arguments."""
    action, arguments = instance
    whole = action.fair is not None and action.fair.is_of_any
    return action.name, hashable(arguments[: action.indices] if whole else arguments)


def hashable(value: Any) -> Any:
    """A plain value, so that it can be looked up."""
    match value:
        case dict():
            return frozenset((hashable(k), hashable(v)) for k, v in value.items())
        case set():
            return frozenset(map(hashable, value))
        case list() | tuple():
            return tuple(map(hashable, value))
    return value
