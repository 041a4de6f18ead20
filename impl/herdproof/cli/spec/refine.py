"""`herdproof refine FILE.py[:REFINEMENT]`: whether every step of one spec is one of another's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.options import BoundOption, FaultsOption, SizeOption, WithinOption
from herdproof.report.render import (
    COLOURS,
    JsonOption,
    Output,
    coloured,
    conclusion,
    findings_json,
    spoken,
    story,
    table_of,
    verdict,
)
from herdspec.check.verdict import Mark, Standing, counted
from herdspec.language.errors import UsageError

if TYPE_CHECKING:
    from herdspec.check.refinement.refine import Refined, Refinement
    from herdspec.check.verdict import Finding


def refine(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE.py[:REFINEMENT]", help="A file, and its refinement."),
    ],
    size: SizeOption = None,
    faults: FaultsOption = 2,
    bound: BoundOption = None,
    within: WithinOption = False,
    prove: Annotated[
        bool, typer.Option("--prove/--no-prove", help="Prove it for any number of elements, too.")
    ] = True,
    json: JsonOption = None,
) -> None:
    """Say whether every step of one spec is one of another. They are seen through a map."""
    from herdproof.cli.specs import sizes_of
    from herdspec.check.verdict import refined, standing_of

    out = Output(json)
    with out.progress("reading the refinement"):
        name, through = find_refinement(file)
    sizes = sizes_of(through.concrete, size or [])
    found = RefineOptions(sizes, faults, bound, within, prove).check(out, through)
    findings = refined(through.concrete.name, found)
    print_refined(out, name, found, findings)
    standing = standing_of(findings)
    out.line()
    out.line(conclusion(findings), style=COLOURS[standing])
    out.json(refined_json(name, found, findings, standing.value))
    raise typer.Exit(standing.value)


# ── Which ───────────────────────────────────────────────────────────────────────────────────


def find_refinement(wanted: str) -> tuple[str, Refinement]:
    """The refinement of this name in this file, or its only one; raises `UsageError`."""
    from herdproof.cli.loading import imported
    from herdproof.cli.specs import specs_in
    from herdspec.check.refinement.refine import Refinement

    path, colon, name = wanted.rpartition(":")
    if not colon:
        path, name = wanted, ""
    if not path.endswith(".py"):
        raise UsageError(f"{wanted}: name a file with a refinement: path/to/file.py:REFINEMENT")
    module = imported(Path(path))
    known = {n: v for n, v in vars(module).items() if isinstance(v, Refinement)}
    if not known:
        how = "REFINEMENT = Refinement(concrete=…, abstract=…, fields=…, actions=…)"
        raise UsageError(f"{path} holds no refinement: define one, {how}")
    listed = ", ".join(f"{path}:{n}" for n in known)
    if not name and len(known) > 1:
        raise UsageError(f"{path} holds {len(known)} refinements; say which: {listed}")
    if name and name not in known:
        what = "is a spec" if name in specs_in(module) else "is not there"
        raise UsageError(f"{path}: {name} {what}; the refinements: {listed}")
    name = name or next(iter(known))
    return name, known[name]


# ── Checking ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RefineOptions:
    """At which size every step is looked at, and whether it is proved for any."""

    sizes: Mapping[str, int]
    faults: int
    bound: int | None
    within: bool
    prove: bool

    def check(self, out: Output, through: Refinement) -> Refined:
        """Explore every step, and prove it for any size."""
        from herdspec.check.refinement.refine import refine_by_proof

        seen = self.explored(out, through)
        if not self.prove:
            return seen
        with out.progress(f"prove {through.concrete.name}"):
            for_all = refine_by_proof(through)
        return replace(seen, obligations=for_all.obligations, given=for_all.given)

    def explored(self, out: Output, through: Refinement) -> Refined:
        """Explore."""
        from herdspec.check.refinement.refine import refine_by_exploration
        from herdspec.check.verify import levels

        with out.progress(f"refine {through.concrete.name}") as tell:
            return refine_by_exploration(
                through, self.sizes, faults=self.faults, bound=self.bound, within=self.within,
                progress=levels(tell),
            )  # fmt: skip


# ── Printing ────────────────────────────────────────────────────────────────────────────────


def print_refined(out: Output, name: str, found: Refined, findings: list[Finding]) -> None:
    """Print what is mapped to what, how much was looked at, the verdicts, and a story."""
    from herdspec.check.verdict import bounds_of, measured_by

    through, seen = found.refinement, found.exploration
    assert seen is not None, "it was explored"
    out.line(f"{name}: {through.concrete.name} as {through.abstract.name}")
    out.line(f"{bounds_of(seen)}: {measured_by(seen)}, {seen.seconds:.1f} s")
    for cut in seen.cuts:
        out.line(f"cut: {cut.sentence}")
    if found.obligations:
        out.line(f"{counted(len(found.obligations), 'obligation')} of the proof")
    out.line()
    table = table_of("action", "means", "taken")
    table.columns[2].justify = "right"
    for action in through.concrete.actions:
        count = seen.taken[action.name]
        meanings = ", ".join(through.meanings(action.name))
        table.add_row(action.name, meanings, f"{count:,}" if count else "never")
    out.table(table)
    out.line()
    table = table_of("property", "demand", "verdict")
    for f in findings:
        table.add_row(spoken(f.row), f.kind, coloured(f, verdict(f)))
    out.table(table)
    for f in findings:
        if f.mark is not Mark.EXHAUSTED and (f.story or f.found):
            out.line()
            for line in story(f):
                out.line(line)
            if f.found and not f.found.steps:
                out.line(f"  {f.note}")


def refined_json(name: str, found: Refined, findings: list[Finding], code: int) -> dict[str, Any]:
    """The result of a refinement, as JSON."""
    through, seen = found.refinement, found.exploration
    assert seen is not None, "it was explored"
    return {
        "command": "refine", "exit": code, "refinement": name,
        "concrete": through.concrete.name, "abstract": through.abstract.name,
        "standing": Standing(code).name.lower(), "sizes": dict(seen.sizes),
        "faults": seen.faults, "bound": seen.bound, "states": seen.states, "orbits": seen.orbits,
        "dropped": seen.dropped, "truncated": seen.truncated, "idle": found.idle,
        "obligations": [
            {"action": o.action, "outcome": o.outcome.name.lower()} for o in found.obligations
        ],
        "given": list(found.given), "findings": findings_json(findings),
    }  # fmt: skip
