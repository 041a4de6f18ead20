"""
Verdicts: what was found of each property, held against what was declared.

A `Finding` is one property of one subject (`verified`, `drafted`, a flaw), looked at in one way.
A counterexample that was declared is a pass; a missing, a different or a further one is a failure.
What was cut short is unknown, and never a pass; so is a check that found nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from herdspec.language.specification import DeclaredProperty, Specification
from herdspec.language.surface import Expectation, Sort, Spec

if TYPE_CHECKING:
    from herdspec.check.exploration.explore import Exploration, Story
    from herdspec.check.liveness.liveness import Liveness
    from herdspec.check.refinement.refine import Refined
    from herdspec.check.running.run import Step
    from herdspec.check.simulation.search import Search


class Mark(Enum):
    """The way in which a verdict was come to, as tables print it."""

    PROVED = "●"
    """By induction, for any number of elements."""
    EXHAUSTED = "○"
    """Every reachable state of the named size was looked at."""
    CONFORMS = "✔"
    """The implementation was run, and did what the spec allows."""
    FAILS = "✗"
    """There is a counterexample."""
    UNKNOWN = "?"
    """Cut short, or given up."""


class Standing(Enum):
    """The value of a verdict, which is the exit code."""

    HOLDS = 0
    FAILS = 1
    UNKNOWN = 3


class Shown(NamedTuple):
    """The shape of a counterexample: its number of steps, and the action of the last."""

    steps: int
    last: str


class StoryStep(NamedTuple):
    """
    A step of a story in parts, for who draws it.

    `elements` are those of the arguments that are elements of sorts: whose step it is.
    """

    action: str
    arguments: tuple[str, ...]
    elements: tuple[str, ...]
    sentence: str
    changes: tuple[str, ...]


class Declared(Protocol):
    """A failure that somebody has declared, such as a `Failure`."""

    @property
    def steps(self) -> int:
        """The length of a shortest counterexample."""

    @property
    def last(self) -> str:
        """Its last action."""


@dataclass(frozen=True)
class Failure:
    """A property that must fail: after so many steps, the last of them by this action."""

    steps: int
    last: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """
    One property of one subject, looked at in one way.

    `row` is the property's name, or that of what else was checked; `kind` is the property's
    expectation, `lemma`, or `check` for what is no property of a spec; `bounds` says what was
    looked at, `note` what there is to say beside it. `steps` are the story's again, in parts, where
    it is a path; `repeats` says from which of them (0-based) it goes on for ever, if it does.
    Of what is unknown for no other reason than a bound, `cut` names the bound; `never` are the
    actions that were not taken, where it is about these; `assumed` are the invariants of the
    subject that a proof takes for proved by another check.
    """

    subject: str
    row: str
    kind: str
    mark: Mark
    bounds: str
    sentence: str = ""
    note: str = ""
    found: Shown | None = None
    expected: Shown | None = None
    story: tuple[str, ...] = ()
    steps: tuple[StoryStep, ...] = ()
    repeats: int | None = None
    cut: str = ""
    never: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def standing(self) -> Standing:
        """The value of the verdict: as it should be, or not."""
        if self.mark is Mark.UNKNOWN:
            return Standing.UNKNOWN
        if self.mark is Mark.FAILS and self.expected is None:
            return Standing.FAILS
        return Standing.HOLDS if self.found == self.expected else Standing.FAILS

    @property
    def is_expected_failure(self) -> bool:
        """Tells whether it is a counterexample that was declared, just so."""
        return self.mark is Mark.FAILS and self.standing is Standing.HOLDS


def standing_of(findings: Iterable[Finding]) -> Standing:
    """The worst of these: failures before unknowns; of nothing, nothing is known."""
    found = {f.standing for f in findings}
    for worst in (Standing.FAILS, Standing.UNKNOWN, Standing.HOLDS):
        if worst in found:
            return worst
    return Standing.UNKNOWN


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 broker, 2 brokers."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def few(names: list[str], most: int = 3) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# ── Exploration ─────────────────────────────────────────────────────────────────────────────

ALWAYS_A_STEP = "there is always a next step"
"""The row of deadlocks."""
EVERY_ACTION_IS_POSSIBLE = "every action is possible"
"""The row of vacuous actions: of a system that cannot move, nearly everything holds."""
PROMISES = "promises"
"""The row of a spec that promises nothing."""
DEFINEDNESS = "No step looks at a value that is not there, or leaves a range."
"""The sentence of what has a meaning."""
CUT_SHORT = "cut short at the memory budget"
BEYOND = "unknown beyond"
"""The beginning of the note on what is unknown for want of a larger bound."""
WITHIN = "within"
"""The beginning of the note on what holds as far as was meant to be looked."""
JUDGED_BY_STATES = (
    Expectation.ALWAYS, Expectation.STEP, Expectation.SOMETIMES, Expectation.RECOVERABLE,
)  # fmt: skip
"""Expectations that an exploration judges; an `eventually` passed over would look as if it held."""


def explored(
    subject: str,
    result: Exploration,
    declared: Mapping[str, Declared],
    *,
    exactly: bool = True,
    may_end: bool = False,
    vacuity: bool | None = None,
) -> list[Finding]:
    """
    A finding for each property of an explored spec, and one for deadlock (unless it `may_end`).

    Promises of liveness are not judged here, and axioms nowhere. Further findings say whether
    every step has a meaning, where a step might have none, and whether each action is possible (of
    what is declared to fail nobody asks that, unless `vacuity` says so); one says so if nothing is
    promised.

    `declared` are the failures that must be found; not `exactly` at another size than they were
    declared for: then a failure of such a property may have any length, or be missing.
    """
    judge = Explored(subject, result, declared, exactly)
    judged = [p for p in result.spec.properties if p.expectation in JUDGED_BY_STATES]
    findings = [*map(judge.finding, judged), *judge.defined()]
    findings += [] if may_end else [judge.deadlock()]
    asks = not declared if vacuity is None else vacuity
    findings += [judge.possible()] if asks else []
    return [*findings, *nothing_promised(subject, result.spec)]


def nothing_promised(subject: str, spec: Specification) -> list[Finding]:
    """A finding without a verdict, if a spec has no promise that could be kept or broken."""
    assumed = (Expectation.AXIOM, Expectation.CONSTRAINT)
    if any(p.expectation not in assumed for p in spec.properties):
        return []
    return [Finding(
        subject=subject, row=PROMISES, kind="check", mark=Mark.UNKNOWN, bounds="",
        note="nothing is promised", sentence="There is a promise to be kept.",
    )]  # fmt: skip


@dataclass(frozen=True)
class Explored:
    """The judge of one exploration."""

    subject: str
    result: Exploration
    declared: Mapping[str, Declared]
    exactly: bool

    def finding(self, promise: DeclaredProperty) -> Finding:
        """The exploration's finding on one property."""
        r, name = self.result, promise.name
        if name in r.violations:
            return self._made(promise, Mark.FAILS, story=r.violations[name])
        if name in r.witnesses:
            note = f"shown after {counted(len(r.witnesses[name].steps), 'step')}"
            return self._made(promise, Mark.EXHAUSTED, note, r.witnesses[name])
        if r.truncated:
            return self._made(promise, Mark.UNKNOWN, CUT_SHORT)
        if name in r.undecided or (name in r.missing and not r.complete):
            return self._made(promise, Mark.UNKNOWN, f"cut at {self.bound}")
        if name in r.missing:
            return self._made(promise, Mark.FAILS, "no state of this size shows it")
        notes = [self.note, r.vacuous.get(name, "")]
        note = "; ".join(text for text in notes if text)
        return replace(self._made(promise, self.mark, note), cut=self.cut)

    def defined(self) -> Iterator[Finding]:
        """The finding that every step has a meaning; none, if no step could be without."""
        from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED

        spec = self.result.spec
        broken = self.result.violations.get(EVERY_VALUE_IS_DEFINED)
        if broken is None and all(a.defined.op == "const" for a in (*spec.actions, *spec.starts)):
            return
        mark, note = (Mark.FAILS, "") if broken else (self.mark, self.note)
        shown = shown_by(broken) if broken else None
        yield Finding(
            subject=self.subject, row=EVERY_VALUE_IS_DEFINED, kind="check", mark=mark, note=note,
            bounds=self.bounds, sentence=DEFINEDNESS,
            found=shown, expected=self._expected(EVERY_VALUE_IS_DEFINED, shown),
            story=told(broken), steps=taken_in(broken), cut="" if broken else self.cut,
        )  # fmt: skip

    def deadlock(self) -> Finding:
        """The finding that every state has a next step."""
        mark, shown, note = self.mark, None, self.note
        if self.result.deadlock:
            mark, shown = Mark.FAILS, shown_by(self.result.deadlock)
        return Finding(
            subject=self.subject, row=ALWAYS_A_STEP, kind="check", mark=mark, note=note,
            bounds=self.bounds, found=shown, expected=self._expected(ALWAYS_A_STEP, shown),
            story=told(self.result.deadlock), cut="" if shown else self.cut,
            steps=taken_in(self.result.deadlock),
            sentence="From every state there is a next step.",
        )  # fmt: skip

    def possible(self) -> Finding:
        """The finding that each action is possible; a disturbance may be, if there is a budget."""
        r = self.result
        disturbing = {a.name for a in r.spec.actions if a.disturbs}
        never = tuple(n for n in r.impossible if r.faults or n not in disturbing)
        mark, note = Mark.EXHAUSTED, ""
        if never:
            mark = Mark.FAILS if r.complete else Mark.UNKNOWN
            note = f"{few(list(never))} {'is' if len(never) == 1 else 'are'} never possible here"
        return Finding(
            subject=self.subject, row=EVERY_ACTION_IS_POSSIBLE, kind="check", mark=mark,
            bounds=self.bounds, note=note, sentence="Each action is possible in some state.",
            never=never,
        )  # fmt: skip

    @property
    def bounds(self) -> str:
        """The size, as cells print it."""
        return bounds_of(self.result)

    @property
    def mark(self) -> Mark:
        """The mark of what no state was found to break."""
        return Mark.UNKNOWN if self.result.truncated or self.cut else Mark.EXHAUSTED

    @property
    def note(self) -> str:
        """The note beside it: where the search ended, and whether that was meant."""
        if self.result.truncated:
            return CUT_SHORT
        if self.cut:
            return f"{BEYOND} {self.cut}"
        return f"{WITHIN} {self.bound}" if self.bound else ""

    @property
    def cut(self) -> str:
        """The bounds that were run into and not meant, if that alone leaves it unknown."""
        r = self.result
        return self._dropped if r.dropped and not (r.within or r.truncated) else ""

    @property
    def bound(self) -> str:
        """All that kept the search from states, meant or not."""
        r = self.result
        ends = [self._dropped] * bool(r.dropped)
        ends += [f"the constraint {r.constraint}"] * bool(r.constrained)
        return " and ".join(ends)

    @property
    def _dropped(self) -> str:
        from herdspec.check.exploration.bounds import beyond

        return beyond(self.result.cuts, self.result.bound)

    def _made(
        self, promise: DeclaredProperty, mark: Mark, note: str = "", story: Story | None = None
    ) -> Finding:
        shown = shown_by(story) if story and mark is Mark.FAILS else None
        return Finding(
            subject=self.subject, row=promise.name, kind=kind_of(promise), mark=mark,
            bounds=self.bounds, sentence=promise.sentence, note=note, found=shown,
            expected=self._expected(promise.name, shown), story=told(story),
            steps=taken_in(story),
        )  # fmt: skip

    def _expected(self, name: str, shown: Shown | None) -> Shown | None:
        if name not in self.declared:
            return None
        declared = self.declared[name]
        return Shown(declared.steps, declared.last) if self.exactly else shown


def shown_by(story: Story) -> Shown:
    """A story's length and last action."""
    return Shown(len(story.steps), story.steps[-1].action.name if story.steps else "")


def told(story: Story | None) -> tuple[str, ...]:
    """A story's lines, none if there is no story."""
    return tuple(story.lines) if story else ()


def taken_in(story: Story | None) -> tuple[StoryStep, ...]:
    """A story's steps in parts, none if there is no story."""
    if story is None:
        return ()
    befores = [story.initial, *(step.state for step in story.steps)]
    return tuple(_taken(*of) for of in zip(befores, story.steps, strict=False))


def _taken(before: Spec, step: Step) -> StoryStep:
    from herdspec.check.running.run import changed, said

    return StoryStep(
        step.action.name,
        tuple(said(value) for value in step.arguments),
        tuple(said(value) for value in step.arguments if isinstance(value, Sort)),
        step.sentence,
        changed(before, step),
    )


def kind_of(promise: DeclaredProperty) -> str:
    """`always`, `step`, `sometimes`, `recoverable`, or `lemma`."""
    return "lemma" if promise.lemma else promise.expectation.value


def bounds_of(result: Exploration | Liveness) -> str:
    """The size of an exploration: 3 brokers, 3 faults."""
    return sized(result.spec, result.sizes, result.faults)


def sized(spec: Specification, sizes: Mapping[str, int], faults: int, *more: str) -> str:
    """A size in words: 3 brokers, 3 faults; no faults where no action disturbs."""
    found = [counted(n, name.lower()) for name, n in sizes.items()]
    if any(a.disturbs for a in spec.actions):
        found.append(counted(faults, "fault"))
    return ", ".join([*found, *more]) or "the only size"


def measured_by(result: Exploration) -> str:
    """An exploration in one line: sizes, counts, and what was cut."""
    r = result
    counts = f"{counted(r.states, 'state')}"
    if r.symmetric:
        counts += f" up to renaming ({r.orbits:,} in all)"
    line = f"{counts}, {counted(r.generated, 'step')}, depth {r.depth}, naturals up to {r.bound}"
    if len(r.bounds_tried) > 1:
        line += f" (raised from {r.bounds_tried[0]})"
    if r.dropped:
        line += f", {counted(r.dropped, 'successor')} beyond the bound dropped"
    return line + (", TRUNCATED at the memory budget" if r.truncated else "")


# ── Liveness ────────────────────────────────────────────────────────────────────────────────


def lived(
    subject: str, result: Liveness, declared: Mapping[str, Declared], *, exactly: bool = True
) -> list[Finding]:
    """A finding for each promise of liveness; `declared` and `exactly` are as for `explored`."""
    names = result.promised
    return [_lived(subject, result, result.spec.promise(n), declared, exactly) for n in names]


def _lived(
    subject: str, result: Liveness, promise: DeclaredProperty, declared: Mapping[str, Declared],
    exactly: bool,
) -> Finding:  # fmt: skip
    story = result.violations.get(promise.name)
    mark, note = Mark.FAILS if story else Mark.EXHAUSTED, result.fairness
    if promise.name in result.undecided:
        mark, note = Mark.UNKNOWN, result.undecided[promise.name]
    elif promise.name in result.vacuous:
        mark, note = Mark.FAILS, f"vacuous: nothing ever has its premise; {note}"
    shown, of = shown_by(story) if story else None, declared.get(promise.name)
    expected = None if of is None else Shown(of.steps, of.last) if exactly else shown
    return Finding(
        subject=subject, row=promise.name, kind=kind_of(promise), mark=mark,
        bounds=bounds_of(result), sentence=promise.sentence, note=note, found=shown,
        expected=expected, story=told(story), steps=taken_in(story),
        repeats=story.back if story and story.cycle else None,
    )  # fmt: skip


# ── Bounded search ──────────────────────────────────────────────────────────────────────────


def searched(
    subject: str, found: Search, declared: Mapping[str, Declared], *, exactly: bool = True
) -> list[Finding]:
    """A finding for each promise that a violation was searched of; none found is not "holds"."""
    within = f"runs of up to {counted(found.depth, 'step')}"
    bounds = sized(found.spec, found.sizes, found.faults, within)
    findings = []
    for name in found.promises:
        shown = found.violations.get(name)
        kind, sentence = "check", DEFINEDNESS
        if any(p.name == name for p in found.spec.properties):
            promise = found.spec.promise(name)
            kind, sentence = kind_of(promise), promise.sentence
        mark, note = Mark.EXHAUSTED, ""
        if shown:
            mark, note = Mark.FAILS, ""
        elif name in found.unknown:
            mark, note = Mark.UNKNOWN, f"z3 gave up at {counted(found.unknown[name], 'step')}"
        elif found.left_out is not None:
            mark = Mark.EXHAUSTED if found.within else Mark.UNKNOWN
            words = WITHIN if found.within else BEYOND
            note = f"{words} {found.left_out.said}, from step {found.cut} on"
        elif found.constraint:
            note = f"{WITHIN} the constraint {found.constraint}"
        what = shown_by(shown) if shown else None
        expected = None
        if name in declared and what:
            of = declared[name]
            expected = Shown(of.steps, of.last) if exactly else what
        findings.append(Finding(
            subject=subject, row=name, kind=kind, mark=mark, bounds=bounds,
            sentence=sentence, note=note, found=what, expected=expected,
            story=told(shown), steps=taken_in(shown),
        ))  # fmt: skip
    return findings


# ── Refinement ──────────────────────────────────────────────────────────────────────────────

SIMULATES = "Every step is, seen through the map, a step of the contract or none of it."


def refined(subject: str, result: Refined) -> list[Finding]:
    """The findings that each step has its meaning, and each meaning a step."""
    from herdspec.check.proof.proof_verdict import induced

    name = f"refines {result.refinement.abstract.name}"
    findings = []
    if result.obligations:
        spec = result.refinement.concrete
        found = induced(subject, name, "check", SIMULATES, spec, result.obligations)
        if found.mark is Mark.PROVED and result.given:
            note = f"given {few([*result.given])}, which is not proved"
            found = replace(found, mark=Mark.UNKNOWN, note=note)
        findings.append(replace(found, assumed=result.assumed))
    if result.exploration is not None:
        findings += _refined_by_exploration(subject, name, result, result.exploration)
    return findings


def _refined_by_exploration(
    subject: str, name: str, result: Refined, found: Exploration
) -> list[Finding]:
    from herdspec.check.exploration.exploration import EVERY_VALUE_IS_DEFINED
    from herdspec.check.refinement.refine import REFINES

    judge = Explored(subject, found, {}, exactly=True)
    broken = found.violations.get(REFINES)
    mark, note = _seen_to_refine(result, found, judge)
    steps = Finding(
        subject=subject, row=name, kind="check", mark=mark, bounds=judge.bounds,
        sentence=SIMULATES, note=note, found=shown_by(broken) if broken else None,
        story=told(broken), steps=taken_in(broken), cut=judge.cut if note == judge.note else "",
    )  # fmt: skip
    judged = [p for p in found.spec.properties if p.expectation in JUDGED_BY_STATES]
    undefined = EVERY_VALUE_IS_DEFINED in found.violations
    defined = judge.defined() if undefined or not result.proved else ()
    return [steps, *map(judge.finding, judged), *defined]


def _seen_to_refine(result: Refined, found: Exploration, judge: Explored) -> tuple[Mark, str]:
    """The mark of the explored steps: what was cut is no ○, unless it was proved, too."""
    from herdspec.check.refinement.refine import REFINES

    if broken := found.violations.get(REFINES):
        start = "the initial state is none of the contract's"
        return Mark.FAILS, "a step without a meaning" if broken.steps else start
    if found.truncated:
        return Mark.UNKNOWN, CUT_SHORT
    if result.idle or result.still:
        idle = f"no step means {', '.join(result.idle)}"
        still = "no step changes what is seen through the map"
        return Mark.FAILS if found.complete else Mark.UNKNOWN, idle if result.idle else still
    if judge.cut and result.proved:
        return Mark.EXHAUSTED, f"{WITHIN} {judge.bound}"
    return judge.mark, judge.note


def safety(finding: Finding) -> bool:
    """Tells whether a finding is about what must never happen."""
    return finding.kind in (Expectation.ALWAYS.value, Expectation.STEP.value)
