"""`herdproof search SPEC --depth N`: the shortest run that breaks a promise, by bounded search."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdproof.cli.options import (
    BoundOption,
    FaultsOption,
    SaveStoriesOption,
    SizeOption,
    SpecArgument,
    WithinOption,
)
from herdproof.report.render import (
    COLOURS,
    JsonOption,
    Output,
    coloured,
    findings_json,
    spoken,
    story,
    table_of,
    unknown_of,
    verdict,
)
from herdspec.check.verdict import Mark, Standing

if TYPE_CHECKING:
    from herdproof.cli.specs import Subject
    from herdspec.check.simulation.search import Search
    from herdspec.check.verdict import Finding


def search(
    spec: SpecArgument,
    depth: Annotated[int, typer.Option(min=0, help="The longest run to look at.")],
    size: SizeOption = None,
    faults: FaultsOption = 2,
    bound: BoundOption = None,
    within: WithinOption = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME", help="Look for violations of this one only."),
    ] = None,
    resources: Annotated[
        int | None, typer.Option(min=1, help="z3's resource limit for each question.")
    ] = None,
    save_stories: SaveStoriesOption = None,
    json: JsonOption = None,
) -> None:
    """Search for runs that break a promise, by z3. It is for what is too large to explore."""
    from herdproof.cli.specs import promise_of, read, sizes_of, whole_name
    from herdspec.check.simulation.search import RESOURCES
    from herdspec.check.simulation.search import search as look
    from herdspec.check.verdict import searched

    out = Output(json)
    subject = read(out, spec)
    sizes = sizes_of(subject.spec, size or [])
    wanted = frozenset(promise_of(subject.spec, name) for name in only or [])
    begun = perf_counter()
    with out.progress(f"search {subject.name}") as tell:
        found = look(
            subject.spec, sizes, faults=faults, depth=depth, only=wanted or None,
            bound=subject.bound if bound is None else bound, within=within or subject.within,
            resources=resources or RESOURCES,
            progress=lambda k: tell(f"{k} of {depth} steps", k / max(depth, 1)),
        )  # fmt: skip
    exactly = subject.exactly_at(sizes, faults)
    findings = searched(subject.name, found, subject.declared, exactly=exactly)
    print_search(out, subject, found, findings, perf_counter() - begun)
    if save_stories is not None:
        from herdproof.cli.code import stories

        runs = stories.FoundStories(stories.machine_at(subject.spec, found), found.violations)
        stories.save_stories(out, save_stories, whole_name(spec, subject), runs)
    standing = print_conclusion(out, found, findings)
    out.json(search_json(found, findings, standing.value))
    raise typer.Exit(standing.value)


def print_search(
    out: Output, subject: Subject, found: Search, findings: list[Finding], seconds: float
) -> None:
    """The verdicts, and the shortest of the stories."""
    out.line(f"{subject.name}: {subject.spec.sentence}")
    raised = f" (raised from {found.bounds_tried[0]})" if len(found.bounds_tried) > 1 else ""
    out.line(f"{findings[0].bounds}, naturals up to {found.bound}{raised}, {seconds:.1f} s")
    if found.left_out:
        out.line(f"cut from step {found.cut} on: {found.left_out.sentence}")
    out.line()
    table = table_of("property", "demand", "verdict")
    for f in findings:
        table.add_row(spoken(f.row), f.kind, coloured(f, verdict(f)))
    out.table(table)
    broken = sorted((f for f in findings if f.story), key=lambda f: len(f.story))
    for finding in broken[:1]:
        out.line()
        for line in story(finding):
            out.line(line)


def print_conclusion(out: Output, found: Search, findings: list[Finding]) -> Standing:
    """The verdict in one line: a search that finds nothing is no proof."""
    from herdspec.check.verdict import standing_of

    standing = standing_of(findings)
    said = {
        Standing.HOLDS: f"Nothing was found within {found.depth} steps (no longer run was tried).",
        Standing.FAILS: "It fails.",
        Standing.UNKNOWN: f"Unknown: {unknown_of(findings)}.",
    }[standing]
    if standing is Standing.HOLDS and any(f.mark is Mark.FAILS for f in findings):
        said = "It fails as declared."
    out.line()
    out.line(said, style=COLOURS[standing])
    return standing


def search_json(found: Search, findings: list[Finding], code: int) -> dict[str, Any]:
    """A search as JSON."""
    return {
        "command": "search", "exit": code, "spec": found.spec.name, "sizes": dict(found.sizes),
        "faults": found.faults, "bound": found.bound, "depth": found.depth,
        "unknown": found.unknown, "cut": found.cut, "within": found.within,
        "left_out": found.left_out.sentence if found.left_out else None,
        "constraint": found.constraint, "findings": findings_json(findings),
    }  # fmt: skip
