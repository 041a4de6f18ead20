"""One group's replay: a spec is led along lines, as the rows of a map say what they are."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from herdproof.conformance.traces.binding import Binding, Bindings
from herdproof.conformance.traces.mapping import DecodedLine
from herdspec.check.conformance.conform import Outcome, Progress, Verdict
from herdspec.check.conformance.follow import (
    Follower,
    Promises,
    StepConstraint,
    Steps,
    TooManyStates,
    Way,
)
from herdspec.check.conformance.mismatch import Mismatch, Miss
from herdspec.check.running.run import written

Watch = Callable[[Any, str, tuple[Any, ...], Any], None]
"""Told of each step of the spec that was taken: before, action, arguments, after."""


class Following:
    """Leads a spec along lines."""

    def __init__(
        self, bindings: Bindings, steps: Steps, lines: Sequence[Any], promises: Promises | None,
        cap: int, watch: Watch | None,
    ) -> None:  # fmt: skip
        self._bindings = bindings
        self._steps = steps
        self._lines = lines
        self._promises = promises
        self._cap = cap
        self._watch = watch
        self._begins = _beginnings(lines)
        self._led: dict[int, StepConstraint] = {}
        """Of the steps that are under way, by the places of their lines."""
        self._taken: Counter[str] = Counter()
        """The number of lines that were steps, by action."""
        self.follower: Follower

    def run(self, put_off: frozenset[str], progress: Progress | None) -> Outcome:
        """Go along all lines, or up to the first that differs."""
        self._bindings.begin(self._steps.machine)
        follower = self.follower = Follower(
            self._steps, self._starts(), cap=self._cap, put_off=put_off, promises=self._promises,
            watch=self._watch,
        )  # fmt: skip
        matched, mismatch, reason = 0, None, ""
        for k, line in enumerate(self._lines):
            try:
                mismatch = self._line(k, line)
            except TooManyStates:
                reason = f"more than {self._cap} states are possible at {line.place}"
            if mismatch or reason:
                break
            matched = k + 1
            if progress:
                progress(matched, len(follower.carried))
        is_step = self._taken or any(b.is_step for b in self._bindings.rows)
        if not is_step and not reason and mismatch is None:
            reason = "no step was traced"
        if not reason and mismatch is None and follower.doubts:
            reason = f"what the spec promises may be broken: {self._named(follower.doubts[0])}"
        verdict = Verdict.DIFFERS if mismatch else Verdict.UNKNOWN if reason else Verdict.CONFORMS
        supposed = (follower.silently | follower.taken.keys()) - self._taken.keys()
        return Outcome(
            verdict, len(self._lines), matched, self._taken, supposed, follower.largest, 0.0,
            reason, mismatch, follower.tried, unshown=self._unshown(),
        )  # fmt: skip

    def _starts(self) -> list[Any]:
        """The states that the replay may begin in."""
        initial = self._bindings.table.initial
        if initial is not None:
            return [self._steps.initial(self._bindings.method(initial)())]
        return [self._steps.of(state) for state in self._steps.machine.starts()]

    def _line(self, k: int, line: Any) -> Mismatch | None:
        """Go along one line."""
        follower, bindings, begins = self.follower, self._bindings, self._begins
        binding = bindings.known(line.action) or bindings.of(line)
        for number in begins.get(k, ()) if begins else ():
            self._begin(number)
        told = binding.told(line, follower.states if binding.begins else ())
        if told is None:
            return None
        if binding.perhaps is not None:
            self._perhaps(binding.perhaps, told)
        begun = self._led.pop(k, None) if begins else None
        missed = follower.follow(begun or binding.led(told), k if begun else None)
        if missed is not None:
            return self._mismatch(binding, told, missed)
        if binding.named is not None:
            self._taken.update([binding.named(told)] if binding.named(told) else ())
        elif binding.action is not None:
            self._taken[binding.action.name] += 1
        if binding.then is not None:
            self._perhaps(binding.then, told)
        return None

    def _begin(self, number: int) -> None:
        """A step is under way from now on, whose line comes later."""
        binding = self._bindings.of(self._lines[number])
        told = binding.told(self._lines[number], self.follower.states)
        if told is not None:
            led = self._led[number] = binding.led(told)
            self.follower.begin(number, led)

    def _perhaps(
        self, ways: Callable[[DecodedLine, Any], Iterable[Way]], told: DecodedLine
    ) -> None:
        """In each of some ways there may have been steps that no line tells, or in none."""
        of = {id(c.state): [*ways(told, c.state)] for c in self.follower.carried}
        if not any(of.values()):
            return

        def possible(state: Any) -> Iterable[Way]:
            known = of.get(id(state))  # None: a step under way has led there
            return [[], *(ways(told, state) if known is None else known)]

        self.follower.follow(StepConstraint(possible, every=True))

    def _unshown(self) -> frozenset[str]:
        """The fields of which no line shows anything; none where rows say by hand what is shown."""
        rows = self._bindings.rows
        if any(binding.row.claims is not None or binding.named is not None for binding in rows):
            return frozenset()
        shown = {re.split(r"[.\[]", label)[0] for label in self._bindings.shown}
        return frozenset(self._steps.machine.spec.rich.keys() - shown)

    def _named(self, text: str) -> str:
        return self._bindings.values.named(text)

    def _mismatch(self, binding: Binding, told: DecodedLine, missed: Miss) -> Mismatch:
        """Why a line is not explained, in the code's names."""
        line, action, arguments = told.line, binding.action, told.arguments
        given = ", ".join(
            written(arguments[name]) if name in arguments else "…"
            for name, _ in (action.parameters if action else ())
        )
        if binding.named is not None:
            called = f"{binding.named(told) or line.action} of {line.node}"
        else:
            called = f"{action.name}({given})" if action else f"{line.action} of {line.node}"
        differences = tuple(self._named(text) for text in missed.differences)
        return Mismatch(line.place, self._named(called), missed.kind, differences)


def _beginnings(lines: Sequence[Any]) -> Mapping[int, Sequence[int]]:
    """Before which line each step begins that was under way for a while: by place, their places."""
    under_way = [k for k, line in enumerate(lines) if line.earliest_ns < line.time_ns]
    if not under_way:
        return {}
    times = list(accumulate((line.time_ns for line in lines), max))
    found: dict[int, list[int]] = defaultdict(list)
    for k in under_way:
        found[min(k, bisect_left(times, lines[k].earliest_ns))].append(k)
    return found
