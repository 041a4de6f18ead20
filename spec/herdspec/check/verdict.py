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

from herdspec.language.specification import Promise, Specification
from herdspec.language.surface import Expectation, Sort, Spec

if TYPE_CHECKING:
    from herdspec.check.explore import Exploration, Story
    from herdspec.check.liveness import Liveness
    from herdspec.check.prove import Obligation, Proof
    from herdspec.check.refine import Refined
    from herdspec.check.run import Step
    from herdspec.check.search import Search


class Mark(Enum):
    """How a verdict was come to, as tables print it."""

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
    """What a verdict comes to; the value is the exit code."""

    HOLDS = 0
    FAILS = 1
    UNKNOWN = 3


class Shown(NamedTuple):
    """What a counterexample shows: its number of steps, and the action of the last."""

    steps: int
    last: str


class Taken(NamedTuple):
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
    steps: tuple[Taken, ...] = ()
    repeats: int | None = None

    @property
    def standing(self) -> Standing:
        """Whether it is as it should be."""
        if self.mark is Mark.UNKNOWN:
            return Standing.UNKNOWN
        if self.mark is Mark.FAILS and self.expected is None:
            return Standing.FAILS
        return Standing.HOLDS if self.found == self.expected else Standing.FAILS

    @property
    def is_expected_failure(self) -> bool:
        """Whether it is a counterexample that was declared, just so."""
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


# ── Exploration ─────────────────────────────────────────────────────────────────────────────

ALWAYS_A_STEP = "there is always a next step"
"""The row of deadlocks."""
CUT_SHORT = "cut short at the memory budget"
JUDGED_BY_STATES = (
    Expectation.ALWAYS, Expectation.STEP, Expectation.SOMETIMES, Expectation.RECOVERABLE,
)  # fmt: skip
"""What an exploration judges; an `eventually` that it passed over would look as if it held."""


def explored(
    subject: str,
    result: Exploration,
    declared: Mapping[str, Declared],
    *,
    exactly: bool = True,
    may_end: bool = False,
) -> list[Finding]:
    """
    A finding for each property of an explored spec, and one for deadlock (unless it `may_end`).

    Promises of liveness are not judged here, and axioms nowhere. One more finding says whether
    every step has a meaning, where a step might have none.

    `declared` are the failures that must be found; not `exactly` at another size than they were
    declared for: then a failure of such a property may have any length, or be missing.
    """
    judge = Explored(subject, result, declared, exactly)
    judged = [p for p in result.spec.properties if p.expectation in JUDGED_BY_STATES]
    findings = [*map(judge.finding, judged), *judge.defined()]
    return findings if may_end else [*findings, judge.deadlock()]


@dataclass(frozen=True)
class Explored:
    """The judge of one exploration."""

    subject: str
    result: Exploration
    declared: Mapping[str, Declared]
    exactly: bool

    def finding(self, promise: Promise) -> Finding:
        """What the exploration says of one property."""
        r, name = self.result, promise.name
        if name in r.violations:
            return self._made(promise, Mark.FAILS, story=r.violations[name])
        if name in r.witnesses:
            note = f"shown after {counted(len(r.witnesses[name].steps), 'step')}"
            return self._made(promise, Mark.EXHAUSTED, note, r.witnesses[name])
        if r.truncated:
            return self._made(promise, Mark.UNKNOWN, CUT_SHORT)
        if name in r.undecided or (name in r.missing and not r.complete):
            return self._made(promise, Mark.UNKNOWN, self.cut)
        if name in r.missing:
            return self._made(promise, Mark.FAILS, "no state of this size shows it")
        return self._made(promise, Mark.EXHAUSTED, self.within)

    def defined(self) -> Iterator[Finding]:
        """Whether every step has a meaning; nothing, if none could be without."""
        from herdspec.check.exploration import EVERY_VALUE_IS_DEFINED

        spec = self.result.spec
        broken = self.result.violations.get(EVERY_VALUE_IS_DEFINED)
        if broken is None and all(a.defined.op == "const" for a in (*spec.actions, *spec.starts)):
            return
        mark, note = (Mark.FAILS, "") if broken else (Mark.EXHAUSTED, self.within)
        if broken is None and self.result.truncated:
            mark, note = Mark.UNKNOWN, CUT_SHORT
        shown = shown_by(broken) if broken else None
        yield Finding(
            subject=self.subject, row=EVERY_VALUE_IS_DEFINED, kind="check", mark=mark, note=note,
            bounds=self.bounds, sentence="No step looks at a value that is not there.",
            found=shown, expected=self._expected(EVERY_VALUE_IS_DEFINED, shown),
            story=told(broken), steps=taken_in(broken),
        )  # fmt: skip

    def deadlock(self) -> Finding:
        """Whether every state has a next step."""
        mark, shown, note = Mark.EXHAUSTED, None, self.within
        if self.result.deadlock:
            mark, shown = Mark.FAILS, shown_by(self.result.deadlock)
        elif self.result.truncated:
            mark, note = Mark.UNKNOWN, CUT_SHORT
        return Finding(
            subject=self.subject, row=ALWAYS_A_STEP, kind="check", mark=mark, note=note,
            bounds=self.bounds, found=shown, expected=self._expected(ALWAYS_A_STEP, shown),
            story=told(self.result.deadlock),
            steps=taken_in(self.result.deadlock),
            sentence="From every state there is a next step.",
        )  # fmt: skip

    @property
    def bounds(self) -> str:
        """The size, as cells print it."""
        return bounds_of(self.result)

    @property
    def within(self) -> str:
        """What has to be said where successors were dropped, or states not gone on from."""
        r = self.result
        cuts = [f"naturals up to {r.bound}"] if r.dropped else []
        cuts += [f"the constraint {r.constraint}"] if r.constrained else []
        return f"within {' and '.join(cuts)}" if cuts else ""

    @property
    def cut(self) -> str:
        """Why what is beyond the cuts is not known."""
        r = self.result
        cuts = ["the bound of naturals"] if r.dropped else []
        cuts += [f"the constraint {r.constraint}"] if r.constrained else []
        return f"cut at {' and '.join(cuts)}"

    def _made(
        self, promise: Promise, mark: Mark, note: str = "", story: Story | None = None
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


def taken_in(story: Story | None) -> tuple[Taken, ...]:
    """A story's steps in parts, none if there is no story."""
    if story is None:
        return ()
    befores = [story.initial, *(step.state for step in story.steps)]
    return tuple(_taken(*of) for of in zip(befores, story.steps, strict=False))


def _taken(before: Spec, step: Step) -> Taken:
    from herdspec.check.run import difference, said

    changes = difference(before, step.state).items()
    return Taken(
        step.action.name,
        tuple(said(value) for value in step.arguments),
        tuple(said(value) for value in step.arguments if isinstance(value, Sort)),
        step.sentence,
        tuple(f"{entry}: {said(a)} → {said(b)}" for entry, (a, b) in changes),
    )


def kind_of(promise: Promise) -> str:
    """`always`, `step`, `sometimes`, `recoverable`, or `lemma`."""
    return "lemma" if promise.lemma else promise.expectation.value


def bounds_of(result: Exploration | Liveness) -> str:
    """The size of an exploration: 3 brokers, 3 faults."""
    sizes = [counted(n, name.lower()) for name, n in result.sizes.items()]
    return ", ".join([*sizes, counted(result.faults, "fault")])


def measured_by(result: Exploration) -> str:
    """An exploration in one line: sizes, counts, and what was cut."""
    r = result
    counts = f"{counted(r.states, 'state')}"
    if r.symmetric:
        counts += f" up to renaming ({r.orbits:,} in all)"
    line = f"{counts}, {counted(r.generated, 'step')}, depth {r.depth}, naturals up to {r.bound}"
    if r.dropped:
        line += f", {counted(r.dropped, 'successor')} beyond them dropped"
    return line + (", TRUNCATED at the memory budget" if r.truncated else "")


# ── Liveness ────────────────────────────────────────────────────────────────────────────────


def lived(
    subject: str, result: Liveness, declared: Mapping[str, Declared], *, exactly: bool = True
) -> list[Finding]:
    """A finding for each promise of liveness; `declared` and `exactly` are as for `explored`."""
    names = result.promised
    return [_lived(subject, result, result.spec.promise(n), declared, exactly) for n in names]


def _lived(
    subject: str, result: Liveness, promise: Promise, declared: Mapping[str, Declared],
    exactly: bool,
) -> Finding:  # fmt: skip
    story = result.violations.get(promise.name)
    mark, note = Mark.FAILS if story else Mark.EXHAUSTED, result.fairness
    if promise.name in result.undecided:
        mark, note = Mark.UNKNOWN, result.undecided[promise.name]
    elif promise.name in result.vacuous:
        note = f"nothing ever has its premise; {note}"
    shown, of = shown_by(story) if story else None, declared.get(promise.name)
    expected = None if of is None else Shown(of.steps, of.last) if exactly else shown
    return Finding(
        subject=subject, row=promise.name, kind=kind_of(promise), mark=mark,
        bounds=bounds_of(result), sentence=promise.sentence, note=note, found=shown,
        expected=expected, story=told(story), steps=taken_in(story),
        repeats=story.back if story and story.cycle else None,
    )  # fmt: skip


# ── Proof ───────────────────────────────────────────────────────────────────────────────────

EVERY_ACTION_IS_POSSIBLE = "every action is possible"
"""The row of vacuous actions: an invariant over a system that cannot move proves nothing."""


def any_number(spec: Specification) -> str:
    """What a proof speaks about."""
    if not spec.sorts:
        return "any numbers"
    names = [f"{name.lower()}s" for name in spec.sorts]
    if spec.relational:
        names = ["messages in flight" if name == "tags" else name for name in names]
    *first, last = names
    return f"any number of {', '.join(first)} and {last}" if first else f"any number of {last}"


def proved(subject: str, proof: Proof) -> list[Finding]:
    """A finding for each promise that induction was tried on, and for definedness and vacuity."""
    findings = [_proved(subject, proof, proof.spec.promise(name)) for name in proof.promises]
    findings += [*_defined(subject, proof), _not_vacuous(subject, proof)]
    return [replace(f, bounds=_scope(proof)) for f in findings]


def _scope(proof: Proof) -> str:
    """What a proof speaks about, and what it took for less than it is."""
    order = ", naturals as any total order" if proof.order else ""
    channels = ", channels as sets of messages" if proof.spec.relational else ""
    return f"{any_number(proof.spec)}{order}{channels}"


def _defined(subject: str, proof: Proof) -> list[Finding]:
    """That no step looks at what is not there, if any step looks at what may not be."""
    from herdspec.check.prove import DEFINED

    obligations = [o for o in proof.obligations if o.promise == DEFINED]
    sentence = "No step looks up an absent value, or takes a number out of its range."
    found = induced(subject, DEFINED, "check", sentence, proof.spec, obligations)
    return [found] if obligations else []


def _proved(subject: str, proof: Proof, promise: Promise) -> Finding:
    obligations = [o for o in proof.obligations if o.promise == promise.name]
    found = induced(
        subject, promise.name, kind_of(promise), promise.sentence, proof.spec, obligations
    )
    assumed = [name for name in unproved(proof) if name != promise.name]
    if found.mark is Mark.PROVED and assumed:
        return replace(found, note=f"given {few(assumed)}")
    return found


def unproved(proof: Proof) -> list[str]:
    """The invariants that the steps' proofs assume, and that are not proved themselves."""
    from herdspec.check.prove import Outcome

    always = [n for n in proof.promises if proof.spec.promise(n).expectation is Expectation.ALWAYS]
    return [name for name in always if proof.of(name) is not Outcome.PROVED]


def induced(
    subject: str, name: str, kind: str, sentence: str, spec: Specification,
    obligations: list[Obligation],
) -> Finding:  # fmt: skip
    """What the worst of these obligations says of a property."""
    from herdspec.check.prove import Outcome

    mark, note = Mark.PROVED, ""
    bad: list[Obligation] = []
    for outcome, made, words in (
        (Outcome.UNKNOWN, Mark.UNKNOWN, "z3 gave up"),
        (Outcome.FAILED, Mark.FAILS, "not inductive"),
    ):
        if found := [o for o in obligations if o.outcome is outcome]:
            mark, bad = made, found
            note = f"{words}: {few([o.action or 'the initial state' for o in bad])}"
    if not obligations:
        mark, note = Mark.UNKNOWN, "there was nothing to prove"
    shown = next((o.counterexample for o in bad if o.counterexample), None)
    return Finding(
        subject=subject, row=name, kind=kind, mark=mark, bounds=any_number(spec),
        sentence=sentence, note=note, story=tuple(shown.lines) if shown else (),
    )  # fmt: skip


def few(names: list[str], most: int = 3) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def nothing_begins(spec: Specification) -> str:
    """Why there is no initial state: what the spec asks of one, and nothing that it does not."""
    starts = ", ".join(a.name for a in spec.starts)
    if not any(p.expectation is Expectation.AXIOM for p in spec.properties):
        return f"no initial state: no choice of @initial {starts} is possible"
    return f"no initial state{f' of @initial {starts}' if starts else ''} keeps the axioms"


def _not_vacuous(subject: str, proof: Proof) -> Finding:
    from herdspec.check.prove import Outcome

    mark, note = Mark.PROVED, ""
    if proof.begins is Outcome.FAILED:
        mark, note = Mark.FAILS, nothing_begins(proof.spec)
    elif proof.contradiction:
        mark, note = Mark.FAILS, f"no state keeps all of {', '.join(proof.contradiction)}"
    elif proof.vacuous:
        names = ", ".join(proof.vacuous)
        mark, note = Mark.FAILS, f"no state was found that keeps all promises and allows {names}"
    elif proof.unsure or proof.begins is Outcome.UNKNOWN:
        mark, note = Mark.UNKNOWN, f"z3 gave up: {few(proof.unsure or ['the initial states'])}"
    return Finding(
        subject=subject, row=EVERY_ACTION_IS_POSSIBLE, kind="check", mark=mark,
        bounds=any_number(proof.spec), note=note,
        sentence="Each action is possible in some state that keeps all promises.",
    )  # fmt: skip


# ── Bounded search ──────────────────────────────────────────────────────────────────────────


def searched(
    subject: str, found: Search, declared: Mapping[str, Declared], *, exactly: bool = True
) -> list[Finding]:
    """A finding for each promise that a violation was searched of; none found is not "holds"."""
    sizes = [counted(n, name.lower()) for name, n in found.sizes.items()]
    within = f"runs of up to {counted(found.depth, 'step')}"
    bounds = ", ".join([*sizes, counted(found.faults, "fault"), within])
    findings = []
    for name in found.promises:
        shown = found.violations.get(name)
        kind, sentence = "check", "No step looks up an absent value, or leaves a range."
        if any(p.name == name for p in found.spec.properties):
            promise = found.spec.promise(name)
            kind, sentence = kind_of(promise), promise.sentence
        mark, note = Mark.EXHAUSTED, ""
        if shown:
            mark, note = Mark.FAILS, ""
        elif name in found.unknown:
            mark, note = Mark.UNKNOWN, f"z3 gave up at {counted(found.unknown[name], 'step')}"
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

REFINES = "refines"
"""The name under which `refine` reports a step without a meaning."""


def refined(subject: str, result: Refined) -> list[Finding]:
    """Whether each step has its meaning, and each meaning a step."""
    name = f"refines {result.refinement.abstract.name}"
    findings = []
    if result.obligations:
        spec = result.refinement.concrete
        findings.append(induced(subject, name, "check", SIMULATES, spec, result.obligations))
    if result.exploration is not None:
        findings += _refined_by_exploration(subject, name, result, result.exploration)
    return findings


SIMULATES = "Every step is, seen through the map, a step of the contract or none of it."


def _refined_by_exploration(
    subject: str, name: str, result: Refined, found: Exploration
) -> list[Finding]:
    judge = Explored(subject, found, {}, exactly=True)
    broken = found.violations.get(REFINES)
    mark, note = Mark.EXHAUSTED, judge.within
    if broken:
        mark, note = Mark.FAILS, "a step without a meaning"
    elif found.truncated:
        mark, note = Mark.UNKNOWN, CUT_SHORT
    elif result.idle:
        mark = Mark.UNKNOWN if found.dropped else Mark.FAILS
        note = f"no step means {', '.join(result.idle)}"
    steps = Finding(
        subject=subject, row=name, kind="check", mark=mark, bounds=judge.bounds,
        sentence=SIMULATES, note=note, found=shown_by(broken) if broken else None,
        story=told(broken), steps=taken_in(broken),
    )  # fmt: skip
    judged = [p for p in found.spec.properties if p.expectation in JUDGED_BY_STATES]
    return [steps, *map(judge.finding, judged)]


def safety(finding: Finding) -> bool:
    """Whether a finding is about what must never happen."""
    return finding.kind in (Expectation.ALWAYS.value, Expectation.STEP.value)
