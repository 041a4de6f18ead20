"""
A spec and real code, taken through the same steps, and compared after each.

Where the spec may be is a *set* of states. It begins as all initial states, and is closed under
the `silent` steps, which the code takes by itself: before each step and after it, after a refusal,
too, as they may come at any time (of an adapter that is `pumped`: only while one waits). What is
seen of the code filters the set; if nothing is left, code and spec differ.

- **Three cases.** A step that is offered to the code is possible in all of these states (then the
  code must take it), in none (then it must refuse), or in some (then its answer tells in which).
  The case is known before the answer is. A call that does not return is neither: it hangs.
- **Choices.** What the code chooses (`chosen`) must be allowed in one of the states. Where it
  refuses, and nobody knows whether some choice was possible, nothing can be said (*open*).
- **May is not must.** A silent step may come, or not. One that the spec calls fair must come, in
  time: to wait is to let the code do what it has to do by itself until, in some of the states, none
  is owed: none that was possible when the wait began, stayed so, and was not taken.
- **Patience.** What was sent may need a moment: for so long a look that fits no state is no
  difference yet. It hides what is wrong for a moment only; 0 for code that is pumped.
- **Disturbances** are no steps of the spec (a restart). Each brings about any number of steps of
  the actions that it names, with any arguments; none, if it names none.
- **Nothing is passed that was not seen.** The report says which fields, and which entries of maps,
  were never seen, what was open, and what the code left behind when it ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property, partial
from inspect import iscoroutine
from typing import Any

from herdproof.conformance.adapter import (
    Adapter,
    AdapterError,
    CannotLoad,
    check_adapter,
    check_load,
    method_of,
)
from herdproof.conformance.holding.closure import CARRIED, Carried, Closure, TooManyStates
from herdproof.conformance.holding.deeds import Case, Deed
from herdproof.conformance.holding.left import Things
from herdproof.conformance.holding.possible import Instance, Possible
from herdproof.conformance.holding.report import HeldReport
from herdproof.conformance.holding.seen import Look, Seen, replaced
from herdproof.conformance.holding.told import PROGRAM, program, story
from herdproof.conformance.holding.worker import TimedOut, Worker
from herdproof.errors import HerdError, Signalled
from herdproof.raised import line_of
from herdspec.check.running.run import Machine, Step, machine
from herdspec.language.specification import Action, Specification
from herdspec.language.surface import Spec, Undefined, sizes_of_sorts, twin

__all__ = [
    "CARRIED",
    "Carried",
    "Differs",
    "Hangs",
    "Held",
    "HeldReport",
    "Raises",
    "TooManyStates",
]  # fmt: skip

POLL = 0.001
"""Seconds between two looks at code that may need a moment."""
PUMPED = 1_000
"""The number of times that code which goes on changing is pumped in one wait."""


class Differs(AssertionError):
    """
    Spec and code differ; the message tells the story, and a program that does it again.

    `deeds` are what was done to the code, in order, the last one included; `why` is the sentence
    that says in what they differ.
    """

    def __init__(self, told: str, deeds: Sequence[Deed] = (), why: str = "") -> None:
        super().__init__(told)
        self.deeds = tuple(deeds)
        self.why = why or told.partition("\n")[0]

    def noted(self, *notes: str) -> Differs:
        """This difference, with these sentences after the story."""
        story, program_, pasted = str(self).partition(f"\n\n{PROGRAM}")
        found = type(self)("\n".join([story, *notes]) + program_ + pasted, self.deeds, self.why)
        found.__cause__ = self.__cause__
        return found


class LoadedOtherwise(Exception):
    """A state that `load` made otherwise than it was to be: in these `fields`, as is seen."""

    def __init__(self, fields: Sequence[str], lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.fields = tuple(fields)


class Hangs(Differs):
    """A call of the adapter did not return in time."""


class Raises(Differs):
    """A call of the adapter raised what is no refusal; `__cause__` is that."""


class Held:
    """
    Code held to its spec at given sizes; a context manager, within which the code lives.

    It can be entered again, for code that is made anew. Raises `AdapterError` for an adapter that
    does not fit, `Differs` where code and spec differ, `Hangs` for a call that does not return,
    `Raises` for one that raises what is no refusal, `TooManyStates` where nothing can be said.
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
        """Where the spec may be, as the code was last seen."""
        self.report = HeldReport()
        self.code: Adapter | None = None
        self._seen = Seen(self.machine, adapter)
        self._closure = Closure(self.possible, adapter.__name__, self._take)
        self._silent = [] if adapter.pumped else self._waited
        self._followed = {
            name: [*self._silent, *self.possible.instances(some)]
            for name, some in adapter.follows.items()
        }
        self._brought = {
            name: [*self._silent, *self.possible.instances(some)]
            for name, some in adapter.disturbed.items()
        }
        self._before: tuple[Sequence[Carried], list[Carried]] = ([], [])
        self._worker: Worker | None = None
        self._calling = ""
        self._things: Things | None = None

    @cached_property
    def _waited(self) -> list[Instance]:
        """
        The steps that the code takes by itself: found when it is first waited for.

        Code that is pumped and never waited for may have too many to list.
        """
        return self.possible.instances(self.adapter.silent)

    @cached_property
    def _starts(self) -> list[Spec]:
        """The initial states: there may be many, and each run begins with all of them."""
        return [*self.machine.starts()]

    # ── The code's life ─────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Held:
        self.begin()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with suppress(AdapterError) if kind else nullcontext():  # the first error is the verdict
            self.end()

    def begin(self) -> None:
        """Begin the code, and see in which initial states the spec may be; end it if it cannot."""
        try:
            self._begin()
        except BaseException:
            with suppress(AdapterError):  # what it could not begin, it may not be able to end
                self.end()
            raise

    def _begin(self) -> None:
        self.deeds, self.states, self.code = [], [], None
        self._things = None if self.adapter.outlives else Things()
        self._worker = Worker(self.adapter.timeout)
        self.code = self._call("__init__", self.adapter)
        self._call("begin", partial(self.code.begin, **self.machine.sizes))
        starts = [Carried(state) for state in self._starts]
        self._compare(self._closed(starts, self._silent))
        self.report.runs += 1

    @property
    def saw_nothing(self) -> bool:
        """Tells whether nothing was ever seen of the code, so that nothing was compared."""
        return not self._seen.fields

    def end(self) -> None:
        """
        End the code, and see what it left behind.

        A call that hangs is left behind in a thread of its own. Raises `AdapterError` if `end`
        itself does not return, or raises.
        """
        worker, self._worker = self._worker, None
        things, self._things = self._things, None
        if worker is None:
            return
        name = f"{self.adapter.__name__}.end"
        try:
            if worker.hangs:
                worker = Worker(self.adapter.timeout)  # to end it may release what hangs
            if self.code is not None:
                worker.call(self._sized, self.code.end, ())
        except TimedOut:
            raise AdapterError(
                f"{name} did not return within {self.adapter.timeout:g} s: it must close what"
                f" `begin` opened, whatever state the code is in"
            ) from None
        except Signalled:
            raise
        except (Exception, SystemExit) as error:
            raise AdapterError(
                f"{name} raised {_said(error)}: it must close what `begin` opened, whatever state"
                f" the code is in"
            ) from error
        finally:
            worker.close()
            if things is not None:
                for left in things.left():
                    self.report.left[left] = self.report.left.get(left, 0) + 1

    def run(self, body: Callable[[], None]) -> None:
        """Do something within the thread in which the code is called: calls then cost less."""
        assert self._worker is not None, "the code lives within `with`"
        try:
            self._worker.run(body)
        except TimedOut:
            raise self._hangs() from None

    # ── What is done to the code ────────────────────────────────────────────────────────────

    def offer(self, name: str, *arguments: Any) -> bool:
        """
        Have the code take a step, with the arguments that its method gets; whether it did.

        It must where the spec allows it, and must refuse where not. Raises `Differs`.
        """
        assert self.code is not None, "the code lives within `with`"
        action, case = self.possible.actions[name], self.case(name, *arguments)
        self.deeds.append(Deed("offer", name, arguments, None, case))
        try:
            method = getattr(self.code, method_of(name))
            # Copies: the code may keep what it gets, and change it.
            chosen = self._call(method_of(name), method, *map(twin, arguments), refusable=True)
        except self.adapter.refusals as refusal:
            self.deeds[-1] = Deed("offer", name, arguments, False, case)
            self._refused(action, arguments, case, refusal)
            return False
        self.deeds[-1] = Deed("offer", name, arguments, True, case)
        self._taken(action, self._whole(action, arguments, chosen), case)
        return True

    def wait(self) -> None:
        """
        Let the code do what it has to do by itself; then nothing that the spec calls fair is owed.

        Raises `Differs` if, however the spec may have come here, some silent fair step is.
        """
        self.deeds.append(Deed("wait"))
        owing = self._closure.owing(self.states, self._waited, len(self.deeds))
        self._compare([c for c, _ in owing], owing=[c for c, owes in owing if owes])
        self.report.waits += 1

    def disturb(self, name: str) -> None:
        """
        Do what is no step of the spec; it may bring about what `disturbed` names of it.

        If the method refuses, nothing was done.
        """
        assert self.code is not None, "the code lives within `with`"
        self.deeds.append(Deed("disturb", name))
        try:
            self._call(name, getattr(self.code, name), refusable=True)
        except self.adapter.refusals:
            self.deeds[-1] = Deed("disturb", name, (), False)
            self._compare(self._closed(self._now(), self._silent))
            return
        self._compare(self._closed(self.states, self._brought[name]))
        self.report.disturbed[name] = self.report.disturbed.get(name, 0) + 1

    def start(self, look: Look) -> None:
        """Have fresh code begin in the initial state that looks so; see `put` for the look."""
        assert self.code is not None, "the code lives within `with`"
        state = replaced(self.machine.initial(), look)
        self.deeds = [Deed("start", "", (dict(look),))]
        self._call("start", getattr(self.code, "start"), state.copy())  # noqa: B009 - optional
        self.states = [Carried(state)]
        self._compare(self._closed(self.states, self._silent))

    def put(self, look: Look) -> None:
        """
        Put the code into a state by the adapter's `load`, whatever it did before.

        `look` says what the state is like, as `observe` does; what it leaves out is as it is
        initially. The state need not be one that the spec reaches. Raises `CannotLoad`, if the
        adapter does, and `LoadedOtherwise` if the code is seen to be elsewhere then.
        """
        assert self.code is not None, "the code lives within `with`"
        state = replaced(self.machine.initial(), look)
        check_load(self.adapter)
        self.deeds = [Deed("put", "", (dict(look),))]
        try:
            self._call("load", getattr(self.code, "load"), state.copy(), refusable=True)  # noqa: B009
        except self.adapter.refusals as error:
            raise CannotLoad(f"a step on the way there is refused: {error}") from error
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
            for carried in self._now():
                found.add(self._allows(carried, action, arguments))
        if None in found:
            return Case.OPEN
        return Case.SOME if len(found) > 1 else Case.ALL if True in found else Case.NONE

    # ── What the code made of it ────────────────────────────────────────────────────────────

    def _now(self) -> list[Carried]:
        """Where the spec may be by now: silent steps may have come since the code was seen."""
        if not self._silent:
            return self.states
        states, closed = self._before
        if states is not self.states:
            closed = self._closed(self.states, self._silent, next_=1)
            self._before = self.states, closed
        return closed

    def _whole(self, action: Action, arguments: tuple[Any, ...], chosen: Any) -> tuple[Any, ...]:
        """All arguments of a step that was taken; what the method returned, checked."""
        of = self.adapter.chosen.get(action.name, ())
        name, method = self.adapter.__name__, method_of(action.name)
        if iscoroutine(chosen):
            chosen.close()
            raise AdapterError(
                f"{name}.{method} is `async`, and nobody awaits it: write `def {method}`, which"
                f" runs the coroutine in the code's own event loop until it is done"
            )
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
        whole = tuple(map(twin, self.possible.whole(action, arguments, chosen)))
        parameter = self.possible.unknown(action, whole) if of else None
        if parameter is not None:
            raise AdapterError(
                f"{name}.{method} returned {chosen!r}, and its {parameter} is no value that"
                f" {self.spec.name} knows at these sizes: return one of the parameter's type"
            )
        return whole

    def _taken(self, action: Action, whole: tuple[Any, ...], case: Case) -> None:
        """The code took a step."""
        states = self._now()
        if case is Case.NONE:
            raise self._differs(
                "The code did it, though the spec does not allow it:",
                *self._why_not(self.states[0], action, whole),
            )
        after = list(self._after(states, action, whole))
        if not after:
            label = Step(action, whole, self.states[0].state).label
            raise self._differs(f"The code chose what the spec does not allow: {label}.")
        self.report.taken[action.name] = self.report.taken.get(action.name, 0) + 1
        self._compare(self._closed(after, self._followed.get(action.name, self._silent)))

    def _refused(
        self, action: Action, arguments: tuple[Any, ...], case: Case, refusal: BaseException
    ) -> None:
        """The code refused a step: then it is where it was, but for what it does by itself."""
        reluctant = action.name in self.adapter.reluctant
        if case is Case.ALL and not reluctant:
            why = f": {refusal}" if str(refusal) else ""
            raise self._differs(f"The code refused it{why}; the spec allows it.")
        is_open = case is Case.OPEN or (reluctant and case is not Case.NONE)
        counts = self.report.open if is_open else self.report.refused
        counts[action.name] = counts.get(action.name, 0) + 1
        left = self._now()
        if case is not Case.NONE and not reluctant:
            with sizes_of_sorts(self.machine.sizes):
                left = [c for c in left if self._allows(c, action, arguments) is not True]
        if not left:
            raise self._differs("The code refused it; the spec allows it.")
        self._compare(self._closed(left, self._silent))

    def _after(
        self, states: Iterable[Carried], action: Action, whole: tuple[Any, ...]
    ) -> Iterable[Carried]:
        for before in states:
            after = self._take(before.state, action, whole)
            if after is not None:
                step = Step(action, whole, after)
                yield Carried(after, step, False, before, len(self.deeds))

    def _allows(self, at: Carried, action: Action, arguments: tuple[Any, ...]) -> bool | None:
        try:
            return self.possible.allows(at.state, action, arguments)
        except Undefined as error:
            raise self.meaningless(error, at) from error

    def _take(self, state: Spec, action: Action, whole: tuple[Any, ...]) -> Spec | None:
        try:
            return self.machine.take(state, action.name, whole)
        except Undefined as error:
            raise self.meaningless(error) from error

    def meaningless(self, error: Undefined, at: Carried | None = None) -> Differs:
        """Where the spec's own Python has no meaning: nothing can be held to that."""
        return self._differs(
            f"The spec's own step has no meaning here: {error}; `herdproof explore` tells more.",
            at=at,
        )

    def _closed(
        self, states: Sequence[Carried], instances: Sequence[Instance], next_: int = 0
    ) -> list[Carried]:
        return self._closure.closed(states, instances, len(self.deeds) + next_)

    # ── What is seen of it ──────────────────────────────────────────────────────────────────

    def _compare(self, states: list[Carried], *, owing: list[Carried] | None = None) -> None:
        """
        Keep those of these states that the code is seen in; `Differs` if there is none.

        It may take the adapter's `patience` to get there. With `owing`, the code is pumped for as
        long as that changes what is seen, and must be seen in a state that is not one of these.
        """
        assert self.code is not None, "the code lives within `with`"
        until: float | None = None
        pumped, last = 0, None
        while True:
            if owing is not None:
                self._call("pump", self.code.pump)
                pumped += 1
            look = self._call("observe", self.code.observe)
            self._seen.note(look)
            found = [c for c in states if self._seen.agrees(c.state, look)]
            if found and not (owing and all(any(c is o for o in owing) for c in found)):
                break
            now = time.monotonic()
            until = now + self.adapter.patience if until is None else until
            goes_on = owing is not None and look != last and pumped < PUMPED
            if now >= until and not goes_on:
                self._seen.check(look)
                raise self._elsewhere(states, found, look)
            last = {name: twin(seen) for name, seen in look.items()}  # the code may change it
            if not goes_on:
                time.sleep(POLL)
        self._seen.trust(look)
        self.states, self.report.unseen = found, self._seen.unseen
        self.report.largest = max(self.report.largest, len(found))

    def _elsewhere(self, states: list[Carried], found: list[Carried], look: Look) -> Differs:
        """Why no state is left: what the code owes, or where it is otherwise."""
        if found:
            due = self._due(found[0].state)
            told = f"The code does not do what is due: {due.sentence}  [{due.label}]"
            return self._differs(told, at=found[0])
        nearest = min(states, key=lambda c: len(self._seen.unlike(c.state, look)))
        lines = [f"       {line}" for line in self._seen.unlike(nearest.state, look)]
        return self._differs("There the code is elsewhere:", *lines, at=nearest)

    def _due(self, state: Spec) -> Step:
        """A fair step that the code owes in this state."""
        with sizes_of_sorts(self.machine.sizes):
            for action, arguments in self._waited:
                if self.possible.must(action) and self.possible.takes(state, action, arguments):
                    return Step(action, arguments, state)
        raise AssertionError("nothing is owed in this state")

    def _why_not(self, at: Carried, action: Action, whole: tuple[Any, ...]) -> list[str]:
        from herdspec.check.running.refusal import refusal

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
        why = " ".join(line.strip() for line in ends[:2])
        return kind("\n".join(lines), self.deeds, why)

    # ── Calls ───────────────────────────────────────────────────────────────────────────────

    def _call(self, name: str, function: Any, *arguments: Any, refusable: bool = False) -> Any:
        """Call the adapter; a call that hangs, or raises what is no refusal, is named."""
        assert self._worker is not None, "the code lives within `with`"
        self._calling = name
        try:
            return self._worker.call(self._sized, function, arguments)
        except TimedOut:
            raise self._hangs() from None
        except (HerdError, CannotLoad, Signalled):
            raise
        except (Exception, SystemExit) as error:  # a process must not end as if all were well
            if refusable and isinstance(error, self.adapter.refusals):
                raise
            raise self._raises(name, error) from error

    call = _call  # whoever walks on the code with steps of their own

    def _sized(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        with sizes_of_sorts(self.machine.sizes):  # the adapter's own `for c in Client`
            return function(*arguments)

    def _hangs(self) -> Exception:
        told = f"`{self._calling}` did not return within {self.adapter.timeout:g} s."
        if not self.states:
            return AdapterError(
                f"{self.adapter.__name__}: {told} It must make the code, and come back."
            )
        return self._differs(told, kind=Hangs)

    def _raises(self, name: str, error: BaseException) -> Exception:
        told = f"`{name}` raised {_said(error)}"
        if not self.states:
            return AdapterError(f"{self.adapter.__name__}: {told}, before the first step")
        if name in ("snapshot", "restore"):
            return self.unkept(name, error)
        instead = {
            "observe": "it must return what can be seen, after every step",
            "pump": "it must let the code come to rest, after every step",
        }.get(name, f"what brought nothing about raises one of {self.adapter.__name__}.refusals")
        return self._differs(f"{told}: {instead}.", kind=Raises)

    def unkept(self, name: str, error: BaseException) -> AdapterError:
        """The error from an adapter's `snapshot` or `restore`: it says nothing of the code."""
        return AdapterError(
            f"{self.adapter.__name__}.{name} raised {_said(error)}: what the code is like must be"
            f" kept, and brought back, after every step"
        )


def _said(error: BaseException) -> str:
    text = str(error)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return said + line_of(error)
