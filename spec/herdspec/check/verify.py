"""
`verify`: a plan of checks, carried out in order, and the verdicts that come of it.

A plan belongs to one protocol (`plans.py` has those that we know, and makes one for any spec). Its
checks know each other only through the table that their findings end up in: one row for each
property, one column for each subject, and a table of flaws. Whoever has more to check (runs of an
implementation, say) adds a `Check`: `plan.also(check)`. With a cache, a check that depends on
nothing that was changed is not done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any

from herdspec.check.cache import Cache, Memory, Result, key_of
from herdspec.check.side_by_side import Tell as Tell
from herdspec.check.side_by_side import side_by_side
from herdspec.check.verdict import WITHIN, Finding, Mark, Standing, counted, few, standing_of
from herdspec.language.graph import TRUE
from herdspec.language.specification import Specification
from herdspec.language.surface import Expectation

if TYPE_CHECKING:
    from herdspec.check.proof.prove import Obligation
    from herdspec.check.sentences import Column, Discharge


LONG = 100
"""The effort of a check that lasts for nobody knows how long."""


@dataclass(frozen=True)
class Check:
    """
    One thing to do: a name for people, and a function that does it and tells its progress.

    `rests_on` is all that the result depends on, beside the checkers themselves (specs, sizes,
    options, digests of sources); None, where it may be another one every time. A check with a
    `recall` can do without the parts of itself that the given memory knows. `effort` says how much
    there is to do, beside the others of a plan: what takes longest is begun first.
    """

    name: str
    run: Callable[[Tell], Result]
    rests_on: Callable[[], tuple[Any, ...]] | None = None
    recall: Callable[[Tell, Memory], Result] | None = None
    effort: int = LONG


@dataclass(frozen=True)
class Plan:
    """
    The checks of one protocol.

    The table compares `drafted`, `verified` and the `others`; `flaws` have a table of their own.
    Where it is not these two, `compared` says what the first table has. `specs` are the subjects'
    own, by name. `assumed` and `not_modelled` are the spec's own words. `sentences` are the columns
    of the table at the end, and `discharges` what assumptions follow from.
    """

    protocol: str
    checks: tuple[Check, ...]
    drafted: str = "drafted"
    verified: str = "verified"
    compared: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()
    assumed: str = ""
    not_modelled: str = ""
    sentences: tuple[Column, ...] = ()
    discharges: tuple[Discharge, ...] = ()
    specs: Mapping[str, Specification] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The subjects that stand side by side in the first table."""
        return self.compared or (self.drafted, self.verified)

    def also(self, *checks: Check) -> Plan:
        """A plan like this one, with further checks at its end."""
        return replace(self, checks=(*self.checks, *checks))


@dataclass(frozen=True)
class Done:
    """A check that was carried out, or whose result was `kept` from before."""

    check: str
    result: Result
    seconds: float
    kept: bool = False


@dataclass(frozen=True)
class PlanReport:
    """The outcome of a plan."""

    plan: Plan
    done: tuple[Done, ...]
    clock_seconds: float = 0.0
    """The time that passed meanwhile: less than that of all checks, where some ran side by side."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all checks, in order."""
        return tuple(f for done in self.done for f in done.result.findings)

    @property
    def standing(self) -> Standing:
        """The value of all verdicts together."""
        return standing_of(self.findings)

    @property
    def seconds(self) -> float:
        """The time of all checks."""
        return sum(done.seconds for done in self.done)

    def of(self, *subjects: str) -> list[Finding]:
        """The findings of these subjects."""
        return [f for f in self.findings if f.subject in subjects]


Watch = Callable[[Check], AbstractContextManager[Tell]]
"""Opened around each check: where its progress goes."""


def nobody(words: str, fraction: float | None) -> None:
    """Whom to tell the progress that nobody wants to know."""


@contextmanager
def unwatched(check: Check) -> Iterator[Tell]:
    """Nobody is told of any progress."""
    del check
    yield nobody


def verify(
    plan: Plan,
    watch: Watch = unwatched,
    survived: tuple[type[Exception], ...] = (),
    cache: Cache | None = None,
    processes: int = 1,
) -> PlanReport:
    """
    Carry out a plan, but for what the cache (if there is one) holds the present verdict of.

    An error of a class in `survived` makes its check unknown and does not end the others; any other
    error is the caller's. With several `processes` as many checks are carried out at a time.
    """
    begun = perf_counter()
    carrying = Carrying(plan, survived, cache)
    done = [carrying.kept(check) for check in plan.checks]
    left = [number for number, kept in enumerate(done) if kept is None]
    left.sort(key=lambda number: -plan.checks[number].effort)
    with side_by_side(carrying.out, left, processes) as found:
        for number, check in enumerate(plan.checks):
            with watch(check) as tell:
                if done[number] is None:
                    done[number], notes = found(number, tell)
                    carrying.say(notes)
    outcome = settled([d for d in done if d is not None])
    return PlanReport(plan, outcome, perf_counter() - begun)


def settled(done: Sequence[Done]) -> tuple[Done, ...]:
    """
    The results of all checks, each read with the others.

    What is unknown only for a bound is settled where the same property is proved, which asks no
    bound; an action that is never taken at one size is not vacuous if it is at another; and what
    was proved with the help of invariants that no check has proved is not.
    """
    findings = [f for d in done for f in d.result.findings]
    proved = {(f.subject, f.row) for f in findings if f.mark is Mark.PROVED}
    taken = {
        (covered.subject, action)
        for d in done
        for covered in d.result.coverage
        for action, times in covered.taken
        if times
    }
    return tuple(
        replace(d, result=replace(d.result, findings=tuple(_settled(f, proved, taken) for f in of)))
        for d, of in ((d, d.result.findings) for d in done)
    )


def _settled(
    finding: Finding, proved: set[tuple[str, str]], taken: set[tuple[str, str]]
) -> Finding:
    """A finding, read with what is proved of its subject and which actions were ever taken."""
    if finding.cut and (finding.subject, finding.row) in proved:
        return replace(finding, mark=Mark.EXHAUSTED, note=f"{WITHIN} {finding.cut}", cut="")
    unproved = [name for name in finding.assumed if (finding.subject, name) not in proved]
    if finding.mark is Mark.PROVED and unproved:
        return replace(finding, mark=Mark.UNKNOWN, note=f"given {few(unproved)}, not proved")
    if finding.never and all((finding.subject, name) in taken for name in finding.never):
        note = f"{few(list(finding.never))} only at another size"
        return replace(finding, mark=Mark.EXHAUSTED, note=note, never=())
    return finding


@dataclass
class Carrying:
    """The way in which a plan's checks are carried out: errors survived, results kept."""

    plan: Plan
    survived: tuple[type[Exception], ...]
    cache: Cache | None
    _keys: dict[str, str] = field(default_factory=dict)

    def kept(self, check: Check) -> Done | None:
        """A check's result from the cache, if it is the present one."""
        begun = perf_counter()
        if self.cache is None or check.rests_on is None:
            return None
        with suppress(*self.survived):  # whoever carries it out comes to the same error
            self._keys[check.name] = key_of(*check.rests_on())
            if found := self.cache.recall(self._name(check), self._keys[check.name]):
                return Done(check.name, found, perf_counter() - begun, kept=True)
        return None

    def out(self, number: int, tell: Tell) -> tuple[Done, list[str]]:
        """One check, carried out and kept, and what is to be said of its keeping."""
        begun, said = perf_counter(), len(self.cache.notes) if self.cache else 0
        check = self.plan.checks[number]
        try:
            result = self._found(check, tell)
        except self.survived as error:
            result = Result((), str(error))
        done = Done(check.name, self._judged(check, result), perf_counter() - begun)
        return done, self.cache.notes[said:] if self.cache else []

    def say(self, notes: Sequence[str]) -> None:
        """Let the cache know what was noted, if it was in another process."""
        if self.cache is not None:
            self.cache.notes += [note for note in notes if note not in self.cache.notes]

    def _found(self, check: Check, tell: Tell) -> Result:
        """A check's result, found now and kept."""
        key = self._keys.get(check.name)
        if self.cache is None or key is None:
            return check.run(tell)
        name, memory = self._name(check), Memory()
        if check.recall is None:
            result = check.run(tell)
        else:
            memory = self.cache.memory(name)
            result = check.recall(tell, memory)
        self.cache.keep(name, key, result, memory.now)
        return result

    def _judged(self, check: Check, result: Result) -> Result:
        """The result; of a check that fails to run nothing is known."""
        if result.findings:
            return result
        note = result.measured or "nothing was checked"
        unknown = Finding(
            subject=self.plan.verified, row=check.name, kind="check", mark=Mark.UNKNOWN,
            bounds="", note=note,
        )  # fmt: skip
        return Result((unknown,), note)

    def _name(self, check: Check) -> str:
        return f"{self.plan.protocol}: {check.name}"


# ── Progress in words ───────────────────────────────────────────────────────────────────────


def levels(tell: Tell) -> Callable[[int, int, int], None]:
    """The progress of an exploration in words."""

    def told(depth: int, states: int, waiting: int) -> None:
        tell(f"level {depth}, {counted(states, 'state')}, {waiting:,} to expand", None)

    return told


def obligations(
    spec: Specification, leave_out: frozenset[str], tell: Tell
) -> Callable[[Obligation], None]:
    """The progress of a proof in words, and as a fraction of its obligations."""
    from herdspec.check.proof.prove import provable

    spec = spec.for_proof
    promises = [p for p in provable(spec) if p.name not in leave_out]
    initially = sum(p.expectation is Expectation.ALWAYS for p in promises)
    defined = sum(a.defined is not TRUE for a in spec.actions)
    total = initially * max(1, len(spec.starts)) + len(promises) * len(spec.actions) + defined
    number = count(1)

    def told(obligation: Obligation) -> None:
        words = f"{obligation.promise}: {obligation.action or 'initially'}"
        tell(words, min(1.0, next(number) / total))

    return told
