"""`herdproof diff OLD NEW`: what a change of a spec changes; `--together`: may I roll it out?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from herdproof.cli.options import (
    BoundOption,
    FaultsOption,
    MayEndOption,
    SizeOption,
    WithinOption,
)
from herdproof.report.render import (
    COLOURS,
    JsonOption,
    Output,
    findings_json,
    spoken,
    table_of,
    verdict,
)
from herdspec.check.verdict import Finding, Mark, Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.exploration.exploration import Story
    from herdspec.check.refinement.changes import VerdictChange
    from herdspec.check.refinement.diff import Compared
    from herdspec.check.refinement.mixed_versions import Mixed
    from herdspec.language.specification import Specification

SPEC_HELP = "A spec as `explore` takes it, or git:REVISION:path/to/file.py:ClassName."


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=SPEC_HELP)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=SPEC_HELP)],
    size: SizeOption = None,
    faults: FaultsOption = 2,
    bound: BoundOption = None,
    within: WithinOption = False,
    pairs: Annotated[
        int, typer.Option(min=1, help="Pairs of states to look at for where they part.")
    ] = 1_000_000,
    proofs: Annotated[
        bool, typer.Option("--prove", help="Compare what is proved by induction, too.")
    ] = False,
    mixed: Annotated[
        bool, typer.Option("--together", help="Let old and new members run in one system.")
    ] = False,
    upgrade: Annotated[
        str | None,
        typer.Option("--upgrade", metavar="SORT", help="With --together: who is old or new."),
    ] = None,
    may_end: MayEndOption = False,
    json: JsonOption = None,
) -> None:
    """Say what a change of a spec changes. Of words, verdicts and behaviour; or it mixes both."""
    from herdproof.cli.spec.revisions import subject

    out = Output(json)
    with out.progress("reading the specs"):
        a, b = subject(old), subject(new)
    if bound is None:
        bound = max((s.bound for s in (a, b) if s.bound is not None), default=None)
    within = within or (a.within and b.within)
    asked = DiffOptions(sizes_of([a.spec, b.spec], size or []), faults, bound, may_end, within)
    if mixed:
        standing, found = run_together(out, a.spec, b.spec, upgrade, asked)
    elif upgrade:
        raise UsageError("--upgrade says who is old or new in one system: add --together")
    else:
        standing, found = run_diff(out, a, b, asked, pairs, proofs)
    out.json({"command": "diff", "exit": standing.value, "old": old, "new": new, **found})
    raise typer.Exit(standing.value)


class DiffOptions:
    """At which size, and how, specs are explored."""

    def __init__(
        self, sizes: dict[str, int], faults: int, bound: int | None, may_end: bool, within: bool
    ) -> None:
        self.sizes, self.faults, self.bound, self.may_end = sizes, faults, bound, may_end
        self.within = within
        self.reached = 0  # the largest bound of naturals that an exploration came to

    def of(self, spec: Specification) -> dict[str, int]:
        """The sizes of a spec's sorts."""
        return {name: self.sizes[name] for name in spec.sorts}

    def explored(
        self, out: Output, name: str, spec: Specification
    ) -> tuple[dict[str, Story], list[Finding]]:
        """The findings of an exploration, liveness too, with its stories; nothing is declared."""
        from herdspec.check.exploration.explore import explore
        from herdspec.check.liveness.liveness import live, liveness
        from herdspec.check.verdict import ALWAYS_A_STEP, explored, lived, measured_by

        sizes, faults, bound = self.of(spec), self.faults, self.bound
        with out.progress(f"explore {name}"):
            result = explore(spec, sizes, faults=faults, bound=bound, within=self.within)
        out.line(f"{name}: {measured_by(result)}")
        self.reached = max(self.reached, result.bound)
        stories = {**result.violations, **result.witnesses}
        if result.deadlock is not None:
            stories[ALWAYS_A_STEP] = result.deadlock
        findings = explored(name, result, {}, may_end=self.may_end)
        if live(spec):
            with out.progress(f"liveness of {name}"):
                endless = liveness(spec, sizes, faults=faults, bound=result.bound)
            stories |= endless.violations
            findings += lived(name, endless, {})
        return stories, findings


def sizes_of(specs: Sequence[Specification], given: list[str]) -> dict[str, int]:
    """The sizes of all sorts that one of the specs has."""
    from herdproof.cli import specs as known

    sizes: dict[str, int] = {}
    sorts = {sort for spec in specs for sort in spec.sorts}
    for text in given:
        if text.partition("=")[0] not in sorts:
            what = f"neither spec has a sort {text.partition('=')[0]!r}"
            raise UsageError(f"{what}; their sorts: {', '.join(sorted(sorts)) or 'none'}")
    for spec in specs:
        sizes |= known.sizes_of(spec, [t for t in given if t.partition("=")[0] in spec.sorts])
    return sizes


# ── One after the other ─────────────────────────────────────────────────────────────────────


def run_diff(
    out: Output, old: Subject, new: Subject, asked: DiffOptions, pairs: int, proofs: bool
) -> tuple[Standing, dict[str, Any]]:
    """Words, verdicts, behaviour."""
    from herdspec.check.refinement.changes import changes, verdicts
    from herdspec.check.refinement.diff import compare

    words = changes(old.spec, new.spec)
    for line in words or ["They say the same."]:
        out.line(line)
    out.line()
    names = ("old", "new")
    found = [asked.explored(out, n, s.spec)[1] for n, s in zip(names, (old, new), strict=True)]
    if proofs:
        found = [f + proved(out, s.spec) for f, s in zip(found, (old, new), strict=True)]
    table = verdicts(*found)
    print_verdicts(out, table)
    with out.progress("compare behaviour"):
        compared = compare(
            old.spec, new.spec, asked.sizes, faults=asked.faults, bound=asked.reached,
            pairs=pairs, within=asked.within,
        )  # fmt: skip
    print_compared(out, compared)
    standing, conclusion = worst(table), ""
    if standing is Standing.HOLDS and not compared.decided:
        standing, conclusion = Standing.UNKNOWN, "Unknown: behaviour was not compared to the end."
    out.line()
    out.line(conclusion or CONCLUSIONS[standing], style=COLOURS[standing])
    return standing, {
        "words": words, "verdicts": [change_json(c) for c in table],
        "behaviour": compared_json(compared),
    }  # fmt: skip


CONCLUSIONS = {
    Standing.HOLDS: "No verdict got worse.",
    Standing.FAILS: "A verdict got worse.",
    Standing.UNKNOWN: "Unknown: a verdict was cut short.",
}


def worst(table: Sequence[VerdictChange]) -> Standing:
    """The worst of some changes: failures before unknowns."""
    found = {c.standing for c in table}
    return next((s for s in (Standing.FAILS, Standing.UNKNOWN) if s in found), Standing.HOLDS)


def proved(out: Output, spec: Specification) -> list[Finding]:
    """The findings of induction."""
    from herdspec.check.proof.proof_verdict import proved as judged
    from herdspec.check.proof.prove import prove

    with out.progress(f"prove {spec.name}"):
        return judged(spec.name, prove(spec))


def print_verdicts(out: Output, table: Sequence[VerdictChange]) -> None:
    """The verdicts that changed, side by side; of the others, how many."""
    changed = [c for c in table if c.changed]
    same = len(table) - len(changed)
    out.line(f"{counted(len(changed), 'verdict')} changed, {same:,} did not")
    if not changed:
        return
    shown = table_of("property", "demand", "old", "new", "")
    for c in changed:
        note = {Standing.FAILS: "worse", Standing.UNKNOWN: "unknown"}.get(c.standing, "")
        note = "promised no more" if c.new is None or c.is_of_another_kind else note
        colour = COLOURS[c.standing]
        cells = [escape(cell(f)) for f in (c.old, c.new)]
        shown.add_row(spoken(c.row), c.kind, *cells, f"[{colour}]{note}[/{colour}]")
    out.line()
    out.table(shown)


def cell(finding: Finding | None) -> str:
    """A verdict in a few words."""
    return verdict(finding) if finding else "–"


def print_compared(out: Output, compared: Compared) -> None:
    """Where they part."""
    from herdspec.check.refinement.diff import Parts

    titles = {
        Parts.START: "They start differently",
        Parts.OLD_ALONE: "Allowed by the old one only",
        Parts.NEW_ALONE: "Allowed by the new one only",
        Parts.EFFECT: "Possible in both, with another effect",
        Parts.BUDGET: "Allowed by the budget of faults of one only",
    }
    out.line()
    out.line(f"side by side: {compared.line}")
    for field in compared.apart:
        out.line(f"the field {field} is not compared: its values are others")
    for name in compared.alone:
        out.line(f"{name}: only one has it, and it may change nothing of what both have")
    for name in compared.meaningless:
        out.line(
            f"{name}: in one it looks at a value that is not there, where the other refuses it"
        )
    for mark in compared.marks:
        out.line(mark)
    for kind, title in titles.items():
        if kind in compared.partings:
            out.line()
            out.line(f"{title}, {counted(len(compared.partings[kind].steps), 'step')}:")
            for line in compared.partings[kind].lines:
                out.line(f"  {line}")
    if not compared.partings:
        out.line(unparted(compared))


def unparted(compared: Compared) -> str:
    """The words where they were not seen to part."""
    if not compared.shared:
        return "they have no field in common that compares: nothing was compared"
    far = "at this size" if compared.exhausted else f"in {counted(compared.depth, 'step')}"
    far += ", within the bounds" if compared.within and compared.dropped else ""
    of = " of the fields that were compared" if compared.apart or compared.alone else ""
    if compared.same:
        return f"they allow the same behaviour{of} {far}"
    if compared.decided:
        return f"they take the same steps {far}, but what is said above is not the same"
    return f"no difference was found{of} {far}; whether there is one is not known"


def change_json(c: VerdictChange) -> dict[str, Any]:
    """A change of a verdict as JSON."""
    a, b = (findings_json([f])[0] if f else None for f in (c.old, c.new))
    standing = c.standing.name.lower()
    return {"property": c.row, "changed": c.changed, "standing": standing, "old": a, "new": b}


def compared_json(c: Compared) -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "pairs": c.pairs, "depth": c.depth, "dropped": c.dropped, "exhausted": c.exhausted,
        "alone": list(c.alone), "compared": list(c.shared), "not_compared": list(c.apart),
        "constrained": c.constrained, "marks": list(c.marks), "meaningless": list(c.meaningless),
        "within": c.within, "decided": c.decided, "same": c.same,
        "partings": {
            kind.name.lower(): {"steps": [s.label for s in p.steps], "story": p.lines}
            for kind, p in c.partings.items()
        },
    }  # fmt: skip


# ── In one system ───────────────────────────────────────────────────────────────────────────


def run_together(
    out: Output, old: Specification, new: Specification, sort: str | None, asked: DiffOptions
) -> tuple[Standing, dict[str, Any]]:
    """Explore each alone, and both in one; what fails only together is a failure."""
    from herdspec.check.refinement.mixed_versions import together

    made = together(old, new, sort or only_sort(old, new))
    alone = {}
    for name, spec in (("old", old), ("new", new)):
        findings = asked.explored(out, f"{name} alone", spec)[1]
        alone.update({(id(spec), f.row): f for f in findings})
    stories, findings = asked.explored(out, "together", made.spec)
    findings = [retold(made, stories, f) for f in findings]
    rows = [(f, before(made, alone, f, old), before(made, alone, f, new)) for f in findings]
    standing = print_together(out, made, rows)
    shown = [{**findings_json([f])[0], "only_together": only_together(f, a, b)} for f, a, b in rows]
    return standing, {"together": made.sort, "findings": shown}


def only_sort(old: Specification, new: Specification) -> str:
    """The sort whose members are upgraded, where there is no choice."""
    both = [sort for sort in new.sorts if sort in old.sorts]
    if len(both) != 1:
        known = f"one of {', '.join(both)}" if both else "they have no sort in common"
        raise UsageError(f"--together: say who is old or new by --upgrade SORT: {known}")
    return both[0]


def retold(made: Mixed, stories: dict[str, Story], finding: Finding) -> Finding:
    """A finding whose story says who is old."""
    if not finding.story or finding.row not in stories:
        return finding
    return replace(finding, story=tuple(made.lines(stories[finding.row])))


def before(
    made: Mixed, alone: dict[tuple[int, str], Finding], finding: Finding, spec: Specification
) -> Finding | None:
    """The finding of one of the two alone on a property; None if it does not promise it."""
    own = {id(s): name for s, name in made.promised.get(finding.row, ())}
    if finding.row not in made.promised:
        return alone.get((id(spec), finding.row))
    return alone[id(spec), own[id(spec)]] if id(spec) in own else None


def only_together(finding: Finding, *alone: Finding | None) -> bool:
    """Tells whether it fails, and fails in none of those that promise it."""
    failed = [f for f in alone if f and f.mark is Mark.FAILS]
    return finding.mark is Mark.FAILS and not failed


def print_together(
    out: Output, made: Mixed, rows: Sequence[tuple[Finding, Finding | None, Finding | None]]
) -> Standing:
    """Each promise alone and together; the stories of what fails only together."""
    shown = table_of("property", "demand", "old alone", "new alone", "together", "")
    bad, unknown = [], False
    for f, a, b in rows:
        worse = only_together(f, a, b)
        unknown |= f.mark is Mark.UNKNOWN
        bad += [f] if worse else []
        note = "[red]only together[/red]" if worse else ""
        shown.add_row(spoken(f.row), f.kind, *(escape(cell(x)) for x in (a, b, f)), note)
    out.line()
    out.table(shown)
    for f in bad:
        out.line()
        out.line(f'broken while some {made.sort.lower()}s are old and some are new: "{f.sentence}"')
        for line in f.story:
            out.line(f"  {line}")
    standing = Standing.FAILS if bad else Standing.UNKNOWN if unknown else Standing.HOLDS
    out.line()
    out.line(TOGETHER[standing], style=COLOURS[standing])
    return standing


TOGETHER = {
    Standing.HOLDS: "Old and new members together keep what both keep alone.",
    Standing.FAILS: "Do not roll it out so: a promise fails only together.",
    Standing.UNKNOWN: "Unknown: a verdict was cut short.",
}
