"""
Random walks of a spec and real code, by seeds: for commands, and for code that is not
deterministic. The tests that Hypothesis draws (`stateful.py`) take the same turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from herdproof.conformance.adapter import Adapter, AdapterError, controlled
from herdproof.conformance.holding.held import Differs, Held, HeldReport, TooManyStates
from herdproof.conformance.holding.seen import NOTHING_SEEN, saw_nothing
from herdproof.conformance.walks.draws import BYTES, Turns
from herdproof.conformance.walks.shorten import SECONDS, shortened
from herdspec.language.specification import Specification, specification
from herdspec.language.surface import Spec

Size = int | Sequence[int]
"""The number of a sort's elements, or some to draw from: `(3, 5)`, `range(2, 6)`."""
NO_STEP = "no step was taken"


@dataclass
class Walked:
    """
    The result of walks: what they showed, and what they could not.

    `difference` is told shortly, and None if there was none; `unknown` says why nothing can be
    said of some walk ("" if of all): neither of them is a pass.
    """

    spec: Specification
    adapter: type[Adapter]
    sizes: Mapping[str, Size]
    runs: int = 0
    report: HeldReport = field(default_factory=HeldReport)
    difference: Differs | None = None
    unknown: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Tells whether the walks ended, without a difference."""
        return self.difference is None and not self.unknown

    @property
    def steps(self) -> int:
        """The number of the spec's steps that the code took."""
        return self.report.steps

    @property
    def unseen(self) -> tuple[str, ...]:
        """The fields, and entries of maps, of which nothing was ever seen."""
        return self.report.unseen

    @property
    def gaps(self) -> list[str]:
        """The things that a pass does not show, in a sentence each."""
        return gaps(self.spec, self.adapter, self.report)


class Walks:
    """
    A spec and its adapter at all sizes that may be drawn; what was seen is summed up over them.

    Raises `AdapterError` for an adapter that does not fit, and for sizes that are none.
    """

    def __init__(
        self, spec: type[Spec] | Specification, adapter: type[Adapter], sizes: Mapping[str, Size]
    ) -> None:
        self.spec = spec if isinstance(spec, Specification) else specification(spec)
        self.adapter = adapter
        self.sizes = dict(sizes)
        self._turns: dict[tuple[int, ...], Turns] = {}
        self.choices = {sort: _choices(self.spec, sort, sizes) for sort in self.spec.sorts}
        for sort in sizes:
            if sort not in self.choices:
                raise AdapterError(
                    f"{self.spec.name} has no sort {sort!r} to give a size; its sorts:"
                    f" {', '.join(self.choices) or 'none'}"
                )
        self.at([0] * len(self.choices))  # whether it fits, at once

    def at(self, numbers: Sequence[int]) -> Turns:
        """The turns at sizes that these numbers say, one for each sort."""
        sizes = tuple(c[n % len(c)] for c, n in zip(self.choices.values(), numbers, strict=True))
        turns = self._turns.get(sizes)
        if turns is None:
            held = Held(self.spec, self.adapter, **dict(zip(self.choices, sizes, strict=True)))
            turns = self._turns[sizes] = Turns(held)
        return turns

    @property
    def report(self) -> HeldReport:
        """The report on all sizes together."""
        return summed([turns.held.report for turns in self._turns.values()])


def _choices(spec: Specification, sort: str, sizes: Mapping[str, Size]) -> list[int]:
    size = sizes.get(sort)
    found = [size] if isinstance(size, int) else [*(size or ())]
    if not found or min(found) < 1:
        raise AdapterError(
            f"{spec.name} needs a size for its sort {sort}: write `{sort}=3`, or some to draw from,"
            f" `{sort}=(3, 5)`"
        )
    return found


def walk(
    spec: type[Spec] | Specification, adapter: type[Adapter], sizes: Mapping[str, Size], *,
    runs: int = 100, steps: int = 200, seed: int = 0, seconds: float | None = None,
    shorten: float = SECONDS, first: Callable[[Held], None] | None = None,
) -> Walked:  # fmt: skip
    """
    Walk so many runs of so many turns each at random sizes, until there is a difference.

    The same seed draws the same. `seconds` ends it earlier, between two runs; a difference is
    shortened for at most `shorten` seconds. Each run begins with what `first` offers: so walks may
    begin where chance seldom leads. Raises `AdapterError` for an adapter that does not fit.
    """
    walks = Walks(spec, adapter, sizes)
    found = Walked(walks.spec, adapter, walks.sizes)
    began = time.monotonic()
    for run in range(runs):
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        random = Random(f"{seed}/{run}")
        turns = walks.at([random.getrandbits(16) for _ in walks.choices])
        turns.mix(random.getrandbits(16))
        drawn = random.randbytes(BYTES * random.choice((steps, steps, steps // 2, steps // 4)))
        found.runs += 1
        try:
            with turns.held as held:
                if first is not None:
                    held.run(partial(first, held))
                held.run(partial(turns.by, drawn))
        except TooManyStates as error:
            found.unknown = str(error)
        except Differs as differs:
            found.report = walks.report
            found.difference = shortened(turns.held, differs, seconds=shorten)
            break
    if found.difference is None:
        found.report = walks.report
        found.unknown = found.unknown or inconclusive(walks.spec, found.report)
    found.seconds = time.monotonic() - began
    return found


def inconclusive(spec: Specification, report: HeldReport) -> str:
    """Why walks without a difference are no pass; empty if they are one."""
    if not report.steps:
        return NO_STEP
    return NOTHING_SEEN if saw_nothing(spec.rich, report.unseen) else ""


def offers(spec: Specification, adapter: type[Adapter]) -> list[str]:
    """The names of the actions that are offered to the code."""
    return [action.name for action in controlled(spec, adapter)]


def summed(reports: Sequence[HeldReport]) -> HeldReport:
    """The sum of some reports; of fields, those that were seen in none of them."""
    found = HeldReport()
    for report in reports:
        for name in ("taken", "refused", "open", "disturbed", "left"):
            counts: dict[str, int] = getattr(found, name)
            for key, count in getattr(report, name).items():
                counts[key] = counts.get(key, 0) + count
        found.runs += report.runs
        found.waits += report.waits
        found.largest = max(found.largest, report.largest)
    seen = [r for r in reports if r.runs]
    found.unseen = tuple(dict.fromkeys(n for r in seen for n in r.unseen if _never(n, r, seen)))
    return found


def _never(name: str, report: HeldReport, reports: Sequence[HeldReport]) -> bool:
    """Tells whether what one report never saw was seen in none of the others that know it."""
    return all(name in other.unseen for other in reports if "[" not in name or other is report)


def gaps(spec: Specification, adapter: type[Adapter], report: HeldReport) -> list[str]:
    """The things that a pass does not show: a sentence each."""
    never = [n for n in offers(spec, adapter) if n not in report.taken]
    unrefused = [n for n in adapter.offered if n not in report.refused]
    told: list[tuple[str, Any]] = [
        ("never seen", report.unseen), ("never taken", never),
        ("never refused", unrefused),
        ("refused where nobody knows if some choice was possible", report.open),
        ("never brought about", [n for n in adapter.disturbed if n not in report.disturbed]),
        ("absent", [f"{name} ({why})" for name, why in adapter.absent.items()]),
        ("left behind", [f"{what} ({n} times)" for what, n in report.left.items()]),
    ]  # fmt: skip
    return [f"{what}: {', '.join(names)}" for what, names in told if names]
