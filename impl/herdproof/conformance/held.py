"""
A spec and real code, taken through the same steps, and compared after each.

Where the spec may be is a *set* of states: it begins as all initial states, is closed under the
steps that the code takes by itself, and whatever is seen of the code filters it. If nothing is
left, code and spec differ. A step that is offered to the code is possible in all of these states
(then the code must take it), in none (it must refuse), or in some (its answer tells in which).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from herdproof.conformance.adapter import Adapter, AdapterError, check_adapter, method_of
from herdproof.conformance.possible import Instance, Possible
from herdproof.conformance.seen import Look, Seen, replaced
from herdproof.conformance.told import program, story
from herdproof.conformance.worker import TimedOut, Worker
from herdproof.errors import HerdError
from herdspec.check.run import Machine, Step, machine
from herdspec.language.specification import Action, Specification
from herdspec.language.surface import Spec, Undefined, sizes_of_sorts

CARRIED = 4_096
"""How many states the spec may be in at once; beyond that nothing can be said."""
POLL = 0.001
"""Seconds between two looks at code that may need a moment."""


class TooManyStates(HerdError):
    """The spec may be in more states than are carried: nothing can be said."""


class Differs(AssertionError):
    """
    Spec and code differ; the message tells the story, and a program that does it again.

    `deeds` are what was done to the code, in order, the last one included.
    """

    def __init__(self, told: str, deeds: Sequence[Deed] = ()) -> None:
        super().__init__(told)
        self.deeds = tuple(deeds)


class LoadedOtherwise(Exception):
    """What `load` made of a state is not that state: these `fields` are seen to be otherwise."""

    def __init__(self, fields: Sequence[str], lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.fields = tuple(fields)


class Hangs(Differs):
    """A call of the adapter did not return in time."""


class Case(Enum):
    """In which of the states where the spec may be a step is possible."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    OPEN = "open"
    """Nobody knows: the code chooses among more than can be tried."""


class Carried(NamedTuple):
    """A state in which the spec may be, and how it came there."""

    state: Spec
    step: Step | None = None
    """The step that led there; None of an initial state."""
    by_itself: bool = False
    """Whether the code took it without being asked."""
    before: Carried | None = None

    def path(self) -> list[Carried]:
        """From the initial state to this one."""
        found: list[Carried] = []
        at: Carried | None = self
        while at is not None:
            found.append(at)
            at = at.before
        return found[::-1]


@dataclass(frozen=True)
class Deed:
    """
    What was done to the code, so that it can be done again.

    `kind` is the method of `Held`: `offer`, `wait`, `disturb` or `put`. Of an offer, `taken` says
    what the code made of it.
    """

    kind: str
    name: str = ""
    arguments: tuple[Any, ...] = ()
    taken: bool | None = None


@dataclass
class Report:
    """What a run showed, and what it could not."""

    taken: dict[str, int] = field(default_factory=dict)
    """By action, how often the code took it when it was offered."""
    refused: dict[str, int] = field(default_factory=dict)
    """By action, how often the code refused it, as it must."""
    open: dict[str, int] = field(default_factory=dict)
    """By action, how often it was refused where nobody knows if some choice was possible."""
    largest: int = 1
    """The most states that the spec may have been in at once."""
    unseen: tuple[str, ...] = ()
    """Fields of which nothing was ever seen."""

    @property
    def steps(self) -> int:
        """How many offered steps the code took."""
        return sum(self.taken.values())


class Held:
    """
    Code held to its spec at given sizes; a context manager, within which the code lives.

    Raises `AdapterError` for an adapter that does not fit, `Differs` where code and spec differ,
    `Hangs` for a call that does not return, `TooManyStates` where nothing can be said.
    """

    def __init__(
        self, spec: type[Spec] | Specification | Machine, adapter: type[Adapter], **sizes: int
    ) -> None:
        self.machine = spec if isinstance(spec, Machine) else machine(spec, **sizes)
        self.spec = self.machine.spec
        check_adapter(self.spec, adapter)
        self.adapter = adapter
        self.possible = Possible(self.machine, adapter)
        self.deeds: list[Deed] = []
        self.states: list[Carried] = []
        self.report = Report()
        self._seen = Seen(self.machine, adapter)
        self._silent = self.possible.instances(adapter.silent)
        self._brought = {
            name: [*self._silent, *self.possible.instances(some)]
            for name, some in adapter.disturbed.items()
        }
        self._worker: Worker | None = None

    # ── The code's life ─────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Held:
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Begin the code, and see in which initial states the spec may be."""
        self._worker = Worker(self.adapter.timeout)
        self.code: Adapter | None = None
        self.code = self._call("__init__", self.adapter)
        self._call("begin", self.code.begin, **self.machine.sizes)
        self.states = [Carried(state) for state in self.machine.starts()]
        self._compare(self._closed(self.states, self._silent))

    def end(self) -> None:
        """End the code. What hangs is left behind in a thread of its own, and said."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            if self.code is not None:
                worker.call(self.code.end)
        except TimedOut:
            pass  # the call that hangs was told; or `end` itself, after the run's verdict
        finally:
            worker.close()

    # ── What is done to the code ────────────────────────────────────────────────────────────

    def offer(self, name: str, *arguments: Any) -> bool:
        """
        Have the code take a step, with the arguments that its method gets; whether it did.

        It must where the spec allows it, and must refuse where not. Raises `Differs`.
        """
        assert self.code is not None, "the code lives within `with`"
        action, case = self.possible.actions[name], self.case(name, *arguments)
        self.deeds.append(Deed("offer", name, arguments))
        try:
            chosen = self._call(name, getattr(self.code, method_of(name)), *arguments)
        except self.adapter.refusals as refusal:
            self._answered(taken=False)
            self._refused(action, arguments, case, refusal)
            return False
        self._answered(taken=True)
        self._taken(action, self._whole(action, arguments, chosen), case)
        return True

    def wait(self) -> None:
        """
        Wait until the code is at rest; then nothing that the spec calls fair may be left to do.

        Raises `Differs` if, however the spec may have come here, some silent fair step is due.
        """
        assert self.code is not None, "the code lives within `with`"
        self.deeds.append(Deed("wait"))
        self._call("pump", self.code.pump)
        self._compare(self._closed(self.states, self._silent), due=True)

    def disturb(self, name: str) -> None:
        """Do what is no step of the spec; it may bring about what `disturbed` names of it."""
        assert self.code is not None, "the code lives within `with`"
        self.deeds.append(Deed("disturb", name))
        self._call(name, getattr(self.code, name))
        self._compare(self._closed(self.states, self._brought[name]))

    def put(self, look: Look) -> None:
        """
        Put the code into a state by the adapter's `load`, whatever it did before.

        `look` says what the state is like, as `observe` does; what it leaves out is as it is
        initially. The state need not be one that the spec reaches. Raises `CannotLoad`, if the
        adapter does, and `LoadedOtherwise` if the code is seen to be elsewhere then.
        """
        assert self.code is not None, "the code lives within `with`"
        state = replaced(self.machine.initial(), look)
        load = getattr(self.code, "load", None)
        if load is None:
            raise AdapterError(
                f"{self.adapter.__name__} cannot be put into a state: write"
                f" `def load(self, state)`, which raises CannotLoad where the code cannot be"
            )
        self.deeds = [Deed("put", "", (dict(look),))]
        self._call("load", load, state)
        self.states = [Carried(state)]
        try:
            self._compare(self._closed(self.states, self._silent))
        except Differs:
            theirs = self._call("observe", self.code.observe)
            fields = self._seen.fields_unlike(state, theirs)
            raise LoadedOtherwise(fields, self._seen.unlike(state, theirs)) from None

    def case(self, name: str, *arguments: Any) -> Case:
        """In which of the states where the spec may be a step is possible."""
        action, found = self.possible.actions[name], set()
        with sizes_of_sorts(self.machine.sizes):
            for carried in self.states:
                found.add(self.possible.allows(carried.state, action, arguments))
        if None in found:
            return Case.OPEN
        return Case.SOME if len(found) > 1 else Case.ALL if True in found else Case.NONE

    # ── What the code made of it ────────────────────────────────────────────────────────────

    def _answered(self, *, taken: bool) -> None:
        last = self.deeds[-1]
        self.deeds[-1] = Deed(last.kind, last.name, last.arguments, taken)

    def _whole(self, action: Action, arguments: tuple[Any, ...], chosen: Any) -> tuple[Any, ...]:
        """All arguments of a step that was taken; what the method returned, checked."""
        of = self.adapter.chosen.get(action.name, ())
        name, method = self.adapter.__name__, method_of(action.name)
        if not of and chosen is not None:
            raise AdapterError(
                f"{name}.{method} returned {chosen!r}: a method that brought nothing about raises"
                f" Refused, and one that took the step returns nothing (or name in `chosen` the"
                f" parameters that the code chooses)"
            )
        if len(of) > 1 and not (isinstance(chosen, tuple) and len(chosen) == len(of)):
            raise AdapterError(
                f"{name}.{method} returned {chosen!r}: return what the code chose as a tuple, in"
                f" the order of the parameters: {', '.join(of)}"
            )
        return self.possible.whole(action, arguments, chosen)

    def _taken(self, action: Action, whole: tuple[Any, ...], case: Case) -> None:
        """The code took a step."""
        if case is Case.NONE:
            raise self._differs(
                "The code did it, though the spec does not allow it:",
                *self._why_not(self.states[0], action, whole),
            )
        after = list(self._after(self.states, action, whole))
        if not after:
            label = Step(action, whole, self.states[0].state).label
            raise self._differs(f"The code chose what the spec does not allow: {label}.")
        self.report.taken[action.name] = self.report.taken.get(action.name, 0) + 1
        self._compare(self._closed(after, self._silent))

    def _refused(
        self, action: Action, arguments: tuple[Any, ...], case: Case, refusal: BaseException
    ) -> None:
        """The code refused a step: then it is where it was, but for what it does by itself."""
        if case is Case.ALL:
            why = f": {refusal}" if str(refusal) else ""
            raise self._differs(f"The code refused it{why}; the spec allows it.")
        counts = self.report.open if case is Case.OPEN else self.report.refused
        counts[action.name] = counts.get(action.name, 0) + 1
        left = self.states
        if case is Case.SOME:
            with sizes_of_sorts(self.machine.sizes):
                left = [
                    c for c in left if self.possible.allows(c.state, action, arguments) is not True
                ]
        self._compare(self._closed(left, self._silent))

    def _after(
        self, states: Iterable[Carried], action: Action, whole: tuple[Any, ...]
    ) -> Iterable[Carried]:
        for before in states:
            after = self._take(before.state, action, whole)
            if after is not None:
                yield Carried(after, Step(action, whole, after), False, before)

    def _take(self, state: Spec, action: Action, whole: tuple[Any, ...]) -> Spec | None:
        try:
            return self.machine.take(state, action.name, whole)
        except Undefined as error:
            raise self._differs(f"The spec's step has no meaning here: {error}.") from error

    def _closed(self, states: list[Carried], instances: Sequence[Instance]) -> list[Carried]:
        """With every state that steps which the code takes by itself lead to."""
        if not instances:
            return states
        known = {self.machine.numbers(c.state): c for c in states}
        todo = list(known.values())
        with sizes_of_sorts(self.machine.sizes):
            while todo:
                before = todo.pop()
                for action, arguments in instances:
                    if not self.possible.takes(before.state, action, arguments):
                        continue
                    after = self._take(before.state, action, arguments)
                    if after is None:
                        continue
                    key = self.machine.numbers(after)
                    if key not in known:
                        known[key] = Carried(after, Step(action, arguments, after), True, before)
                        todo.append(known[key])
                if len(known) > CARRIED:
                    raise TooManyStates(
                        f"{self.spec.name} may be in more than {CARRIED:,} states:"
                        f" {self.adapter.__name__} must observe more, or name less in `silent`"
                    )
        return list(known.values())

    # ── What is seen of it ──────────────────────────────────────────────────────────────────

    def _compare(self, states: list[Carried], *, due: bool = False) -> None:
        """
        Keep those of these states that the code is seen in; `Differs` if there is none.

        It may take the adapter's `patience` to get there. With `due`, nothing fair may be left to
        do in one of them.
        """
        assert self.code is not None, "the code lives within `with`"
        until: float | None = None
        while True:
            look = self._call("observe", self.code.observe)
            self._seen.note(look)
            found = [c for c in states if self._seen.agrees(c.state, look)]
            if found and not (due and self._all_due(found)):
                break
            now = time.monotonic()
            until = now + self.adapter.patience if until is None else until
            if now >= until:
                self._seen.check(look)
                raise self._elsewhere(states, found, look)
            time.sleep(POLL)
        self.states = found
        self.report.largest = max(self.report.largest, len(found))
        self.report.unseen = tuple(self._seen.unseen)

    def _all_due(self, states: list[Carried]) -> bool:
        return all(self._due(carried.state) is not None for carried in states)

    def _due(self, state: Spec) -> Instance | None:
        """A fair step that the code owes in this state, if any."""
        with sizes_of_sorts(self.machine.sizes):
            for action, arguments in self._silent:
                if action.fair is not None and self.possible.takes(state, action, arguments):
                    return action, arguments
        return None

    def _elsewhere(self, states: list[Carried], found: list[Carried], look: Look) -> Differs:
        """Why no state is left: what the code owes, or where it is otherwise."""
        if found:
            due = self._due(found[0].state)
            assert due is not None, "in every state something is due"
            step = Step(*due, found[0].state)
            told = f"The code does not do what is due: {step.sentence}  [{step.label}]"
            return self._differs(told, at=found[0])
        nearest = min(states, key=lambda c: len(self._seen.unlike(c.state, look)))
        lines = [f"       {line}" for line in self._seen.unlike(nearest.state, look)]
        return self._differs("There the code is elsewhere:", *lines, at=nearest)

    def _why_not(self, at: Carried, action: Action, whole: tuple[Any, ...]) -> list[str]:
        from herdspec.check.refusal import refusal

        if self.adapter.chosen.get(action.name):
            return [f"       {Step(action, whole, at.state).label}"]
        return [f"       {x}" for x in refusal(self.machine, at.state, action, whole).lines]

    def _differs(
        self, *ends: str, at: Carried | None = None, kind: type[Differs] = Differs
    ) -> Differs:
        """The difference, told after the path to a state in which the spec may be."""
        path = (at or self.states[0]).path() if self.states or at else []
        lines = story(self.spec, self.adapter, path, self.deeds, ends)
        lines += ["", *program(self.spec, self.adapter, self.machine.sizes, self.deeds)]
        return kind("\n".join(lines), self.deeds)

    def _call(self, name: str, function: Any, *arguments: Any, **named: Any) -> Any:
        """Call the adapter; a call that hangs is named."""
        assert self._worker is not None, "the code lives within `with`"
        try:
            return self._worker.call(function, *arguments, **named)
        except TimedOut:
            told = f"`{name}` did not return within {self.adapter.timeout:g} s."
            raise self._differs(told, kind=Hangs) from None
